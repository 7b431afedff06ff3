"""Epochs are timed from a job's first progress on, and anew where its GPUs change."""

from __future__ import annotations

import pytest
from coadapt.tuning.live.epoch_clock import EpochClock


def test_the_start_of_a_job_does_not_count() -> None:
    clock = EpochClock()
    for now_s, epochs in ((0.0, 0.0), (60.0, 0.1), (65.0, 0.2)):
        assert clock.of("a") is None
        clock.look("a", epochs, 1, now_s)
    assert clock.of("a") == pytest.approx(50.0)


@pytest.mark.parametrize(("now_s", "epochs"), [(104.0, 0.9), (190.0, 0.14)], ids=["a moment", "a few steps"])
def test_little_is_no_measure(now_s: float, epochs: float) -> None:
    clock = EpochClock()
    clock.look("a", 0.1, 1, 100.0)
    clock.look("a", epochs, 1, now_s)
    assert clock.of("a") is None


@pytest.mark.parametrize(("gpus", "epochs"), [(2, 0.6), (1, 0.2)], ids=["other GPUs", "an epoch is done again"])
def test_what_was_before_a_change_does_not_count(gpus: int, epochs: float) -> None:
    clock = EpochClock()
    clock.look("a", 0.1, 1, 100.0)
    clock.look("a", 0.5, 1, 140.0)
    clock.look("a", epochs, gpus, 200.0)
    assert clock.of("a") is None
    clock.look("a", epochs + 0.5, gpus, 220.0)
    assert clock.of("a") == pytest.approx(40.0)
