"""A plan becomes slots: jobs that stay keep theirs, and every GPU has one job or one profile run."""

from __future__ import annotations

from dataclasses import replace

from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec, JobState, Phase
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.slot import Slot
from coadapt.core.teams import Team, Teams
from coadapt.estimators.sensitivity.measured import MeasuredSensitivity
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun
from coadapt.scheduler.nodes.node_view import NodesSnapshot
from coadapt.scheduler.rounds.launcher import Assign
from coadapt.scheduler.rounds.profile_work import ProfileWork
from coadapt.scheduler.rounds.snapshot import Snapshot
from coadapt.scheduler.rounds.transition import Wanted, actions, plan_slots

CLUSTER = Cluster((Node("n", "t4", 4, cpus=4.0), Node("m", "t4", 2)))
NODES = NodesSnapshot(CLUSTER, {"n": "ln", "m": "lm"}, frozenset("nm"), ready=True)
SPEC = JobSpec(name="j", script="t.py")
WORK = ProfileWork("a", "t4")


def slot(node: str, *devices: int, cpus: float | None = None) -> Slot:
    """Return a slot with its GPUs' part of the CPUs; node m states none."""
    part = float(len(devices)) if node == "n" else 0.0
    return Slot(node, f"l{node}", devices, "t4", cpus=part if cpus is None else cpus)


def record(id: str, *slots: Slot) -> JobRecord:
    return JobRecord(id, 1, SPEC, JobState(Phase.RUNNING, 0.0), target=slots, held=slots, group=slots)


def on(**gpus: int) -> Placement:
    return Placement("t4", tuple(NodeShare(node, count) for node, count in gpus.items()))


def planned(jobs: list[JobRecord], told: list[str] | None = None, **placements: Placement) -> Wanted:
    """Return the slots of a plan. "run" is the placement of job a's profile run."""
    plan = Plan({WORK.id if id == "run" else id: placement for id, placement in placements.items()})
    views = [JobView(id, SPEC) for id in plan.placements]
    snapshot = Snapshot(Round(0.0, 60.0, CLUSTER, views), {WORK.id: WORK})
    failed = (lambda id, error: told.append(f"{id}: {error}")) if told is not None else _raise
    return plan_slots(snapshot, plan, NODES, jobs, failed)


def _raise(id: str, error: ValueError) -> None:
    raise error


def test_a_job_whose_placement_is_the_one_it_has_keeps_the_same_slots() -> None:
    a, b = record("a", slot("n", 1), slot("n", 3)), record("b", slot("m", 1))
    assert a.placement is not None
    found = planned([a, b], a=a.placement, b=on(m=2))
    assert found.slots["a"] is a.target
    assert found.slots["b"] == (slot("m", 0), slot("m", 1))


def test_equal_numbers_of_gpus_on_the_same_node_are_the_same_slots() -> None:
    a = record("a", slot("n", 1), slot("n", 3))
    assert planned([a], a=on(n=2)).slots["a"] is a.target


def test_a_profile_run_and_the_job_itself_are_on_gpus_of_their_own() -> None:
    a = replace(record("a", slot("n", 1)), profiles=(ProfileRun("t4", slot("n", 0), started_s=1.0, sequence=1),))
    found = planned([a], a=on(n=3), run=on(n=1)).slots
    assert (found["a"], found[WORK.id]) == ((slot("n", 1), slot("n", 2), slot("n", 3)), (slot("n", 0),))


def test_gpus_that_a_job_is_leaving_are_given_last() -> None:
    leaving = replace(record("a", slot("n", 0), slot("n", 1)), target=(slot("n", 1),))
    found = planned([leaving, record("b")], a=on(n=1), b=on(n=1)).slots
    assert (found["a"], found["b"]) == ((slot("n", 1),), (slot("n", 2),))


def test_a_placement_that_cannot_be_had_is_told_and_the_others_go_on() -> None:
    told: list[str] = []
    found = planned([record("a"), record("b")], told, a=on(n=4), b=on(n=2, m=1))
    assert set(found.slots) == {"a"}
    assert told == ["b: job b asks node n for 2 GPUs, of which 0 are free"]


def test_slots_in_a_lease_that_is_gone_are_other_slots() -> None:
    old = replace(slot("n", 1), lease_id="before")
    a = record("a", old)
    assert a.placement is not None
    assert planned([a], a=a.placement).slots["a"] == (slot("n", 1),)


def test_more_cpus_of_a_job_are_told_its_executor_and_nothing_moves() -> None:
    a = record("a", slot("n", 1))
    more = Placement("t4", (NodeShare("n", 1, 3.0, devices=(1,)),))
    (action,) = actions({"a": a}, {"a": a}, planned([a], a=more), NODES, 60.0, 0.0)
    assert action == Assign("a", a.target)
    assert isinstance(action, Assign)
    assert action.slots[0].cpus == 3.0


def test_a_job_that_names_no_cpus_is_given_its_gpus_part_where_it_is() -> None:
    a = record("a", slot("n", 1, cpus=0.5), slot("n", 3, cpus=0.5))
    assert a.placement is not None
    wanted = planned([a], a=a.placement)
    (action,) = actions({"a": a}, {"a": a}, wanted, NODES, 60.0, 0.0)
    assert isinstance(action, Assign)
    assert set(action.slots) == set(a.target)
    assert [slot.cpus for slot in action.slots] == [1.0, 1.0]
    given = replace(a, target=action.slots, held=action.slots)
    assert planned([given], a=a.placement).slots["a"] is given.target, "and only once"


def test_a_team_holds_no_more_than_its_cap_while_one_of_its_jobs_leaves() -> None:
    spec = JobSpec(name="j", script="t.py", team="guests")
    teams = Teams(teams={"guests": Team(cap={"t4": 3})})
    stays, leaves, comes = (
        replace(record(id, *slots), spec=spec)
        for id, slots in (("a", (slot("n", 0),)), ("b", (slot("n", 1), slot("n", 2))), ("c", ()))
    )
    jobs = {job.id: job for job in (stays, leaves, comes)}
    wanted = planned([stays, leaves, comes], a=on(n=1), c=on(m=2))
    sent = actions(jobs, jobs, wanted, NODES, 60.0, 0.0, teams)
    assert sent == [Assign("b", ())]
    jobs["b"] = replace(leaves, target=())
    assert actions(jobs, jobs, wanted, NODES, 60.0, 0.0, teams) == []
    jobs["b"] = replace(leaves, target=(), held=(), group=())
    assert actions(jobs, jobs, wanted, NODES, 60.0, 0.0, teams) == [Assign("c", (slot("m", 0), slot("m", 1)))]


def test_a_cap_that_others_hold_or_of_another_pool_keeps_nobody_from_moving() -> None:
    spec = JobSpec(name="j", script="t.py", team="guests")
    teams = Teams(teams={"guests": Team(cap={"t4@lab": 0}), "others": Team(cap={"t4": 0})})
    job = replace(record("a"), spec=spec)
    sent = actions({"a": job}, {"a": job}, planned([job], a=on(m=2)), NODES, 60.0, 0.0, teams)
    assert sent == [Assign("a", (slot("m", 0), slot("m", 1)))]


def test_cpus_that_a_plan_leaves_show_the_speed_of_inputs_and_go_back_with_the_next_plan() -> None:
    cluster = Cluster((Node("n", "t4", 4, cpus=16.0, memory_gib=64.0),))
    nodes = NodesSnapshot(cluster, {"n": "ln"}, frozenset("n"), ready=True)
    climbs = MeasuredSensitivity((1.0, 4.0), (10.0, 40.0))

    def slots(jobs: list[JobRecord], **gpus: int) -> dict[str, float]:
        plan = Plan({id: Placement("t4", (NodeShare("n", count, 4.0 * count),)) for id, count in gpus.items()})
        views = [JobView(id, SPEC, sensitivity=climbs if id == "a" else None) for id in gpus]
        snapshot = Snapshot(Round(0.0, 60.0, cluster, views), {WORK.id: WORK} if WORK.id in gpus else {})
        found = plan_slots(snapshot, plan, nodes, jobs, _raise, provisions=True).slots
        return {id: sum(slot.cpus for slot in of) for id, of in found.items()}

    a, b = record("a"), record("b")
    assert slots([a], a=1) == {"a": 8.0}, "twice as many as were measured"
    assert slots([a, b], a=1, b=2) == {"a": 8.0, "b": 8.0}
    assert slots([a, b], a=1, b=3) == {"a": 4.0, "b": 12.0}
    run = {WORK.id: 1}
    assert slots([a], **run) == {WORK.id: 16.0}, "a profile run has all that is left"
