"""In a replay, as live, nobody has GPUs that another job has not left yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from coadapt.executor.config import Adaptivity
from coadapt.simulator.cluster_file import read_cluster
from coadapt.simulator.engine import Timing
from coadapt.simulator.handover import Handovers, Move, Wait
from coadapt.simulator.recorded import RecordedModel, RecordedThroughput
from coadapt.simulator.replay import Conditions, simulation, source_of
from coadapt.simulator.workload import TraceJob, Workload
from hypothesis import given
from hypothesis import strategies as st

NODES = {"n1": 2, "n2": 2, "n3": 1}


def move(
    job: int, joins: Mapping[str, int], leaves: Mapping[str, int] | None = None, keeps_s: float = 20.0
) -> Move:
    return Move(job, joins, leaves or {}, keeps_s)


def test_free_gpus_are_had_at_once() -> None:
    assert Handovers().waits([move(1, {"n1": 2})], NODES, 0.0) == {1: Wait()}


def test_a_job_waits_for_one_that_moves_until_that_has_started_elsewhere() -> None:
    found = Handovers().waits([move(1, {"n1": 2}), move(2, {"n2": 2}, {"n1": 2})], {"n2": 2}, 100.0)
    assert found == {2: Wait(), 1: Wait(20.0)}


def test_waits_add_up_along_a_chain() -> None:
    moves = [move(1, {"n1": 2}), move(2, {"n2": 2}, {"n1": 2}, 20.0), move(3, {"n3": 1}, {"n2": 2}, 15.0)]
    assert Handovers().waits(moves, {"n3": 1}, 0.0) == {3: Wait(), 2: Wait(15.0), 1: Wait(35.0)}


def test_of_two_that_swap_the_first_stops() -> None:
    moves = [move(1, {"n2": 2}, {"n1": 2}), move(2, {"n1": 2}, {"n2": 2})]
    assert Handovers().waits(moves, {}, 0.0) == {2: Wait(), 1: Wait(20.0, stopped=True)}


def test_what_was_left_in_an_earlier_round_is_still_held() -> None:
    handovers = Handovers()
    handovers.waits([move(1, {"n2": 2}, {"n1": 2})], {"n2": 2}, 0.0)
    assert handovers.waits([move(2, {"n1": 1})], {"n1": 2}, 5.0) == {2: Wait(15.0)}
    assert handovers.waits([move(3, {"n1": 1})], {"n1": 1}, 20.0) == {3: Wait()}


def test_a_move_to_a_node_that_has_failed_does_not_wait_for_ever() -> None:
    assert Handovers().waits([move(1, {"gone": 1})], {"n1": 2}, 0.0) == {1: Wait()}


@st.composite
def plans(draw: st.DrawFn) -> tuple[dict[int, dict[str, int]], dict[int, dict[str, int]]]:
    """What four jobs have, and what they are to have."""
    found = []
    for _ in range(2):
        plan: dict[int, dict[str, int]] = {job: {} for job in range(4)}
        for node, left in NODES.items():
            for job in draw(st.permutations(range(4))):
                if gpus := draw(st.integers(0, left)):
                    plan[job][node] = gpus
                    left -= gpus
        found.append(plan)
    return found[0], found[1]


@given(plans(), st.lists(st.floats(0, 30), min_size=4, max_size=4))
def test_no_gpu_is_ever_held_twice(
    of: tuple[dict[int, dict[str, int]], dict[int, dict[str, int]]], keeps_s: list[float]
) -> None:
    old, new = of
    changed = [job for job in old if old[job] != new[job] and new[job]]
    held = {job: Counter(old[job]) for job in old}
    moves = [
        Move(job, Counter(new[job]) - held[job], held[job] - Counter(new[job]), keeps_s[job]) for job in changed
    ]
    free = Counter(NODES)
    for job in old:
        if new[job]:  # others have stopped
            free.subtract(held[job])
    found = Handovers().waits(moves, free, 0.0)
    assert set(found) == set(changed)
    spans = []  # from, until, what
    for each in moves:
        wait = found[each.job]
        leaves_s = 0.0 if wait.stopped else wait.seconds + each.keeps_s
        spans += [(0.0, leaves_s, each.leaves), (wait.seconds, 1e9, each.joins)]
        spans.append((0.0, 1e9, Counter(held[each.job]) & Counter(new[each.job])))
    spans += [(0.0, 1e9, held[job]) for job in old if new[job] and job not in changed]
    for at_s in {begin for begin, _, _ in spans}:
        used: Counter[str] = Counter()
        for begin, end, what in spans:
            if begin <= at_s < end:
                used.update(what)
        assert all(used[node] <= gpus for node, gpus in NODES.items()), (at_s, used)


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
