"""Values of trials lie on the grid that the file writes."""

from __future__ import annotations

import pytest
from coadapt.tuning.proposals import propose
from coadapt.tuning.space import SpaceError, read

FIELDS = {
    "lr": {"log": [0.001, 1.0], "step": 0.001},
    "momentum": {"uniform": [0.5, 0.99], "step": 0.01},
    "batch_size": {"choice": [64, 128]},
    "layers": {"int": [2, 8], "step": 2},
    "width": {"log_int": [16, 64]},
    "nesterov": True,
}


def test_every_value_is_in_its_range_and_on_its_step() -> None:
    for trial in propose("random", read(FIELDS), "max", 0, [], 200):
        assert 0.001 <= float(trial["lr"] or 0) <= 1.0
        assert round(float(trial["lr"] or 0) * 1000, 6) % 1 == 0
        assert round(float(trial["momentum"] or 0) * 100, 6) % 1 == 0
        assert 0.5 <= float(trial["momentum"] or 0) <= 0.99
        assert trial["batch_size"] in (64, 128)
        assert trial["layers"] in (2, 4, 6, 8)
        assert isinstance(trial["width"], int)
        assert trial["nesterov"] is True


def test_a_logarithm_draws_each_factor_as_often() -> None:
    drawn = propose("random", read({"lr": {"log": [1e-4, 1.0]}}), "max", 1, [], 2000)
    below = sum(float(trial["lr"] or 0) < 1e-2 for trial in drawn)
    assert below == pytest.approx(1000, abs=80)


def test_the_size_counts_the_grid() -> None:
    space = read({"momentum": {"uniform": [0, 1], "step": 0.25}, "batch_size": {"choice": [64, 128]}})
    assert space.size == 10
    assert space.searched[0].values() == [0, 0.25, 0.5, 0.75, 1]
    assert read({"lr": {"uniform": [0, 1]}}).size == float("inf")


def test_a_step_that_does_not_reach_the_end_stays_below_it() -> None:
    space = read({"m": {"uniform": [0, 1], "step": 0.4}})
    assert space.searched[0].values() == [0, 0.4, 0.8]
    assert space.trial({"m": 1.0})["m"] == 0.8


def test_what_is_no_number_cannot_be_fused() -> None:
    space = read({"opt": {"choice": ["sgd", "adam"]}, "bias": {"choice": [True, False]}, "lr": {"choice": [1, 2]}})
    assert space.cannot_fuse() == {"opt", "bias"}


def test_no_end_of_values_cannot_be_listed() -> None:
    with pytest.raises(ValueError, match="lr may be any number"):
        read({"lr": {"uniform": [0, 1]}}).searched[0].values()
    with pytest.raises(SpaceError):
        read({})
