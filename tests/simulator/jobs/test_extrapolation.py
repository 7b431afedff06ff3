"""Beyond its measurements a model goes on with a throughput model that is fitted to them, and says so once."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from coadapt.simulator.jobs.applications import Application
from coadapt.simulator.jobs.extrapolation import ExtrapolatedStepTimes, NotMeasured
from coadapt.simulator.jobs.step_times import StepTimes

from tests.support.profiles import written


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path)


def test_an_application_goes_on_beyond_its_measurements_by_a_fitted_model_and_says_so_once(model: Path) -> None:
    times = Application.read(model, ["x"]).step_times["x"]
    assert times.measured((1, 2))
    assert not times.measured((8, 8))
    with pytest.warns(UserWarning, match=r"tiny on x: placements such as \[8, 8\] \(replicas per node\) were not"):
        beyond = times.at((8, 8), 16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert times.sizes((8, 8)) == (8, 16)
        assert times.at((8, 8, 8), 16).step_s > 0
    assert beyond.step_s > times.at((1,), 16).step_s  # it has more to synchronise


def test_what_was_measured_is_given_as_measured_and_without_a_word(model: Path) -> None:
    times = StepTimes.read(model, "x")
    beyond = ExtrapolatedStepTimes("tiny on x", times)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((1,), (1, 2)):
            assert beyond.at(shape, 8) == times.at(shape, 8)
        assert beyond.sizes((1,)) == times.sizes((1,))
        assert list(beyond.samples()) == list(times.samples())


def test_the_fitted_model_is_near_what_was_measured(model: Path) -> None:
    times = StepTimes.read(model, "x")
    fitted = ExtrapolatedStepTimes("tiny on x", times).fitted
    for shape in ((1,), (2,), (1, 1), (1, 2)):
        assert fitted.at(shape, 16).step_s == pytest.approx(times.at(shape, 16).step_s, rel=0.25)


def test_the_warning_says_whom_it_is_about(model: Path) -> None:
    with pytest.warns(NotMeasured) as told:
        ExtrapolatedStepTimes("tiny on x", StepTimes.read(model, "x")).sizes((8, 8))
    (one,) = told
    assert isinstance(one.message, NotMeasured)
    assert one.message.about == "tiny on x"
