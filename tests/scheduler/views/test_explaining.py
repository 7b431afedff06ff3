"""A job with a target is told when that is to be reached, as the last round planned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.expected import UNKNOWN, Expected, ExpectedSource
from coadapt.core.job import Phase
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.observers.hooks import RoundDone
from coadapt.scheduler.views.explaining import expected_of, told_of_its_target
from coadapt.scheduler.views.job_views import job_details

from tests.support.cycles import World

BY_CURVE = Expected(1200.0, 900.0, 1800.0, ExpectedSource.LEARNING_CURVE, "its own curve of accuracy")
WHY = "accuracy has 2 points and a curve needs 4, so it plans with all of its training"
BY_SPEED = Expected(3000.0, 0.0, 3300.0, ExpectedSource.MEASURED_SPEED, note=WHY)


@pytest.fixture
def planned(tmp_path: Path) -> tuple[JobRecord, RoundDone]:
    """Return a job with a target that trains, and the round that planned it."""
    world = World(tmp_path, "1x t4:4")
    world.play("submit a unprofiled target=0.9\nwish a t4-000:2\ngo\nruns a\nevaluated a 2000 0.4\ngo")
    assert world.cycle.last_round is not None
    return world.job("a"), world.cycle.last_round


def expecting(last: RoundDone, expected: Expected) -> RoundDone:
    (view,) = last.round.jobs
    return replace(last, round=replace(last.round, jobs=(replace(view, expected=expected),)))


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (BY_CURVE, "about 20 min left (15 to 30), by its own curve of accuracy"),
        (BY_SPEED, f"about 50 min left (0 to 55), from measured speed; {WHY}"),
    ],
)
def test_explain_and_describe_say_when_the_target_is_reached_and_by_what(planned, expected, text: str) -> None:
    job, last = planned
    last = expecting(last, expected)
    line = f"Until accuracy is at least 0.9: {text}."
    assert told_of_its_target(job, last, []) == [line]
    assert told_of_its_target(job, last, [f"Expected: {text}."]) == [], "the policy said so"
    view = job_details(job, [], expected=expected_of(job, last))["target"]
    assert view["text"] == f"accuracy at least 0.9: 0.4, 0.5 to go; {text}"


def test_nothing_is_said_of_jobs_without_target_round_or_known_length_and_of_ended_ones(planned) -> None:
    job, last = planned
    training = job.spec.training.model_copy(update={"target": None})
    without = replace(job, spec=job.spec.model_copy(update={"training": training}))
    ended = replace(job, state=replace(job.state, phase=Phase.SUCCEEDED))
    assert told_of_its_target(without, expecting(last, BY_CURVE), []) == []
    assert told_of_its_target(job, None, []) == []
    assert told_of_its_target(job, expecting(last, UNKNOWN), []) == []
    assert told_of_its_target(ended, expecting(last, BY_CURVE), []) == []
