"""Priority, hold, release, bump and time limits: each counts as its user asks, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from coadapt.core.decisions import WaitReason
from coadapt.core.errors import JobStateError
from coadapt.core.job import JobSpec, Phase
from coadapt.core.spans import MOST_S
from coadapt.core.teams import Priority
from coadapt.policies.catalogue import make_policy
from coadapt.scheduler.changes.reactions import Reaction
from coadapt.scheduler.changes.standing_verbs import bump, extend, hold, release, set_priority
from coadapt.scheduler.changes.verbs import resume, resume_changed
from coadapt.scheduler.jobs.own_order import in_own_order
from coadapt.scheduler.jobs.record import ChangedFile, JobRecord
from coadapt.scheduler.views.waiting import reason_shown, wait_reason

from tests.support.cycles import RUNS, World
from tests.support.records import A, job, running
from tests.support.stored_rows import read_back

LIMITED = """
submit a unprofiled limit=1h
wish a t4-000:2
go
? sent assign a 2xt4
runs a
"""
STORIES = {
    "a job that is on hold starts on no GPUs until it is released": """
        submit a unprofiled
        stand a hold
        wish a t4-000:2
        go
        ? sent
        ? a said held by the user
        stand a release
        go
        ? sent assign a 2xt4
    """,
    "a job that is on hold keeps what it has, and gets nothing once it has left it": RUNS
    + """
        stand a hold
        go
        ? sent
        ? a said held by the user: it keeps its GPUs until it leaves them
        wish a
        go
        ? sent assign a nothing
        left a
        wish a t4-000:2
        go
        ? sent
        reopen a
        go
        ? sent
        stand a release
        go
        ? sent assign a 2xt4
    """,
    "another priority takes nothing from a job that trains": RUNS
    + """
        stand a priority high
        stand a bump
        ? sent
        go
        ? sent
        ? a said its priority is high, and was normal
        ? a running
    """,
    "a job saves and ends at its time limit, and its log says so before": LIMITED
    + """
        after 3300
        go
        ? a said its time limit of 60 min is in
        ? sent
        after 400
        go
        ? sent assign a nothing
        ? a running
        left a
        go
        ? a cancelled
        ? a because reached its time limit of 60 min
        ? sent retire a
        ? did a admitted, placed, running, time_limit, time_limit, released, cancel
    """,
    "time without GPUs does not count": LIMITED
    + """
        after 1800
        pause a
        ? sent assign a nothing
        left a
        after 7200
        go
        resume a
        go
        ? sent retire a | assign a 2xt4
        runs a
        after 1300
        go
        ? a running
        ? did a admitted, placed, running, pause, released, resume, placed, running
        after 600
        go
        ? sent assign a nothing
        ? a said reached its time limit of 60 min: it saves and then ends
    """,
    "a job whose time limit is moved goes on, and is told again": LIMITED
    + """
        after 3300
        go
        stand a extend 7200
        ? a said its time limit is 3 h, and was 60 min
        after 3600
        go
        ? a running
        after 2900
        go
        ? a said its time limit of 3 h is in
        after 1100
        go
        ? sent assign a nothing
    """,
    "a job that has reached its time limit resumes once that is moved": LIMITED
    + """
        after 3601
        go
        ? sent assign a nothing
        left a
        go
        stand a extend 3600
        resume a
        go
        ? a queued
        ? sent retire a | assign a 2xt4
    """,
    "a job that does not leave in time after its limit is ended": LIMITED
    + """
        after 3601
        go
        after 4000
        go
        ? a cancelled
        ? a because reached its time limit of 60 min; it had not left its GPUs after
        ? sent assign a nothing | cancel a
    """,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=list(STORIES))
def test_story(story: str, tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4", debounce_s=0.0)
    world.play(story)
    world.store.close()


def done(reaction: Reaction) -> JobRecord:
    return reaction.job


def test_what_changes_nothing_says_so() -> None:
    for verb in (release, partial(set_priority, priority=Priority.NORMAL)):
        one = job()
        assert verb(one, 5.0).job is one
    held = done(hold(job(), 5.0))
    assert hold(held, 6.0).job is held


def test_an_operators_hold_takes_an_operator_to_release_it() -> None:
    own = replace(job(), owner="ann")
    held = done(hold(own, 5.0, "ops"))
    assert held.on_hold
    assert reason_shown(held) == "held by the operator ops"
    assert read_back(held) == held
    with pytest.raises(JobStateError, match=r"held by the operator ops, and only an operator releases it$"):
        release(held, 6.0)
    assert hold(held, 6.0).job is held, "the user's hold changes nothing about it"
    freed = release(held, 7.0, "eve")
    assert (freed.job.on_hold, freed.job.held_by) == (False, "")
    assert freed.events[0].data["text"] == "released by the operator eve"


def test_an_operators_hold_takes_the_place_of_the_users_but_not_of_their_own() -> None:
    own = replace(job(), owner="ann")
    assert done(hold(done(hold(own, 5.0)), 6.0, "ops")).held_by == "ops"
    assert done(hold(own, 5.0, "ann")).held_by == "", "an operator's own job is held as its user's"
    assert not done(release(done(hold(own, 5.0)), 6.0, "ops")).on_hold


def test_a_record_keeps_how_it_stands_in_the_store() -> None:
    one = replace(done(bump(done(hold(running(A), 5.0)), 6.0)), ran_s=3.0, runs_since_s=5.0, told_limit_s=9.0)
    assert read_back(one) == one


@pytest.mark.parametrize("verb", [hold, release, bump, partial(set_priority, priority=Priority.LOW)])
def test_a_job_that_has_ended_has_no_place_among_others(verb: object) -> None:
    with pytest.raises(JobStateError, match=r"j-1 has ended \(failed\), so "):
        verb(job(Phase.FAILED), 5.0)  # type: ignore[operator]


def test_a_time_limit_is_never_longer_than_what_a_job_file_may_say(tmp_path: Path) -> None:
    one = limited(MOST_S - 3600.0, 0.0)
    with pytest.raises(JobStateError, match=r"time_limit: 87601 h is too long; at most 87600 h are accepted"):
        extend(one, 5.0, 7200.0)
    assert read_back(done(extend(one, 5.0, 3600.0))).spec.time_limit == MOST_S


def limited(limit: float, ran: float) -> JobRecord:
    spec = JobSpec(name="j", script="t.py", time_limit=limit)
    return replace(job(Phase.CANCELLED), spec=spec, ran_s=ran, retired=True)


def test_a_time_limit_in_the_past_is_refused() -> None:
    over = limited(3600.0, 3700.0)
    sentence = (
        r"time_limit: 60 min is in the past, as j-1 has trained for 62 min; `coadapt extend j-1 2h` moves it"
    )
    with pytest.raises(JobStateError, match=sentence):
        resume(over, 5.0)
    with pytest.raises(JobStateError, match=sentence):
        resume_changed(over, 5.0, ChangedFile(over.spec, None, ""))
    with pytest.raises(JobStateError, match=r"time_limit: 61 min is in the past"):
        extend(over, 5.0, 60.0)
    with pytest.raises(JobStateError, match=r"j-1 has no time limit, so there is nothing to extend"):
        extend(job(), 5.0, 60.0)
    assert resume(done(extend(over, 5.0, 3600.0)), 6.0).job.phase is Phase.SUBMITTED


def test_an_extension_counts_for_a_changed_file_that_waits_too() -> None:
    one = limited(3600.0, 0.0)
    waiting = replace(one, changed=ChangedFile(one.spec, None, ""))
    changed = done(extend(waiting, 5.0, 60.0)).changed
    assert changed is not None
    assert changed.spec.time_limit == 3660.0


def queued(number: int, owner: str, submitted_s: float, bumped: float = 0.0) -> JobRecord:
    one = job()
    state = replace(one.state, submitted_s=submitted_s)
    return replace(one, id=f"j-{number}", number=number, owner=owner, state=state, bumped=bumped)


def test_a_bumped_job_comes_first_among_own_jobs_and_before_nobody_else() -> None:
    jobs = [queued(1, "ann", 1.0), queued(2, "bob", 2.0), queued(3, "ann", 3.0), queued(4, "ann", 4.0, bumped=9.0)]
    ordered = {one.id: one.state.submitted_s for one in in_own_order(jobs)}
    assert ordered == {"j-4": 1.0, "j-2": 2.0, "j-1": 3.0, "j-3": 4.0}
    assert [one.id for one in in_own_order(jobs)] == ["j-1", "j-2", "j-3", "j-4"]
    at_once = [queued(1, "ann", 1.0), queued(2, "ann", 1.0, bumped=9.0)]
    first, second = in_own_order(at_once)
    assert second.state.submitted_s < first.state.submitted_s
    assert in_own_order(jobs[:3]) == jobs[:3]


def test_a_bumped_job_starts_first(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2", planner=make_policy("fifo"), debounce_s=0.0)
    world.play(
        """
        submit a unprofiled rigid=2
        go
        runs a
        ? sent assign a 2xt4
        submit b unprofiled rigid=2
        after 5
        submit c unprofiled rigid=2
        stand c bump
        go
        ? sent
        finish a
        left a
        after 70
        go
        ? sent retire a | assign c 2xt4
        """
    )
    assert world.job("c").state.submitted_s > world.job("b").state.submitted_s, "what is stored stays true"
    world.store.close()


def test_why_a_job_on_hold_waits() -> None:
    held = done(hold(job(), 5.0))
    assert wait_reason(held, None, None) is WaitReason.HELD
    assert reason_shown(held) == "held by the user"
