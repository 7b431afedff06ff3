"""Quotas in cells of nodes: where jobs lie, which cells are kept, and what is lent (check A17)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.lending.book import Book, Pool, Running, Waiting
from coadapt.policies.lending.cell_lending import (
    CellsLent,
    cells_for,
    lend_all_cells,
    serve_dedicated_cells,
)
from coadapt.policies.lending.ground import Fit, Ground, fits_at_all
from coadapt.policies.lending.lending import Windows
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.foreseeing import Foresees
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import TraceJob, Workload

NODES = {"n0": 8, "n1": 8, "n2": 8}
WINDOWS = Windows((5.0, 60.0))


def none(team: str, horizon_s: float) -> float:
    return 0.0


def lent(book: Book, ground: Ground, on: Mapping[int, Mapping[str, int]], **about: object) -> list[int]:
    how = {"new_load": none, "blocking": True} | about
    return [start.at for start in CellsLent(book, ground, WINDOWS, on=on, **how).lend()]  # type: ignore[arg-type]


def test_cells_of_a_node_are_split_and_merge_again() -> None:
    ground = Ground({"n0": 8}, {"a": (8,)})
    for _ in range(8):
        found = ground.fit("a", 1)
        assert found.shares == (("n0", 1),)
        ground.serve("a", found.shares)
    assert ground.fit("a", 1) == Fit(False)
    again = Ground({"n0": 8}, {"a": (8,)})  # all eight have ended
    assert again.fit("a", 8).shares == (("n0", 8),)


def test_a_job_lies_in_the_fullest_cell_with_room_and_else_in_the_least_further_one() -> None:
    ground = Ground(NODES, {"a": (8, 4, 2)})
    ground.hold("a", {"n0": 3})  # in its cell of 4
    assert ground.unbound["a"] == [2, 8]
    assert ground.fit("a", 1).shares == (("n0", 1),)
    assert ground.fit("a", 2).shares == (("n0", 2),), "its cell of 2, beside the other one"
    assert ground.fit("a", 8).shares == (("n1", 8),)


def test_no_job_lies_on_more_nodes_than_it_needs() -> None:
    ground = Ground(NODES, {"a": (8, 8, 8)})
    ground.hold("a", {"n0": 6, "n1": 7})
    assert ground.fit("a", 3).shares == (("n2", 3),), "2 + 1 GPUs of two nodes are idle, and are no cell"
    ground.hold("a", {"n2": 4})
    assert ground.fit("a", 5) == Fit(False)
    wide = Ground(NODES, {"a": (8, 8, 8)})
    assert wide.fit("a", 20).shares == (("n0", 8), ("n1", 8), ("n2", 4))


def test_a_cell_that_is_free_nowhere_is_told_apart_from_no_quota() -> None:
    ground = Ground(NODES, {"a": (8, 8, 8)})
    ground.lend((("n0", 1), ("n1", 1), ("n2", 1)))
    assert ground.fit("a", 1) == Fit(True, None)
    pool = Pool("a", 24, [Waiting(4, 1), Waiting(5, 1)], borrowing=[Running(1, 1), Running(2, 1), Running(3, 1)])
    served = serve_dedicated_cells(Book.of([pool], 24), ground)
    assert (served.starts, served.no_cell) == ([], [4])


@pytest.mark.parametrize(
    ("cells", "gpus", "fits"),
    [
        ((8, 8), 16, True),
        ((8, 8), 12, True),
        ((4, 4), 8, True),
        ((4, 1, 1), 6, False),
        ((4,), 3, True),
        ((), 1, False),
    ],
)
def test_whether_cells_hold_a_job_at_all(cells: tuple[int, ...], gpus: int, fits: bool) -> None:
    assert fits_at_all(cells, gpus) is fits
    nodes = {f"n{at}": 8 for at in range(max(len(cells), 1))}
    assert (Ground(nodes, {"a": cells}).fit("a", gpus).shares is not None) is fits


def test_borrowers_lie_together_and_never_beside_dedicated_jobs() -> None:
    ground = Ground(NODES, {"a": (8,), "b": (8, 8)})
    ground.hold("a", {"n0": 2})
    assert ground.borrowed(2) == (("n1", 2),)
    ground.lend((("n1", 2),))
    assert ground.borrowed(6) == (("n1", 6),)
    assert ground.borrowed(7) == (("n2", 7),)
    assert ground.fit("b", 8).shares == (("n2", 8),)


def test_a_load_to_come_fills_the_largest_cells_first() -> None:
    assert [cells_for([1, 4, 8], load) for load in (0, 1, 8, 9, 13, math.inf)] == [0, 8, 8, 12, 13, 13]


@pytest.mark.parametrize(("blocking", "lends"), [(True, [3]), (False, [])])
def test_a_blocked_queue_needs_no_further_cell(blocking: bool, lends: list[int]) -> None:
    """The head of b waits for both of its nodes, of which one is held for long; the bulk rule keeps the other."""
    a = Pool("a", 8, [Waiting(3, 8, 0, 5)], [Running(0, 1, 720, math.inf)])
    b = Pool("b", 16, [Waiting(2, 16, 720, math.inf)], [Running(1, 8, 720, math.inf)])
    ground = Ground(NODES, {"a": (8,), "b": (8, 8)})
    ground.hold("a", {"n0": 1})
    ground.hold("b", {"n1": 8})
    on = {0: {"n0": 1}, 1: {"n1": 8}}
    assert lent(Book.of([a, b], 24), ground, on, blocking=blocking) == lends


def test_what_comes_keeps_whole_cells_back_and_a_lent_node_is_lent_on_for_no_longer() -> None:
    a = Pool("a", 8, [Waiting(3, 1, 0, 5), Waiting(4, 1, 5, 60)], [Running(0, 8, 720, math.inf)])
    b = Pool("b", 16, borrowing=[Running(1, 1, 0, 5)])
    ground = Ground(NODES, {"a": (8,), "b": (8, 8)})
    ground.hold("a", {"n0": 8})
    ground.lend((("n1", 1),))
    on = {0: {"n0": 8}, 1: {"n1": 1}}
    comes = {5.0: 8.0, 60.0: 16.0}
    found = lent(Book.of([a, b], 24), ground, on, new_load=lambda team, s: comes[s] if team == "b" else 0.0)
    assert found == [3], "it is back as soon as the node is anyway; the other would stay until 60, and 16 may come"


def test_without_reservations_whoever_waits_takes_cells() -> None:
    a = Pool("a", 8, [Waiting(3, 8), Waiting(4, 8), Waiting(5, 1)], [Running(0, 8)])
    ground = Ground(NODES, {"a": (8,), "b": (8, 8)})
    ground.hold("a", {"n0": 8})
    assert [start.at for start in lend_all_cells(Book.of([a, Pool("b", 16)], 24), ground)] == [3, 4]


def drawn(seed: int) -> Workload:
    rng = random.Random(seed)
    rows = []
    for at in range(70):
        team = rng.choice("abc")
        takes = rng.choice([rng.uniform(20, 300), rng.uniform(300, 3600), rng.uniform(3600, 30_000)])
        gpus = rng.choice([1, 1, 2, 4, 8, 16] if team == "a" else [1, 2, 4])
        rows.append(
            TraceJob(f"j{at:02d}", rng.uniform(0, 60_000), gpus, takes, virtual_cluster=team, preemptible=False)
        )
    return Workload.of(sorted(rows, key=lambda job: job.submit_s))


@pytest.mark.parametrize(
    ("policy", "options", "foresees"),
    [
        ("anticipatory", {"stops_borrowers": False}, Foresees.PERFECT),
        ("anticipatory", {"stops_borrowers": False, "reservations": "bulk"}, Foresees.PERFECT),
        ("team_queues", {"rule": "hived"}, None),
        ("team_queues", {"rule": "strict"}, None),
    ],
)
def test_runs_in_cells(tmp_path: Path, policy: str, options: dict[str, object], foresees: Foresees | None) -> None:
    """At every decision borrowers are apart from dedicated jobs, and each job is on as few nodes as can be."""
    text = (
        "teams: {a: {guarantee: {t4: 16}}, b: {guarantee: {t4: 8}}, c: {guarantee: {t4: 8}, cells: {t4: [4, 4]}}}"
    )
    (tmp_path / "teams.yaml").write_text(text)
    nodes, borrowed, missed = read_cluster("4x t4:8"), set[str](), set[str]()

    def watch(round: Round, plan: Plan) -> None:
        for job, placement in plan.placements.items():
            assert placement.nodes == -(-placement.gpus // 8)
            if job in plan.borrowed:
                borrowed.add(job)
                others = {
                    node
                    for other, at in plan.placements.items()
                    for node in at.by_node
                    if other not in plan.borrowed
                }
                assert not others & placement.by_node.keys()
        missed.update(round.columns.ids[plan.figures["no_cell"] > 0].tolist())

    starts = {}
    for name, how, told in (("it", options, foresees), ("alone", {"rule": "strict"}, None)):
        under = Conditions(timing=Timing(events=True), shares=tmp_path / "teams.yaml", foresees=told)
        kind = policy if name == "it" else "team_queues"
        made = simulation(drawn(3), nodes, kind, how | {"locality": "cells"}, source_of(False, None, nodes), under)
        if name == "it":
            made.engines[0].watch = watch
        starts[name] = made.run().started_s
    if policy == "anticipatory":
        assert borrowed
        assert not missed
        assert starts["it"].mean() < starts["alone"].mean() - 100
    elif options["rule"] == "hived":
        assert borrowed
        assert missed, "dedicated jobs find their cells lent"
    else:
        assert not borrowed
        np.testing.assert_array_equal(starts["it"], starts["alone"])


@pytest.mark.parametrize(
    ("policy", "options", "told"),
    [
        ("anticipatory", {}, "locality: cells goes with stops_borrowers=false"),
        (
            "team_queues",
            {"rule": "max_min"},
            "locality: cells is for the rules strict, hived, and not for max_min",
        ),
        ("team_queues", {"locality": "node"}, "locality: 'node' is not accepted, must be one of any, cells"),
    ],
)
def test_options_that_do_not_go_together_are_refused(policy: str, options: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make_policy(policy, **{"locality": "cells"} | options)
