"""What a cycle does, told as stories: jobs, nodes and reports in; commands, records and reasons out. No Ray."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from coadapt.core.events import EventKind
from coadapt.core.placement import NodeShare, Placement
from coadapt.executor.protocol.job_events import Released, Sent
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.plan_check import WrongPlan
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.per_pool import PerPool
from coadapt.scheduler.rounds.profile_work import ProfileWork
from coadapt.scheduler.rounds.transition import StartProfile

from tests.support.cycles import RUNS, WishingPolicy, World

ONE_TYPE = {
    "an unprofiled job queues and starts": RUNS,
    "a job without a wish waits in the queue": """
        submit a unprofiled
        go
        ? a queued
        ? a because waiting for GPUs
        ? sent
        ? did a admitted
    """,
    "a job on a type that is not there says what it waits for": """
        submit a types=h100
        go
        ? a submitted
        ? a because waiting for GPU type h100; the cluster has t4
    """,
    "a job whose replica fits on no node says so": """
        submit a per_replica=8
        go
        ? a submitted
        ? a because waiting for a node with enough GPUs for one replica
    """,
    "a job that waits for its type is admitted when a node brings it": """
        submit a types=h100 unprofiled
        go
        nodes 1x t4:4, 1x h100:4
        go
        ? a queued
    """,
    "the same key twice is one job": """
        submit a unprofiled
        submit a unprofiled key=a
        go
        ? did a admitted
    """,
    "an unknown job is measured before it queues": """
        submit a
        go
        ? a profiling
        ? sent profile a t4
        ? did a admitted, profiling
        measured a t4
        go
        ? a queued
        ? a held 0
        ? a knows t4
    """,
    "a measured job trains in the round after": """
        submit a
        go
        measured a t4
        wish a t4-000:4
        go
        ? sent profile a t4 | assign a 4xt4
    """,
    "a job of a known script is not measured": """
        submit a same=s
        go
        measured a t4
        submit b same=s
        go
        ? b queued
        ? b said known from an earlier job: t4
        ? b knows t4
        ? sent profile a t4
    """,
    "a job of a known fingerprint is not measured": """
        submit a fingerprint=f
        go
        measured a t4
        submit b fingerprint=f
        go
        ? b queued
    """,
    "of two jobs with one script one is measured, and the other takes that over": """
        submit a same=s
        submit b same=s
        go
        ? sent profile a t4
        ? b profiling
        measured a t4
        go
        ? b queued
        ? b said t4 known from another job
        ? sent
    """,
    "two different scripts are measured at once where the share allows": """
        submit a
        submit b
        go
        ? sent profile a t4 | profile b t4
    """,
    "profile runs hold at most their share of a type": """
        submit a
        submit b
        submit c
        go
        ? sent profile a t4 | profile b t4
        measured a t4
        go
        ? sent profile c t4
    """,
    "a failed profile run is tried once more, then fails the job": """
        submit a
        go
        failed a t4 out of luck
        go
        ? a profiling
        failed a t4 out of luck
        go
        ? a failed
        ? a because could not be measured on any GPU type: t4: out of luck
        ? sent profile a t4 | profile a t4 | retire a
    """,
    "a worker that is lost while it measures is no try": """
        submit a
        go
        lostrun a t4
        go
        lostrun a t4
        go
        ? a profiling
        ? sent profile a t4 | profile a t4 | profile a t4
    """,
    "an error of the script while it is measured fails the job at the second time": """
        submit a
        go
        fault a t4
        ? a counts failures 1
        go
        fault a t4
        ? a failed
        ? a because ValueError: no
    """,
    "one error is enough where none is allowed": """
        submit a most_failures=0
        go
        fault a t4
        ? a failed
    """,
    "one error while it is measured is enough where the policy allows no other try": """
        submit a restarts=on_loss
        go
        fault a t4
        ? a failed
        ? a because ValueError: no
        ? a said (its restart_policy allows no other try)
    """,
    "a job that is never to start again ends with its executor once it has trained": """
        submit a unprofiled restarts=never
        wish a t4-000:2
        go
        executorlost a
        ? a queued
        go
        runs a
        executorlost a
        ? a failed
        ? a because its executor died
        ? a held 0
    """,
    "a job that is never to start again goes on after it was evicted, or the scheduler ended": """
        submit a unprofiled restarts=never
        wish a t4-000:2
        go
        runs a
        wish a
        go
        restarted a
        ? a queued
        wish a t4-000:1
        go
        runs a
        ? a running
    """,
    "a profile run that takes too long is given up, and its GPU is free once it has left": """
        submit a
        go
        after 601
        go
        ? sent profile a t4 | end_profile a t4
        ? a failed
        ? a held 1
    """,
    "a profile run that has not ended by its time is left alone until then": """
        submit a
        go
        after 590
        go
        ? sent profile a t4
        ? a profiling
    """,
    "an executor that does not end a late run is restarted": """
        submit a types=t4,h100
        nodes 1x t4:4, 1x h100:4
        go
        after 601
        step
        ? sent profile a h100 | profile a t4 | end_profile a h100 | end_profile a t4
        ? a failed
        after 121
        go
        ? a retired
        ? sent retire a
    """,
    "a cancelled job leaves its GPUs and is retired when they are free": RUNS
    + """
        cancel a
        ? a cancelled
        ? a held 2
        ? sent cancel a
        go
        left a
        ? a held 0
        go
        ? a retired
        ? sent retire a
    """,
    "a job that is cancelled before it began is retired at once": """
        submit a
        cancel a
        go
        ? a retired
        ? sent cancel a | retire a
    """,
    "a job that is cancelled while it is measured holds its GPU until it is free": """
        submit a
        go
        cancel a
        go
        ? a held 1
        left a
        go
        ? a retired
    """,
    "an ended job that does not leave is retired in time all the same": RUNS
    + """
        finish a
        ? a succeeded
        go
        ? a held 2
        after 121
        go
        ? a retired
        ? a held 0
    """,
    "others get the GPUs of an ended job only when it has left": RUNS
    + """
        submit b unprofiled
        finish a
        wish a
        wish b t4-000:4
        go
        ? sent
        left a
        go
        ? sent retire a | assign b 4xt4
    """,
    "a failed job tells its error": RUNS
    + """
        fail a
        ? a failed
        ? a because ValueError: no
        ? a counts failures 1
    """,
    "a script that is tried again keeps its GPUs": RUNS
    + """
        failing a
        go
        ? a running
        ? a because the script failed (try 1): ValueError: no
        ? sent
    """,
    "a lost worker is told and changes nothing else": RUNS
    + """
        workerlost a
        go
        ? a running
        ? a said a worker was lost: its process died
        ? sent
    """,
    "a recovery is counted": RUNS
    + """
        runs a recovered
        ? a counts recoveries 1
    """,
    "a job grows": RUNS
    + """
        wish a t4-000:4
        go
        ? sent assign a 4xt4
        runs a
        ? a held 4
        ? a counts resizes 1
    """,
    "a job shrinks, and holds what it leaves until it has left": RUNS
    + """
        wish a t4-000:1
        go
        ? sent assign a 1xt4
        ? a held 2
        runs a
        ? a held 1
    """,
    "an evicted job queues, and another starts when it has left": RUNS
    + """
        submit b unprofiled
        wish a
        wish b t4-000:4
        go
        ? sent assign a nothing
        left a
        ? a queued
        ? a because other jobs have its GPUs
        ? a counts evictions 1
        go
        ? sent assign b 4xt4
    """,
    "a job that does not leave in time has its executor restarted": RUNS
    + """
        wish a
        go
        ? sent assign a nothing
        after 119
        go
        ? sent
        after 2000
        go
        ? sent restart a
        ? a said did not leave its GPUs in time
        ? a held 2
        restarted a
        ? a held 0
        ? a queued
    """,
    "two jobs that swap do so by way of the queue": """
        nodes 2x t4:2
        submit a unprofiled
        submit b unprofiled
        wish a t4-000:2
        wish b t4-001:2
        go
        runs a
        runs b
        ? sent assign a 2xt4 | assign b 2xt4
        wish a t4-001:2
        wish b t4-000:2
        go
        ? sent assign a nothing
        left a
        go
        ? sent assign b 2xt4
        runs b
        go
        ? sent assign a 2xt4
    """,
    "a job that gave up GPUs is not given them again before the next round": RUNS
    + """
        gaveup a 1
        step
        ? sent
        ? a held 1
    """,
    "what a job gave up is tried again by the next round": RUNS
    + """
        gaveup a 1
        after 61
        go
        ? sent assign a 2xt4
    """,
    "a rigid job is stopped whole": """
        submit a rigid=2 unprofiled
        wish a t4-000:2
        go
        runs a
        ? sent assign a 2xt4
        wish a
        go
        ? sent assign a nothing
    """,
    "an executor that was restarted gets its job's command again": RUNS
    + """
        restarted a
        ? a queued
        ? a counts recoveries 1
        go
        ? sent assign a 2xt4
    """,
    "an executor that is lost has the job start again": RUNS
    + """
        executorlost a
        ? a queued
        go
        ? sent assign a 2xt4
        runs a
        ? a running
    """,
    "a job whose executor is lost again and again fails": RUNS
    + """
        executorlost a
        executorlost a
        executorlost a
        ? a queued
        executorlost a
        ? a failed
        ? a because its executor died
    """,
    "losses of an executor count anew once its job has progressed": RUNS
    + """
        executorlost a
        executorlost a
        executorlost a
        go
        runs a
        report a t4
        executorlost a
        executorlost a
        executorlost a
        ? a queued
        executorlost a
        ? a failed
    """,
    "an executor that cannot be reached costs its own job alone": """
        submit a unprofiled
        submit b unprofiled
        break a
        wish a t4-000:2
        wish b t4-000:2
        go
        ? a said its executor could not be reached: no way to it
        ? b queued
        runs b
        ? b running
    """,
    "a policy that raises stops no releases, and the next round goes on": RUNS
    + """
        break policy
        wish a t4-000:4
        go
        ? a running
        ? sent
        mend policy
        after 61
        go
        ? sent assign a 4xt4
    """,
    "several submits within the debounce time share a round": """
        submit a unprofiled
        go
        ? rounds 1
        submit b unprofiled
        submit c unprofiled
        submit d unprofiled
        go 5
        ? rounds 2
    """,
    "rounds come at their interval where nothing happens": """
        go
        ? rounds 1
        after 60
        go 1
        ? rounds 2
        go 5
        ? rounds 2
    """,
    "nothing happens before the nodes are known": """
        unready
        submit a unprofiled
        go
        ? a submitted
        ? rounds 0
    """,
    "a report of the same types keeps the job where it is": RUNS
    + """
        report a t4
        report a t4
        go
        ? a knows t4
        ? sent
        ? did a admitted, placed, running
    """,
    "a reserved job starts like others": """
        submit a unprofiled reserved=t4
        wish a t4-000:1
        go
        ? sent assign a 1xt4
    """,
}

TWO_TYPES = {
    "an unknown job is measured on every type it may use": """
        submit a
        go
        ? sent profile a a100 | profile a t4
        measured a a100
        go
        ? a profiling
        measured a t4
        go
        ? a queued
        ? a knows a100 t4
    """,
    "a job is not measured on types it may not use": """
        submit a types=t4
        go
        ? sent profile a t4
    """,
    "with one type measured a job waits so long for the others": """
        submit a
        go
        measured a a100
        failed a t4
        go
        measured a t4
        go
        ? a queued
    """,
    "a type that failed twice is left out": """
        submit a
        go
        measured a a100
        failed a t4
        go
        failed a t4
        go
        ? a queued
        ? a knows a100
    """,
    "a job that cannot be measured where it may run fails, whatever is known of other types": """
        submit b same=s types=a100
        go
        measured b a100
        submit a same=s types=t4
        go
        failed a t4 out of luck
        go
        failed a t4 out of luck
        go
        ? a failed
        ? a because could not be measured on any GPU type: t4: out of luck
    """,
    "the same error on two types fails the job": """
        submit a
        go
        fault a a100
        fault a t4
        ? a failed
        ? a counts failures 2
    """,
    "a job moves to another type": """
        submit a unprofiled
        wish a t4-000:2
        go
        runs a
        wish a a100-000:2
        go
        ? sent assign a 2xt4 | assign a 2xa100
        ? a held 4
        runs a
        ? a held 2
    """,
    "a node that is gone takes the job's GPUs along, and the round after gives it others": """
        submit a unprofiled
        wish a t4-000:2
        go
        runs a
        nodes 1x a100:4
        wish a a100-000:2
        go
        ? a said lost node t4-000
        ? sent assign a 2xt4 | assign a 2xa100
    """,
    "a node that is gone ends no profile run elsewhere": """
        submit a
        go
        nodes 1x a100:4
        go
        ? a profiling
        measured a a100
        go
        after 301
        go
        ? a queued
    """,
    "a job whose types have all gone is measured on those that came": """
        submit a
        nodes 1x t4:4
        unready
        nodes 1x t4:4
        go
        nodes 1x h100:4
        go
        ? a said to be measured on h100
        ? sent profile a t4 | profile a h100
    """,
    "jobs leave a node that drains": """
        submit a unprofiled
        wish a t4-000:2
        go
        runs a
        drain t4-000
        go
        ? sent assign a 2xt4 | assign a nothing
        ? a said is to leave its GPUs, whose nodes go away
        left a
        ? a queued
        ? a counts evictions 0
    """,
    "a running job is measured on a type that joins, and trains meanwhile": """
        nodes 1x t4:4
        submit a
        go
        measured a t4
        wish a t4-000:2
        go
        runs a
        nodes 1x t4:4, 1x a100:4
        go
        ? a running
        ? a said to be measured on a100, new in the cluster
        ? sent profile a t4 | assign a 2xt4 | profile a a100
        measured a a100
        go
        ? a running
        ? a knows a100 t4
    """,
    "a job that keeps its GPUs is not measured on a type that joins": """
        nodes 1x t4:4
        submit a kept
        go
        measured a t4
        wish a t4-000:2
        go
        runs a
        nodes 1x t4:4, 1x a100:4
        go
        ? sent profile a t4 | assign a 2xt4
    """,
    "a type that joins and that another job of the script was measured on needs no run": """
        nodes 1x t4:4
        submit a same=s
        submit b same=s
        go
        measured a t4
        go
        nodes 1x t4:4, 1x a100:4
        go
        measured a a100
        go
        ? b knows a100 t4
        ? sent profile a t4 | profile a a100
    """,
    "a type that left before it was measured is not waited for": """
        nodes 1x t4:4
        submit a
        go
        measured a t4
        go
        nodes 1x t4:4, 1x a100:4
        step
        nodes 1x t4:4
        go
        ? a queued
        ? a knows t4
    """,
}


@pytest.mark.parametrize("story", ONE_TYPE.values(), ids=ONE_TYPE)
def test_on_one_node_of_four_t4(story: str, tmp_path: Path) -> None:
    World(tmp_path, "1x t4:4").play(story)


@pytest.mark.parametrize("story", TWO_TYPES.values(), ids=TWO_TYPES)
def test_on_nodes_of_two_types(story: str, tmp_path: Path) -> None:
    World(tmp_path, "1x a100:4, 1x t4:4").play(story)


def test_a_hook_that_raises_is_harmless_in_production_and_loud_in_tests(tmp_path: Path) -> None:
    lenient = World(tmp_path / "a", "1x t4:4", strict=False)
    lenient.play("break hook" + RUNS)
    strict = World(tmp_path / "b", "1x t4:4")
    strict.play(RUNS + "break hook")
    with pytest.raises(RuntimeError, match="a hook went wrong"):
        strict.play("finish a")


@pytest.mark.parametrize(
    ("before", "callback"),
    [
        ("submit a unprofiled", "changed"),  # upkeep admits the job
        (RUNS + "finish a\nleft a", "retired"),
    ],
    ids=["upkeep", "retire"],
)
def test_a_hook_that_raises_within_a_cycle_is_loud_in_tests_too(
    before: str, callback: str, tmp_path: Path
) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(f"{before}\nbreak hook {callback}")
    with pytest.raises(RuntimeError, match="a hook went wrong"):
        world.play("go")


def test_a_cycle_tells_what_it_saw_decided_and_sent_and_how_long_each_phase_took(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play("submit a\nstep")
    result = world.results[-1]
    assert result.number == 1
    assert result.observed is world.nodes.snapshot
    assert result.changed == (world.ids["a"],)
    assert result.round is world.policy.rounds[-1]
    assert result.plan is not None
    (start,) = result.actions
    assert isinstance(start, StartProfile)
    assert start.work == ProfileWork(world.ids["a"], "t4")
    assert list(result.timings) == ["observe", "upkeep", "snapshot", "plan", "place", "diff", "apply"]


def test_a_cycle_with_nothing_new_looks_at_no_job_and_sends_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "go")
    world.tell("step", [])
    assert (world.results[-1].changed, world.results[-1].actions) == ((), ())
    assert world.results[-1].round is None


def test_a_cycle_remembers_nothing_of_jobs_that_are_retired(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "executorlost a\ncancel a\nsubmit b types=t4\nstep\ncancel b\ngo\n? a retired\n? b retired")
    assert world.cycle._losses == {}
    assert world.cycle._records.to_measure == set()


def test_a_report_of_training_gives_a_cycle_nothing_to_do(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "go\nreport a t4\nstep\nreport a t4")
    world.tell("step", [])
    assert (world.results[-1].changed, world.results[-1].actions) == ((), ())
    assert world.store.get(world.ids["a"]).report["epoch"] == 2


def test_an_ended_job_is_looked_at_no_more(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "finish a\nleft a\ngo\n? a retired\nnodes 2x t4:4\nstep")
    assert world.results[-1].changed == ()


def test_the_log_holds_a_plan_only_where_it_is_another(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "after 61\ngo\nafter 61\ngo")
    assert [event.kind for event in world.store.events() if event.kind is EventKind.PLAN] == [EventKind.PLAN]
    assert world.cycle.rounds >= 3


def test_a_plan_in_the_log_names_what_is_another_than_in_the_plan_before(tmp_path: Path) -> None:
    world = World(tmp_path, "2x t4:4")
    world.play(RUNS + "submit b unprofiled\nwish b t4-001:2\nafter 61\ngo\nwish a\nafter 61\ngo")
    plans = [event.data for event in world.store.events() if event.kind is EventKind.PLAN]
    a, b = world.ids["a"], world.ids["b"]
    assert [(set(plan["placements"]), plan["without"], plan["jobs"]) for plan in plans] == [
        ({a}, [], 1),
        ({b}, [], 2),
        (set(), [a], 1),
    ]
    assert plans[1]["placements"][b] == {"gpu_type": "t4", "nodes": {"t4-001": 2}}


def test_gpu_time_is_kept_by_job_and_type(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play("submit a\ngo\nafter 10\nmeasured a t4\nwish a t4-000:2\ngo\nruns a\nafter 100\nfinish a")
    spans = [(i.phase, i.gpus, round(i.end_s - i.start_s)) for i in world.store.intervals() if i.end_s is not None]
    assert spans == [("profiling", 1, 13), ("running", 2, 100)]


def test_a_policy_that_raises_is_told_in_the_log(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "break policy\nwish a t4-000:4\ngo")
    (told,) = [event for event in world.store.events() if event.kind is EventKind.ERROR]
    assert re.search(r"RuntimeError: cannot plan \(cycles.py, line \d+\)$", str(told.data["text"]))
    assert told.job_id is None


def test_the_line_of_a_policy_s_value_error_is_told_as_numpy_raises_those(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")

    def plan(round: Round) -> Plan:
        raise ValueError("operands could not be broadcast")

    world.policy.plan = plan
    world.play("submit a unprofiled\ngo 1")
    told = "the policy did not plan round 1: ValueError: operands could not be broadcast"
    assert re.fullmatch(rf"{told} \(test_cycle.py, line \d+\)", str(world.cycle.unplanned))


def test_rounds_that_fail_alike_are_told_once_and_the_cluster_knows_until_one_is_planned(tmp_path: Path) -> None:
    policy = Nonsense()
    world = World(tmp_path, "1x t4:4", planner=policy)
    world.play("submit a unprofiled\ngo")
    policy.instead = [None, None]
    world.play("after 61\ngo 1\nafter 61\ngo 1")
    (told,) = [event.data["text"] for event in world.store.events() if event.kind is EventKind.ERROR]
    assert world.cycle.unplanned == told
    world.play("after 61\ngo 1")
    assert world.cycle.unplanned is None
    world.play("after 61\ngo 1")
    events = [(event.kind, event.data["text"]) for event in world.store.cluster_events()]
    assert events == [
        (EventKind.ERROR, told),
        (EventKind.PLANNED, f"the policy plans again, from round {world.cycle.rounds - 1} on"),
    ]


def test_pools_that_have_no_plan_are_told_while_the_others_are_planned(tmp_path: Path) -> None:
    policy = Nonsense()
    world = World(tmp_path, "1x t4:4", planner=policy)
    world.play("submit a unprofiled\nwish a t4-000:2\ngo")
    policy.instead = [Plan({}, failures={"lab": WrongPlan("no plan: lost")}) for _ in range(2)]
    world.play("after 61\ngo 1\nafter 61\ngo 1")
    (told,) = [event.data["text"] for event in world.store.events() if event.kind is EventKind.ERROR]
    assert told == world.cycle.unplanned == "the policy did not plan pool lab: no plan: lost"
    world.play("after 61\ngo 1")
    assert world.cycle.unplanned is None


class Nonsense(WishingPolicy):
    """Plans as wished, until it is told what to return instead."""

    def __init__(self) -> None:
        super().__init__()
        self.instead: list[Any] = []

    def plan(self, round: Round) -> Plan:
        """Return what it was told to, or plan."""
        plan = super().plan(round)
        return self.instead.pop(0) if self.instead else plan


def test_a_plan_that_cannot_be_is_told_in_the_log_and_changes_nothing(tmp_path: Path) -> None:
    policy = Nonsense()
    world = World(tmp_path, "1x t4:4", planner=policy)
    policy.wishes["a"] = "t4-000:2"
    world.play("submit a unprofiled\nsubmit b\ngo\nruns a\n? b profiling")
    world.executors.sent.clear()
    share = Placement("t4", (NodeShare("t4-000", 4),))
    policy.instead = [
        None,
        Plan({world.ids["b"]: share}),
        Plan({world.ids["a"]: share, "b-2/profile/t4": share}),
        Plan({}, again_s=math.nan),
    ]
    for _ in range(4):
        world.play("after 61\ngo 1\n? sent\n? a running\n? a held 2")
    told = [str(event.data["text"]) for event in world.store.events() if event.kind is EventKind.ERROR]
    assert [text.split("plan: ")[1] for text in told] == [
        "NoneType is no Plan",
        "job 'b-2' gets GPUs and is not in the round",
        "jobs get 8 GPUs of node t4-000, which has 4",
        "again_s nan is no time in seconds",
    ]


def test_a_policy_that_asks_again_at_a_time_that_is_past_waits_for_the_next_round(tmp_path: Path) -> None:
    policy = Nonsense()
    world = World(tmp_path, "1x t4:4", planner=policy)
    policy.instead = [Plan({}, again_s=world.clock.now_s - 5.0), Plan({}, again_s=world.clock.now_s + 65.0)]
    world.play("go 5\n? rounds 1\nafter 55\ngo 5\n? rounds 2\ngo 5\n? rounds 3\ngo 5\n? rounds 3")


def test_an_event_that_makes_no_sense_is_told_in_the_log_and_those_after_it_count(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    world.cycle.on_event(world.ids["a"], cast(Any, "nonsense"))
    (told,) = [event for event in world.store.events(world.ids["a"]) if event.kind is EventKind.ERROR]
    assert told.data["text"] == "TypeError: event: str is not an executor event"
    world.play("finish a\n? a succeeded")


class Died(BaseException):
    """The service dies."""


def _dies(job_id: str) -> None:
    raise Died


def test_a_service_that_died_before_it_ended_an_executor_ends_it_when_it_is_back(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "submit b unprofiled\ngo\nfinish a\nafter 121")
    world.executors.sent.clear()
    retire, world.executors.retire = world.executors.retire, _dies
    with pytest.raises(Died):
        world.cycle.step()
    world.executors.retire = retire
    assert world.job("a").retired
    world.executors.left_over = {world.ids["a"]}
    world.play("reopen b\n? sent retire a")


@pytest.mark.parametrize("policy", ["fifo", "gavel", "sia", "coadapt", "srtf"])
def test_a_job_that_is_not_measured_first_starts_although_only_other_gpu_types_are_known(
    tmp_path: Path, policy: str
) -> None:
    world = World(tmp_path, "1x a100:4, 1x t4:4", planner=PerPool(partial(make_policy, policy)))
    world.play("submit b same=s types=a100\ngo\nmeasured b a100\ngo\nsubmit a same=s types=t4 unprofiled\ngo")
    assert {slot.gpu_type for slot in world.job("a").target} == {"t4"}


def test_an_executor_that_was_restarted_is_told_which_commands_are_void(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play("submit a\ngo\nmeasured a t4\nwish a t4-000:2\ngo")
    job, restarted = world.job("a"), Released(0, everything=True)
    assert (job.sequence, job.profile_sequence) == (1, 1)
    assert world.cycle.on_event(job.id, restarted) == Sent(1, 1)
    world.play("? a held 0\ngo\n? a held 2")
    assert world.job("a").sequence == 2
    assert world.cycle.on_event(job.id, restarted) == Sent(2, 1)
    assert world.cycle.on_event("z-9", restarted) == Sent(0, 0)
