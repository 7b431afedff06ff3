"""`coadapt describe` says what a script was seen to do that decides how its job may be scaled."""

from dataclasses import replace

import pytest
from coadapt.core.job import JobSpec, JobState, Phase
from coadapt.core.reports import Habits, StepRow
from coadapt.estimators.measurements import Measurements
from coadapt.executor.protocol.messages import Ready
from coadapt.scheduler.changes.habits import fits_nowhere
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.views.job_views import job_details

READY = Ready("net", 32, 1000, 4096, "SGD", False)
FLOOR = "a replica is given at least {} samples of a batch: its model normalises over them, or fails with fewer"
ONE_PASS = "a batch is one pass on each replica; for a larger batch size several make one step"


@pytest.mark.parametrize(
    ("ready", "habits", "told"),
    [
        (READY, Habits(), []),
        (replace(READY, least_local_bsz=16), Habits(), [FLOOR.format(16)]),
        (
            READY,
            Habits(undivided=True, least_local_bsz=32),
            ["its loss is one over whole batches: more GPUs would not make a step faster", ONE_PASS],
        ),
        (READY, Habits(undivided=True), [ONE_PASS]),
        (
            READY,
            Habits(one_pass=True),
            ["it changes its parameters several times a batch: its batch size stays, and a batch is one pass"],
        ),
        (READY, Habits(per_step=4), ["it makes a step of 4 batches, which counts as its initial batch size"]),
        (
            READY,
            Habits(whole_batches=False),
            ["its loop does not count its batches, and may be given larger ones"],
        ),
    ],
)
def test_each_habit_is_a_sentence(ready: Ready, habits: Habits, told: list[str]) -> None:
    measured = Measurements().with_info(ready.info).with_habits(habits)
    job = JobRecord("j-1", 1, JobSpec(name="j", script="t.py"), JobState(Phase.RUNNING))
    assert job_details(job, [])["habits"] == [], "nothing is known yet"
    assert job_details(replace(job, measurements=measured), [])["habits"] == told


def test_a_floor_is_as_low_as_the_fewest_gpus_of_the_job_ask_for() -> None:
    measured = Measurements().with_info(replace(READY, least_local_bsz=16).info)
    spec = JobSpec.model_validate({"name": "j", "script": "t.py", "resources": {"min_gpus": 4}})
    job = JobRecord("j-1", 1, spec, JobState(Phase.RUNNING), measurements=measured)
    assert job_details(job, [])["habits"] == [FLOOR.format(8)]


@pytest.mark.parametrize(
    ("floor", "told"),
    [
        (4, ""),
        (16, ""),
        (24, "no batch fits: a replica needs at least 24 samples, and at most these fit: a100 16, t4 8"),
    ],
)
def test_a_job_whose_least_batch_fits_nowhere_does_not_wait_for_gpus(floor: int, told: str) -> None:
    measured = Measurements().with_info(replace(READY, least_local_bsz=floor).info)
    for gpu_type, largest in (("t4", 8), ("a100", 16)):
        measured = measured.with_rows(gpu_type, [StepRow(1, 1, largest, 0, 0.1, 0.0, 5)])
    assert fits_nowhere(measured, JobSpec(name="j", script="t.py")) == told
    assert fits_nowhere(None, JobSpec(name="j", script="t.py")) == ""
