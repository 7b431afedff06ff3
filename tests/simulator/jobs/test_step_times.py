"""Measured step times are given as measured, between measurements by interpolation, and never beyond them."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.simulator.jobs.applications import Application, MeasuredApplications
from coadapt.simulator.jobs.step_times import StepTimes, canonical

from tests.support.profiles import PLACEMENTS, written


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path)


def test_measured_shapes_are_interpolated_between_batch_sizes(model: Path) -> None:
    times = StepTimes.read(model, "x")
    assert times.at((1,), 8).step_s == 1.0
    assert times.at((1,), 12).step_s == pytest.approx(1.3)
    assert times.at((2, 1), 8) == times.at((1, 2), 8)  # a rotation is the same shape
    assert times.at((1, 2), 8).pass_s == pytest.approx(1.2)
    assert canonical((0, 2, 1)) == (1, 2)


def test_other_shapes_lie_between_those_that_were_measured(model: Path) -> None:
    times = StepTimes.read(model, "x")
    between = times.at((2, 2, 2), 8)  # between 1 + 2 and 2 + 2 + 2 + 2
    assert 1.7 < between.step_s < 2.0
    assert times.sizes((2, 2, 2)) == (8.0, 16.0)


def test_measurements_of_a_single_node_say_nothing_of_other_shapes(model: Path) -> None:
    (model / "placements-x.csv").write_text("".join(PLACEMENTS.splitlines(keepends=True)[:5]))
    (model / "scalability-x.csv").write_text(
        "num_nodes,num_replicas,local_bsz,step_time,sync_time\n1,4,8,1.4,0.3\n"
    )
    times = StepTimes.read(model, "x")
    assert times.at((2,), 8).step_s == 1.2
    with pytest.raises(ValueError, match=r"\(1, 1\) replicas with 8 samples each were not measured"):
        times.at((1, 1), 8)
    # An application goes on with the throughput model fitted to them.
    with pytest.warns(UserWarning, match="were not measured"):
        assert Application.read(model, ["x"]).step_times["x"].at((2, 2), 8).step_s > 1.0


def test_beyond_the_measurements_there_is_an_error(model: Path) -> None:
    times = StepTimes.read(model, "x")
    with pytest.raises(ValueError, match=r"tiny on x: \(1,\) replicas with 64 samples each were not measured"):
        times.at((1,), 64)
    with pytest.raises(ValueError, match="nothing like"):
        times.sizes((8, 8, 8, 8, 8))


def test_an_application_trains_as_it_was_measured(model: Path) -> None:
    application = Application.read(model, ["x"])
    statistics = application.statistics
    assert (application.initial_batch_size, application.max_batch_size, application.epochs) == (16, 64, 2)
    assert statistics.boundaries.tolist() == [100, 200]  # the least over batch sizes
    assert statistics.gain(16, 0) == pytest.approx(1.0)
    assert statistics.gain(64, 0) == pytest.approx((4 + 1) / (4 / 4 + 1))
    assert statistics.noise_scale(16, 1) == pytest.approx(8 * 16)
    assert application.local_bsz == {"x": (8, 16)}


BAD = [
    ("placements-x.csv", "1.6", "-1.6", "line 3: step_time -1.6"),
    ("placements-x.csv", "1.6", "", "line 3: step_time '' is not a number"),
    ("placements-x.csv", "sync_time", "sync", "column 'sync_time' is missing"),
    ("placements-x.csv", PLACEMENTS, "local_bsz,step_time,sync_time,placement\n", "no rows"),
    ("scalability-x.csv", "4,8,8", "4,8.5,8", "line 2: num_replicas 8.5"),
    ("validation-16.csv", "8.0", "nan", "line 3: grad_var nan"),
]


@pytest.mark.parametrize(("name", "old", "new", "told"), BAD)
def test_a_bad_profile_is_refused_in_one_sentence(model: Path, name: str, old: str, new: str, told: str) -> None:
    file = model / name
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        Application.read(model, ["x"])
    assert told in str(error.value)


def test_models_and_gpu_types_that_were_not_measured_are_named_with_those_that_were(model: Path) -> None:
    applications = MeasuredApplications(model.parent, ["x"])
    with pytest.raises(ValueError, match=r"has no model 'huge'; it has tiny"):
        applications["huge"]
    with pytest.raises(
        ValueError, match=r"tiny was not measured on h100, no such job will run there; it was on x"
    ):
        MeasuredApplications(model.parent, ["h100"])["tiny"]
    with pytest.warns(
        UserWarning, match=r"tiny was not measured on h100, no such job will run there; it was on x"
    ):
        assert set(MeasuredApplications(model.parent, ["x", "h100"])["tiny"].step_times) == {"x"}
    with pytest.raises(ValueError, match="is no folder"):
        MeasuredApplications(model.parent / "none", ["x"])
