"""In a replay, as live, nobody has GPUs that another job has not left yet."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from coadapt.core.training_config import Adaptivity
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.handover import Gpus, Handovers, Move, Wait
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.recorded import RecordedModel, RecordedThroughput
from coadapt.simulator.traces.workload import TraceJob, Workload
from hypothesis import given
from hypothesis import strategies as st

NODES = {"n1": 2, "n2": 2, "n3": 1}


def move(job: int, has: Gpus, gets: Gpus, keeps_s: float = 20.0) -> Move:
    return Move(job, has, gets, bool(has), keeps_s)


def waits(*moves: Move, free: Gpus = NODES, now: float = 0.0, after: Handovers | None = None) -> dict[int, Wait]:
    return (after or Handovers()).waits(moves, free, now)


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
    back = Move(1, {"n2": 2}, {"n1": 2}, False, 20.0)
    assert waits(back, now=5.0, after=handovers) == {1: Wait(trains=True, returns=True)}
    assert waits(move(2, {}, {"n2": 2}), free={"n2": 2}, now=6.0, after=handovers) == {2: Wait()}


def test_a_job_that_is_redirected_leaves_what_it_trains_on_when_others_were_told() -> None:
    handovers = Handovers()
    waits(move(1, {"n1": 1}, {"n2": 1}), after=handovers)
    waits(Move(1, {"n2": 1}, {"n3": 1}, False, 20.0), now=15.0, after=handovers)
    later = waits(move(2, {}, {"n1": 2, "n2": 2}), free={"n1": 2, "n2": 2}, now=16.0, after=handovers)
    assert later == {2: Wait(4.0)}


def test_gpus_that_were_free_all_along_do_not_wait_for_others() -> None:
    handovers = Handovers()
    waits(move(1, {"n1": 2}, {"n2": 2}), move(2, {}, {"n1": 2}), free={"n1": 3, "n2": 2}, after=handovers)
    assert waits(move(3, {}, {"n1": 1}), free={"n1": 1}, now=5.0, after=handovers) == {3: Wait()}


def test_a_move_to_a_node_that_has_failed_does_not_wait_for_ever() -> None:
    assert waits(move(1, {}, {"gone": 1}), free={"n1": 2}) == {1: Wait()}


@st.composite
def plans(draw: st.DrawFn, rounds: int = 2) -> list[dict[int, dict[str, int]]]:
    """Draw what four jobs are to have, round by round."""
    found = []
    for _ in range(rounds):
        plan: dict[int, dict[str, int]] = {job: {} for job in range(4)}
        for node, left in NODES.items():
            for job in draw(st.permutations(range(4))):
                if gpus := draw(st.integers(0, left)):
                    plan[job][node] = gpus
                    left -= gpus
        found.append(plan)
    return found


@given(plans(rounds=6), st.lists(st.tuples(st.floats(0.5, 30), st.booleans()), min_size=6, max_size=6))
def test_over_many_rounds_there_are_never_more_gpus_held_than_there_are(
    rounds: list[dict[int, dict[str, int]]], steps: list[tuple[float, bool]]
) -> None:
    handovers, now = Handovers(), 0.0
    old: dict[int, dict[str, int]] = {job: {} for job in range(4)}
    for new, (gap_s, trains) in zip(rounds, steps, strict=True):
        for job in old:
            if not new[job]:
                handovers.forget(job)
        changed = [job for job in old if old[job] != new[job] and new[job]]
        free = Counter(NODES)
        for job in old:
            if new[job] and job not in changed:
                free.subtract(old[job])
        moves = [Move(job, old[job], new[job], trains and bool(old[job]), 20.0) for job in changed]
        found = handovers.waits(moves, free, now)
        assert all(0 <= wait.seconds <= 20.0 * 4 * len(rounds) for wait in found.values())
        spans = (*handovers.held, *handovers.coming)
        for at_s in {now, *(span.at_s for span in spans if span.at_s > now)}:
            used: Counter[str] = Counter()
            for gpus in new.values():
                used.update(gpus)
            for span in handovers.coming:
                if span.at_s > at_s:
                    used.subtract(span.gpus)
            for span in handovers.held:
                if span.at_s > at_s:
                    used.update(span.gpus)
            assert all(0 <= used[node] <= gpus for node, gpus in NODES.items()), (at_s, used)
        old, now = new, now + gap_s


@given(plans(), st.lists(st.floats(0, 30), min_size=4, max_size=4))
def test_no_gpu_is_ever_held_twice(of: list[dict[int, dict[str, int]]], keeps_s: list[float]) -> None:
    old, new = of
    changed = [job for job in old if old[job] != new[job] and new[job]]
    moves = [Move(job, old[job], new[job], bool(old[job]), keeps_s[job]) for job in changed]
    free = Counter(NODES)
    for job in old:
        if new[job] and job not in changed:  # others move or have stopped
            free.subtract(old[job])
    found = Handovers().waits(moves, free, 0.0)
    assert set(found) == set(changed)
    spans: list[tuple[float, float, Gpus]] = [
        (0.0, 1e9, old[job]) for job in old if new[job] and job not in changed
    ]
    for job in changed:
        has, gets, wait = Counter(old[job]), Counter(new[job]), found[job]
        leaves_s = wait.seconds + (keeps_s[job] if gets - has else 0.0) if wait.trains else 0.0
        spans += [(0.0, leaves_s, has - gets), (wait.seconds, 1e9, gets - has), (0.0, 1e9, has & gets)]
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
