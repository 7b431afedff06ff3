"""Sums of GPU time are those of the intervals, whatever begins and ends when."""

from __future__ import annotations

import pytest
from coadapt.scheduler.jobs.held_time import TRAINING, HeldTime
from hypothesis import given
from hypothesis import strategies as st

# (key, GPUs, seconds until it ends, seconds until the next begins)
spans = st.lists(
    st.tuples(st.sampled_from([TRAINING, "t4", "a100"]), st.integers(1, 8), st.floats(0, 50), st.floats(0, 50)),
    max_size=12,
)


@given(spans, st.floats(0, 500))
def test_sums_are_those_of_the_intervals(history: list[tuple[str, int, float, float]], window_s: float) -> None:
    held, now, gpu_s, trained = HeldTime(), 0.0, 0.0, []
    for key, gpus, for_s, gap_s in history:
        held = held.begun(key, now, gpus).ended(key, now + for_s)
        gpu_s += gpus * for_s
        trained += [(now, now + for_s)] if key == TRAINING else []
        now += for_s + gap_s
    held = held.begun(TRAINING, now, 2)
    end_s, since = now + 10.0, now + 10.0 - window_s
    trained.append((now, end_s))
    assert held.gpu_s(end_s) == pytest.approx(gpu_s + 20.0)
    expected = sum(max(stop - max(start, since), 0.0) for start, stop in trained)
    assert held.served_s(since, end_s) == pytest.approx(expected)


def test_the_end_of_what_never_began_changes_nothing() -> None:
    held = HeldTime().begun("a100", 1.0, 2)
    assert held.ended("t4", 5.0) == held
