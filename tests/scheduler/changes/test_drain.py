"""Jobs keep what they have on a cordoned node, and leave one that goes away in time, with what they have done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec
from coadapt.core.settings import Settings
from coadapt.core.slot import Slot
from coadapt.executor.protocol.job_events import Checkpointed
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.plan_check import check_plan
from coadapt.policies.contract.round import JobView, Round
from coadapt.scheduler.changes.drain import depart, due_s, leave_by, stays
from coadapt.scheduler.changes.reactions import react
from coadapt.scheduler.jobs.record import JobRecord, LeaveNotice
from coadapt.scheduler.nodes.closures import Closed, Closure, Source
from coadapt.scheduler.nodes.node_view import NodesSnapshot
from coadapt.scheduler.rounds.snapshot import _kept_view

from tests.support.cycles import RUNS, World
from tests.support.records import A, B, job, running
from tests.support.stored_rows import read_back

SETTINGS = Settings(restart_cost_s=30.0)
NOW = 100.0


def closing(deadline_s: float | None, *, leaves: bool = True, node: str = "n1") -> NodesSnapshot:
    """Return nodes of which one takes no new work."""
    closure = Closure(Source.NOTICE, f"machine-{node}", "spot notice of aws", leaves=leaves, deadline_s=deadline_s)
    return NodesSnapshot(
        cluster=Cluster((Node("n3", "t4", 8),)),
        alive=frozenset({"n1", "n2", "n3"}),
        draining=frozenset({node}) if leaves else frozenset(),
        closed={node: Closed((closure,))},
        machines={id: f"machine-{id}" for id in ("n1", "n2", "n3")},
    )


def trains(start_s: float | None = None, saving_s: float | None = None) -> JobRecord:
    """Return a job on node n1 that is known to start and to save in so many seconds."""
    starts = {"starts": int(start_s is not None), "starting_s": start_s or 0.0}
    return replace(running(A), saving_s=saving_s, saved_steps=None if saving_s is None else 70, **starts)


# start, saving, seconds of notice -> moves or leaves, and what is told
DECISIONS: dict[str, tuple[float | None, float | None, float, str, str]] = {
    "a quick job moves": (4.0, 0.5, 30.0, "moves", "it saves at once, and moves if there is another place"),
    "nothing is known, and 30 s are too few": (None, None, 30.0, "leaves", "a start elsewhere does not fit"),
    "nothing is known, and 120 s are enough": (None, None, 120.0, "moves", "goes away in 2 min"),
    "a slow start does not fit": (60.0, 1.0, 60.0, "leaves", "a start elsewhere does not fit"),
    "a slow checkpoint does not fit": (
        5.0,
        40.0,
        30.0,
        "leaves",
        "its checkpoint takes about 40 s, which does not fit: its newest checkpoint is of step 70, and what",
    ),
}


@pytest.mark.parametrize(("start_s", "saving_s", "left_s", "does", "told"), DECISIONS.values(), ids=DECISIONS)
def test_a_job_moves_if_that_fits_its_notice_and_else_leaves(
    start_s: float | None, saving_s: float | None, left_s: float, does: str, told: str
) -> None:
    found = depart(trains(start_s, saving_s), closing(NOW + left_s), SETTINGS, NOW)
    commands = [type(command).__name__ for command in found.commands]
    assert told in str(found.events[0].data["text"])
    assert commands == (["SaveNow"] if does == "moves" else ["LeaveGpus"])
    assert (found.job.target == ()) == (does == "leaves")
    assert found.job.notice == LeaveNotice("machine-n1", NOW + left_s, NOW, left=does == "leaves")
    assert read_back(found.job).notice == found.job.notice


def test_a_job_that_has_not_moved_in_time_saves_and_leaves() -> None:
    told = depart(trains(4.0, 1.0), closing(NOW + 60), SETTINGS, NOW).job
    assert due_s(told) == leave_by(told, NOW + 60) == NOW + 51
    assert depart(told, closing(NOW + 60), SETTINGS, NOW + 50).job is told
    left = depart(told, closing(NOW + 60), SETTINGS, NOW + 51)
    assert "has not moved off machine-n1 yet" in str(left.events[0].data["text"])
    assert (left.job.target, type(left.commands[0]).__name__) == ((), "LeaveGpus")
    late = depart(left.job, closing(NOW + 60), SETTINGS, NOW + 61)
    assert "did not leave machine-n1 by its deadline; its newest checkpoint is of step 70" in str(
        late.events[0].data["text"]
    )
    assert depart(late.job, closing(NOW + 60), SETTINGS, NOW + 62).job is late.job, "it is told once"


def test_a_deadline_that_comes_nearer_counts_and_one_that_goes_is_forgotten() -> None:
    told = depart(trains(4.0, 1.0), closing(NOW + 600), SETTINGS, NOW).job
    sooner = depart(told, closing(NOW + 10), SETTINGS, NOW + 1).job
    assert sooner.notice is not None
    assert sooner.notice.left
    free = depart(told, NodesSnapshot(machines={"n1": "machine-n1"}), SETTINGS, NOW + 2)
    assert free.job.notice is None
    assert "machine-n1 does not go away any more" in str(free.events[0].data["text"])


def test_a_program_that_may_not_start_again_stays_until_it_ends() -> None:
    spec = JobSpec.model_validate({"name": "j", "command": ["make"], "elastic": False})
    program = replace(running(A), spec=spec)
    found = depart(program, closing(NOW + 30), SETTINGS, NOW)
    assert found.job.target == (A,)
    assert "it may not be started again, so it stays" in str(found.events[0].data["text"])
    assert stays(found.job, closing(NOW + 30))


def test_only_a_job_with_nothing_on_a_node_that_goes_stays_on_a_cordoned_one() -> None:
    assert stays(running(A, B), closing(None, leaves=False))
    assert not stays(running(A, B), closing(None))
    assert not stays(running(B), closing(None, leaves=False))
    assert not stays(job(), closing(None, leaves=False))


def test_what_was_saved_for_a_notice_is_told_and_how_long_that_took_is_known() -> None:
    told = depart(trains(4.0, 1.0), closing(NOW + 60), SETTINGS, NOW).job
    after = react(told, Checkpointed(90, 0.4), NOW + 2)
    assert (after.job.saved_steps, after.job.saving_s) == (90, 0.4)
    assert [event.data["text"] for event in after.events] == [
        "saved at step 90 in 0.4 s, 58 s before machine-n1 goes away"
    ]
    assert react(trains(), Checkpointed(90, 0.4), NOW).events == (), "without a notice nobody needs to know"
    stored = read_back(after.job)
    assert (stored.saved_steps, stored.saving_s) == (90, 0.4)


STORIES = {
    "a cordoned node keeps its job and gets no other": f"""
        {RUNS}
        order cordon t4-000
        ? told t4-000 gets no new work: cordoned by ann
        go
        ? sent
        ? a held 2
        submit b unprofiled
        wish b t4-000:1
        wish a t4-000:2 t4-001:2
        go
        ? sent
        ? b queued
        order uncordon t4-000
        wish a t4-000:2
        go
        ? sent assign b 1xt4
    """,
    "a job that a cordon holds takes GPUs elsewhere from nobody": f"""
        {RUNS}
        wish a t4-000:2 t4-001:2
        go
        runs a
        ? sent assign a 4xt4
        order cordon t4-000
        submit b unprofiled
        wish b t4-001:2
        go
        ? a held 4
        ? sent assign b 2xt4
    """,
    "a drain without a deadline moves a job as at any time": f"""
        {RUNS}
        wish a t4-001:2
        order drain t4-000
        go
        ? sent assign a 2xt4
        runs a
        go
        ? a held 2
        ? told t4-000 is empty: nothing runs there any more
    """,
    "a job saves at a notice, and moves": f"""
        {RUNS}
        wish a t4-001:2
        notice t4-000 60
        step
        ? sent save a
        saved a 120 0.2
        ? a said saved at step 120 in 0.2 s
        go
        ? sent assign a 2xt4
        runs a
        go
        ? a said has left t4-000
        ? a said its newest checkpoint is of step 120
    """,
    "a job without another place leaves its GPUs and goes on when there is one": f"""
        {RUNS}
        notice t4-000 60
        go
        ? sent save a | assign a nothing
        left a
        ? a queued
        wish a t4-001:2
        go
        ? sent assign a 2xt4
    """,
    "a job that moves too slowly leaves in time, and does not come back to the node": f"""
        {RUNS}
        wish a t4-001:2
        notice t4-000 60
        go
        ? sent save a | assign a 2xt4
        after 48
        go
        ? sent assign a nothing | assign a 2xt4
        ? a said has not moved off t4-000 yet
        runs a
        go
        ? a held 2
        ? a said has left t4-000
    """,
    "a node that is lost at its notice is told as such": f"""
        {RUNS}
        notice t4-000 60
        step
        saved a 7 0.1
        nodes 1x t4:4
        nodes 1x a100:1
        go
        ? a said as was told (t4-000: spot notice of aws
        ? a said its newest checkpoint is of step 7
        ? told t4-000 has gone, as its spot notice of aws told
    """,
    "a notice that is withdrawn leaves the job where it is": f"""
        {RUNS}
        wish a t4-000:2
        notice t4-000 120
        step
        withdrawn t4-000
        go
        ? sent save a
        ? a said t4-000 does not go away any more
        ? a running
    """,
    "orders last over a restart of the service": f"""
        {RUNS}
        order cordon t4-000
        reopen a
        submit b unprofiled
        wish b t4-000:1
        go
        ? b queued
        ? a held 2
    """,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_story_of_nodes_that_are_closed(tmp_path: Path, story: str) -> None:
    World(tmp_path, "2x t4:4", restart_cost_s=5.0).play(story)


KINDS: dict[str, dict[str, object]] = {
    "elastic": {"script": "t.py", "resources": {"max_gpus": 8}},
    "of a fixed size": {"script": "t.py", "resources": {"gpus": 4}, "training": {"adaptivity": "rigid"}},
    "a plain program": {"command": ["make"], "elastic": False, "resources": {"gpus": 4}},
    "a program of some sizes": {"command": ["make"], "sizes": [4, 8]},
}


@pytest.mark.parametrize("policy", ["sia", "pollux", "gavel", "srtf", "fifo"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_policies_leave_a_job_what_it_has_beside_a_cordoned_node(kind: dict[str, object], policy: str) -> None:
    there = Cluster(tuple(Node(id, "t4", 4, cpus=8.0, memory_gib=32.0) for id in ("n2", "n3")))
    on = [Slot(node, "l", (device,), "t4", emulated=True) for node in ("n1", "n2") for device in (0, 1)]
    job = replace(running(*on), spec=JobSpec.model_validate({"name": "j", **kind}))
    view = _kept_view(job, there, NOW)
    assert view is not None
    other = JobView("other", JobSpec(name="o", script="t.py"), submitted_s=1.0)
    round = Round(NOW, 60.0, there, [view, other])
    plan = make_policy(policy).plan(round)
    check_plan(plan, round)
    assert [(share.node_id, share.gpus) for share in plan.placements[job.id].shares] == [("n2", 2)]
