"""In a replay, as live, nobody has GPUs, CPUs or memory that another job has not left yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.resources import Amounts, Resources, add
from coadapt.core.training_config import Adaptivity
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.handover import ANY, Handovers, Move, Wait
from coadapt.simulator.jobs.adaptive import AdaptiveWorld
from coadapt.simulator.jobs.knowledge import LearningKnowledge
from coadapt.simulator.jobs.recorded_application import application_of
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.recorded import RecordedModel, RecordedThroughput
from coadapt.simulator.traces.workload import TraceJob, Workload
from hypothesis import given
from hypothesis import strategies as st

Counts = Mapping[str, int]  # GPUs by node
NODES = {"n1": 2, "n2": 2, "n3": 1}


def gpus(counts: Counts) -> Amounts:
    return {node: Resources({ANY: float(count)}) for node, count in counts.items() if count}


def move(job: int, has: Counts, gets: Counts, keeps_s: float = 20.0, *, trains: bool = True) -> Move:
    return Move(job, gpus(has), gpus(gets), trains and bool(has), keeps_s)


def waits(
    *moves: Move, free: Counts | Amounts = NODES, now: float = 0.0, after: Handovers | None = None
) -> dict[int, Wait]:
    amounts = {node: Resources({ANY: float(has)}) if isinstance(has, int) else has for node, has in free.items()}
    return (after or Handovers()).waits(moves, amounts, now)


TRAINS = Wait(trains=True)


def test_free_gpus_are_had_at_once() -> None:
    assert waits(move(1, {}, {"n1": 2})) == {1: Wait()}


def test_a_job_waits_for_one_that_moves_until_that_has_started_elsewhere() -> None:
    assert waits(move(1, {}, {"n1": 2}), move(2, {"n1": 2}, {"n2": 2})) == {2: TRAINS, 1: Wait(20.0)}


def test_who_shrinks_gives_up_gpus_at_once() -> None:
    assert waits(move(1, {}, {"n1": 1}), move(2, {"n1": 2}, {"n1": 1})) == {2: TRAINS, 1: Wait()}


def test_waits_add_up_along_a_chain() -> None:
    moves = move(1, {}, {"n1": 2}), move(2, {"n1": 2}, {"n2": 2}), move(3, {"n2": 2}, {"n3": 1}, 15.0)
    assert waits(*moves) == {3: TRAINS, 2: Wait(15.0, trains=True), 1: Wait(35.0)}


def test_of_two_that_swap_the_first_stops_whatever_else_moves() -> None:
    swap = move(1, {"n1": 2}, {"n2": 2}), move(2, {"n2": 2}, {"n1": 2})
    assert waits(*swap) == {2: TRAINS, 1: Wait(20.0)}
    assert waits(*swap, move(3, {"n3": 1}, {"n4": 1}, 60.0), free=NODES | {"n4": 1}) == {
        3: TRAINS,
        2: TRAINS,
        1: Wait(20.0),
    }


def test_a_bystander_of_a_circle_is_not_stopped() -> None:
    bystander = move(9, {"n3": 1}, {"n1": 1, "n2": 1})
    swap = move(1, {"n1": 1}, {"n2": 1}), move(2, {"n2": 1}, {"n1": 1})
    found = waits(bystander, *swap, free={"n1": 2, "n2": 2, "n3": 1})
    assert found[9].trains


def test_what_was_left_in_an_earlier_round_is_still_held() -> None:
    handovers = Handovers()
    waits(move(1, {"n1": 2}, {"n2": 2}), after=handovers)
    assert waits(move(2, {}, {"n1": 1}), free={"n1": 2}, now=5.0, after=handovers) == {2: Wait(15.0)}
    assert waits(move(3, {}, {"n1": 1}), free={"n1": 1}, now=20.0, after=handovers) == {3: Wait()}


def test_a_job_that_has_ended_holds_nothing() -> None:
    handovers = Handovers()
    waits(move(1, {"n1": 2}, {"n2": 2}), after=handovers)
    handovers.forget(1)
    assert waits(move(2, {}, {"n1": 2}), free={"n1": 2}, now=5.0, after=handovers) == {2: Wait()}


def test_a_job_goes_back_to_where_it_still_trains_without_a_pause() -> None:
    handovers = Handovers()
    waits(move(1, {"n1": 2}, {"n2": 2}), after=handovers)
    back = move(1, {"n2": 2}, {"n1": 2}, trains=False)
    assert waits(back, now=5.0, after=handovers) == {1: Wait(trains=True, returns=True)}
    assert waits(move(2, {}, {"n2": 2}), free={"n2": 2}, now=6.0, after=handovers) == {2: Wait()}


def test_a_job_that_is_redirected_leaves_what_it_trains_on_when_others_were_told() -> None:
    handovers = Handovers()
    waits(move(1, {"n1": 1}, {"n2": 1}), after=handovers)
    waits(move(1, {"n2": 1}, {"n3": 1}, trains=False), now=15.0, after=handovers)
    later = waits(move(2, {}, {"n1": 2, "n2": 2}), free={"n1": 2, "n2": 2}, now=16.0, after=handovers)
    assert later == {2: Wait(4.0)}


def test_gpus_that_were_free_all_along_do_not_wait_for_others() -> None:
    handovers = Handovers()
    waits(move(1, {"n1": 2}, {"n2": 2}), move(2, {}, {"n1": 2}), free={"n1": 3, "n2": 2}, after=handovers)
    assert waits(move(3, {}, {"n1": 1}), free={"n1": 1}, now=5.0, after=handovers) == {3: Wait()}


def test_a_move_to_a_node_that_has_failed_does_not_wait_for_ever() -> None:
    assert waits(move(1, {}, {"gone": 1}), free={"n1": 2}) == {1: Wait()}


def on(node: str, gpus: int, cpus: float = 0.0, memory_gib: float = 0.0) -> Amounts:
    return {node: Resources({ANY: float(gpus)} if gpus else {}, cpus, memory_gib)}


@pytest.mark.parametrize("other", [{"cpus": 6.0}, {"memory_gib": 6.0}], ids=str)
def test_who_has_free_gpus_waits_for_cpus_and_memory_that_another_is_leaving(other: Mapping[str, float]) -> None:
    leaves = Move(2, on("n1", 1, **other), on("n2", 1, **other), True, 20.0)
    comes = Move(1, {}, on("n1", 1, **other), False, 20.0)
    free = on("n1", 2, 8.0, 8.0) | on("n2", 2, 8.0, 8.0)
    assert waits(comes, leaves, free=free) == {2: TRAINS, 1: Wait(20.0)}
    assert waits(comes, leaves, free=free | on("n1", 2, 12.0, 12.0)) == {1: Wait(), 2: TRAINS}


def test_who_gives_up_cpus_alone_frees_them_at_once_and_who_gets_more_starts_nothing() -> None:
    few, many = on("n1", 1, 2.0), on("n1", 1, 6.0)
    shrinks, grows = Move(1, many, few, True, 20.0), Move(2, few, many, True, 20.0)
    handovers = Handovers()
    assert waits(grows, shrinks, free=on("n1", 2, 8.0), after=handovers) == {1: TRAINS, 2: TRAINS}
    assert (handovers.held, handovers.coming) == ([], [])


def test_of_two_that_swap_cpus_the_first_stops() -> None:
    one = Move(1, on("n1", 1, 6.0) | on("n2", 1, 2.0), on("n1", 1, 2.0) | on("n2", 1, 6.0), True, 20.0)
    other = Move(2, one.gets, one.has, True, 20.0)
    free = on("n1", 2, 8.0) | on("n2", 2, 8.0)
    assert waits(one, other, free=free) == {2: TRAINS, 1: Wait()}


CPUS = 8  # of each node
Plans = list[dict[int, Amounts]]


@st.composite
def plans(draw: st.DrawFn, rounds: int = 2) -> Plans:
    """Draw what four jobs are to have, round by round."""
    found: Plans = []
    for _ in range(rounds):
        plan: dict[int, Amounts] = {job: {} for job in range(4)}
        for node, left in NODES.items():
            cpus = CPUS
            for job in draw(st.permutations(range(4))):
                if count := draw(st.integers(0, left)):
                    mine = draw(st.integers(0, cpus))
                    plan[job] = {**plan[job], **on(node, count, float(mine))}
                    left, cpus = left - count, cpus - mine
        found.append(plan)
    return found


def free_beside(old: Mapping[int, Amounts], new: Mapping[int, Amounts], changed: list[int]) -> Amounts:
    """Return what is free without jobs that move; others stay, or have stopped."""
    free = {node: Resources({ANY: float(count)}, float(CPUS)) for node, count in NODES.items()}
    for job, amounts in old.items():
        if new[job] and job not in changed:
            add(free, amounts, -1.0)
    return free


def assert_within_nodes(used: Amounts, at_s: float) -> None:
    for node, amount in used.items():
        count = amount.devices.get(ANY, 0.0)
        assert 0 <= count <= NODES[node], (at_s, node, amount)
        assert 0 <= amount.cpus <= CPUS, (at_s, node, amount)


@given(plans(rounds=6), st.lists(st.tuples(st.floats(0.5, 30), st.booleans()), min_size=6, max_size=6))
def test_over_many_rounds_there_is_never_more_held_than_there_is(
    rounds: Plans, steps: list[tuple[float, bool]]
) -> None:
    handovers, now = Handovers(), 0.0
    old: dict[int, Amounts] = {job: {} for job in range(4)}
    for new, (gap_s, trains) in zip(rounds, steps, strict=True):
        for job in old:
            if not new[job]:
                handovers.forget(job)
        changed = [job for job in old if old[job] != new[job] and new[job]]
        moves = [Move(job, old[job], new[job], trains and bool(old[job]), 20.0) for job in changed]
        found = handovers.waits(moves, free_beside(old, new, changed), now)
        assert all(0 <= wait.seconds <= 20.0 * 4 * len(rounds) for wait in found.values())
        spans = (*handovers.held, *handovers.coming)
        for at_s in {now, *(span.at_s for span in spans if span.at_s > now)}:
            used: dict[str, Resources] = {}
            for amounts in new.values():
                add(used, amounts)
            for span in handovers.coming:
                if span.at_s > at_s:
                    add(used, span.amounts, -1.0)
            for span in handovers.held:
                if span.at_s > at_s:
                    add(used, span.amounts)
            assert_within_nodes(used, at_s)
        old, now = new, now + gap_s


@given(plans(), st.lists(st.floats(0, 30), min_size=4, max_size=4))
def test_nothing_is_ever_held_twice(of: Plans, keeps_s: list[float]) -> None:
    old, new = of
    changed = [job for job in old if old[job] != new[job] and new[job]]
    moves = [Move(job, old[job], new[job], bool(old[job]), keeps_s[job]) for job in changed]
    found = Handovers().waits(moves, free_beside(old, new, changed), 0.0)
    assert set(found) == set(changed)
    spans = [(0.0, 1e9, old[job]) for job in old if new[job] and job not in changed]
    for job in changed:
        wait = found[job]
        joins, leaves, stays = _parts(old[job], new[job])
        starts = any(amount.devices for amount in joins.values())
        leaves_s = wait.seconds + (keeps_s[job] if starts else 0.0) if wait.trains else 0.0
        spans += [(0.0, leaves_s, leaves), (wait.seconds, 1e9, joins), (0.0, 1e9, stays)]
    for at_s in {begin for begin, _, _ in spans}:
        used: dict[str, Resources] = {}
        for begin, end, what in spans:
            if begin <= at_s < end:
                add(used, what)
        assert_within_nodes(used, at_s)


def _parts(has: Amounts, gets: Amounts) -> tuple[Amounts, Amounts, Amounts]:
    """Return what is new of an amount, what is left, and what stays."""
    none = Resources()
    nodes = has.keys() | gets.keys()
    joins = {node: gets.get(node, none).beyond(has.get(node, none)) for node in nodes}
    leaves = {node: has.get(node, none).beyond(gets.get(node, none)) for node in nodes}
    return joins, leaves, {node: has.get(node, none) - leaves[node] for node in nodes}


def test_in_a_replay_a_newcomer_waits_for_what_another_job_is_leaving() -> None:
    """One moves from the t4 to the faster a100 once that is free; the next has the t4 when that has started."""
    speed = RecordedThroughput({"alpha_c": 0.2, "beta_c": 0.1}, 8)
    fast = RecordedThroughput({"alpha_c": 0.1, "beta_c": 0.05}, 8)
    model = RecordedModel(
        {"t4": speed, "a100": fast}, 8, 8, 6400.0, noise_scale=0.0, start_s=20.0, pause_s=0.5, restart_s=1.0
    )
    kind = TraceJob("a", 0.0, max_gpus=1, adaptivity=Adaptivity.ADAPTIVE, model=model)
    blocks = replace(
        kind, id="c", preemptible=False, model=replace(model, throughput={"a100": fast}, samples=800.0)
    )
    moves = replace(kind, submit_s=10.0)
    waits = replace(kind, id="b", submit_s=30.0, model=replace(model, throughput={"t4": speed}))
    nodes = read_cluster("1x a100:1, 1x t4:1")
    found = simulation(
        Workload.of([blocks, moves, waits]),
        nodes,
        "sia",
        {},
        source_of(False, None, nodes),
        Conditions(Timing(5.0)),
    ).run()
    moved_s = next(h.time_s for h in found.holdings if h.job == 1 and h.gpu_type == "a100")
    assert found.jct_s[2] == pytest.approx(moved_s - 30.0 + 20.0 + 20.0 + 800.0, abs=0.01)


class Moves:
    """Has job a on one node, then on the other when b comes. Each job gets a GPU and 6 CPUs."""

    def plan(self, round: Round) -> Plan:
        ids = round.columns.ids.tolist()
        where = {"a": "m" if "b" in ids else "n", "b": "n"}
        return Plan({id: Placement("t4", (NodeShare(where[id], 1, cpus=6.0),)) for id in ids})


def test_in_a_run_a_newcomer_waits_for_the_cpus_that_another_job_is_leaving() -> None:
    speed = RecordedThroughput({"alpha_c": 0.2, "beta_c": 0.1}, 8)
    model = RecordedModel({"t4": speed}, 8, 8, 6400.0, noise_scale=0.0, start_s=20.0)
    a = TraceJob("a", 0.0, max_gpus=1, adaptivity=Adaptivity.ADAPTIVE, model=model)
    workload, jobs = Workload.of([a, replace(a, id="b", submit_s=30.0)]), [application_of("a", model, ["t4"])] * 2

    def took_s(cpus: float) -> float:
        world = AdaptiveWorld(workload, jobs, LearningKnowledge(workload, jobs))
        nodes = Cluster(tuple(Node(id, "t4", 2, cpus=cpus) for id in "mn"))
        return float(Engine(world, nodes, Moves(), Timing(60.0)).run().jct_s[1])

    assert took_s(8.0) - took_s(12.0) == pytest.approx(20.0)
