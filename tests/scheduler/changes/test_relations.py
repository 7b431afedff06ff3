"""Jobs start after others, begin again once they failed, and start from others' checkpoints, or are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.decisions import WaitReason
from coadapt.core.errors import JobStateError
from coadapt.core.job import JobSpec
from coadapt.core.job_limits import JobLimitError
from coadapt.core.job_relations import AfterJobs, Retry
from coadapt.core.teams_file import from_values
from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.scheduler.changes.awaited import check_circle
from coadapt.scheduler.views.waiting import wait_reason

from tests.support.api import Api
from tests.support.cycles import RUNS, World
from tests.support.packages import NAME
from tests.support.records import job

STORIES = {
    "a job starts once the one before it has succeeded": RUNS
    + """
        submit b unprofiled ok=a
        wish b t4-000:2
        go
        ? sent
        ? b submitted
        ? b because waiting for a-1 to end
        reopen a
        go
        ? b submitted
        finish a
        left a
        go
        ? b queued
        after 70
        go
        ? sent retire a | assign b 2xt4
    """,
    "a job whose predecessor fails ends with the reason, and so does the one after it": RUNS
    + """
        submit b unprofiled ok=a
        submit c unprofiled ok=b
        submit d unprofiled any=b
        fail a
        go
        ? b cancelled
        ? b because after: a-1 has failed, and this job starts only if it succeeds
        ? c because after: b-2 has been cancelled, and this job starts only if it succeeds
        ? d queued
    """,
    "a job that starts after another at any rate does so when that is cancelled": RUNS
    + """
        submit b unprofiled any=a
        go
        ? b submitted
        cancel a
        go
        ? b queued
    """,
    "a failed job begins again after a wait that grows, and then fails for good": """
        submit a unprofiled retries=2
        wish a t4-000:2
        go
        runs a
        ? sent assign a 2xt4
        fail a
        ? a submitted
        ? a said failed: ValueError: no; it is tried again in 60 s (1 of 2)
        left a
        go
        ? a submitted
        ? sent retire a
        after 61
        go
        ? sent assign a 2xt4
        runs a
        fail a
        ? a said it is tried again in 2 min (2 of 2)
        left a
        go
        after 61
        go
        ? a submitted
        reopen
        after 60
        go
        ? a queued
        go
        runs a
        fail a
        ? a failed
    """,
    "a job that is cancelled is not tried again": """
        submit a unprofiled retries=2
        wish a t4-000:2
        go
        runs a
        cancel a
        ? a cancelled
    """,
    "a job that is resumed by its user has all its retries again": """
        submit a unprofiled retries=1
        wish a t4-000:2
        go
        runs a
        fail a
        left a
        go
        after 61
        go
        runs a
        fail a
        ? a failed
        left a
        go
        resume a
        go
        runs a
        fail a
        ? a submitted
    """,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=list(STORIES))
def test_story(story: str, tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4", debounce_s=0.0)
    world.play(story)
    world.store.close()


def test_why_a_job_waits_is_a_code(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4", debounce_s=0.0)
    world.play(
        RUNS + "\nsubmit b unprofiled ok=a\nsubmit c unprofiled retries=1\nwish c t4-000:2\ngo\nruns c\nfail c"
    )
    reasons = [wait_reason(world.job(name), world.cycle.last_round, world.all) for name in "bc"]
    assert reasons == [WaitReason.AFTER_OTHERS, WaitReason.TRIED_LATER]
    world.store.close()


def test_waits_grow_up_to_a_week() -> None:
    retry = Retry(times=3, wait=60, factor=3)
    assert [retry.wait_s(number) for number in range(3)] == [60.0, 180.0, 540.0]
    assert retry.wait_s(99) == 7 * 86_400.0


def test_a_circle_is_refused() -> None:
    def waiting(name: str, *for_: str) -> Any:
        spec = JobSpec(name=name, script="t.py", after=AfterJobs(any=list(for_)))
        return job(spec=spec)

    jobs = {"b-2": waiting("b", "c-3"), "c-3": waiting("c", "a-1"), "d-4": waiting("d", "b-2")}
    check_circle("a-1", AfterJobs(ok=["e-5"]), jobs.get)
    sentence = r"after: a-1 would wait for b-2, which waits for c-3, which waits for a-1; a circle never starts"
    with pytest.raises(JobStateError, match=sentence):
        check_circle("a-1", AfterJobs(ok=["b-2"]), jobs.get)
    with pytest.raises(JobStateError, match=r"would wait for a-1; a circle"):
        check_circle("a-1", AfterJobs(ok=["a-1"]), jobs.get)


# --- as the service takes them --------------------------------------------------------------------------------


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def submit(api: Api, owner: str = "ann", key: str = "", **fields: Any) -> str:
    spec = JobSpec.model_validate({"name": "b", "script": "train.py", **fields})
    text = spec.model_dump_json(exclude_unset=True)
    return str(api.service.submit(text, NAME, key or f"{owner}{fields}", "", owner))


def test_jobs_are_named_by_id_or_by_a_name_that_one_has(api: Api) -> None:
    first = api.job("ann", "a")
    second = submit(api, after=["a"])
    assert api.world.store.get(second).spec.after == AfterJobs(ok=[first])
    assert submit(api, after=["a"]) == second, "the same key gives the same job"
    third = submit(api, after={"any": [first, "b", "b"]})
    assert api.world.store.get(third).spec.after == AfterJobs(any=[first, second])


@pytest.mark.parametrize(
    ("owner", "after", "sentence"),
    [
        ("ann", ["no-such"], "after.ok: no job no-such"),
        (
            "ann",
            {"any": ["twin"]},
            "after.any: several jobs are named twin, such as twin-3, twin-2; give the id of one",
        ),
        ("bob", ["a-1"], "after.ok: no job a-1"),
        ("ann", ["gone"], "after.ok: gone-4 has been cancelled; only a job that succeeds lets this one start"),
    ],
)
def test_what_no_job_can_start_after_is_one_sentence(api: Api, owner: str, after: Any, sentence: str) -> None:
    api.job("ann", "a")
    for key in ("x", "y"):
        submit(api, key=key, name="twin")
    api.service.cancel(submit(api, name="gone"))
    with pytest.raises(JobLimitError) as refused:
        submit(api, owner, after=after)
    assert refused.value.problems == (sentence,)


def test_a_changed_file_closes_no_circle(api: Api) -> None:
    first = api.job("ann", "a")
    second = submit(api, after=[first])
    api.service.change(first, "pause", "k")
    spec = JobSpec(name="a", script="train.py", after=AfterJobs(any=[second])).model_dump_json(exclude_unset=True)
    with pytest.raises(JobStateError, match=rf"after: {first} would wait for {second}, which waits for {first}"):
        api.service.resume_changed(first, spec, NAME, "", "k2")


def test_a_job_file_starts_from_the_checkpoint_of_another_job(api: Api) -> None:
    first = api.job("ann", "a")
    folder = api.world.settings.checkpoint_url(first, None)
    for steps in (100, 200):
        CheckpointStore(folder, keep=5).save({"made": steps}, steps)
    newest, named = submit(api, resume_from="a"), submit(api, resume_from=f"{first}@100", name="c")
    origins = [api.world.store.get(one).origin for one in (newest, named)]
    assert [(o.job_id, o.steps, o.copied) for o in origins if o] == [(first, 200, True), (first, 100, True)]
    api.service.cancel(first)
    assert submit(api, resume_from="a") == newest, "the same key gives the same job"


@pytest.mark.parametrize(
    ("owner", "fields", "sentence"),
    [
        ("ann", {"resume_from": "a-1@7"}, "resume_from: a-1 has no checkpoint of step 7; it has those of 100"),
        (
            "ann",
            {"resume_from": "empty"},
            "resume_from: empty-2 has no checkpoint yet, so nothing can start from one",
        ),
        ("ann", {"resume_from": "no"}, "resume_from: no job no"),
        ("bob", {"resume_from": "a-1"}, "resume_from: no job a-1"),
        (
            "ann",
            {"resume_from": "a-1", "script": "", "command": ["x"]},
            "resume_from: fork: the job file is of a plain job, which never calls coadapt.prepare; "
            "only its program knows its checkpoints",
        ),
    ],
)
def test_what_no_job_can_start_from_is_one_sentence(
    api: Api, owner: str, fields: dict[str, Any], sentence: str
) -> None:
    CheckpointStore(api.world.settings.checkpoint_url(api.job("ann", "a"), None), keep=5).save({}, 100)
    api.job("ann", "empty")
    with pytest.raises(JobLimitError) as refused:
        submit(api, owner, **fields)
    assert refused.value.problems == (sentence,)


def test_a_checkpoint_stays_in_its_team(api: Api) -> None:
    teams = {"vision": {"users": ["ann", "bob"]}, "speech": {"users": ["ann"]}}
    api.world.cycle.teams.apply(from_values({"teams": teams}), "ops", 0.0)
    first = submit(api, name="a", team="vision")
    CheckpointStore(api.world.settings.checkpoint_url(first, None), keep=5).save({}, 100)
    assert submit(api, "bob", resume_from=first)
    with pytest.raises(JobLimitError) as refused:
        submit(api, "ann", resume_from=first, team="speech")
    assert refused.value.problems == (
        f"resume_from: {first} is of team vision, and this job counts for speech; a checkpoint stays in its team",
    )
