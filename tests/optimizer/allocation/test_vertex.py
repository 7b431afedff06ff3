"""A vertex of the LP relaxation is found from prices that are near its own, and as well from others."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.optimizer.allocation.box import NO_BOX, near_around
from coadapt.optimizer.allocation.snapshot import Snapshot
from coadapt.optimizer.allocation.vertex import Vertex, find_vertex, lifted

from tests.support.choice_instances import Instance
from tests.support.choice_jobs import jobs_that_scale, lp_optimum, snapshot_of

TYPES = 3


def jobs(seed: int) -> Instance:
    return jobs_that_scale(np.random.default_rng(seed), 150, TYPES, per_type=80.0, spread=0.5)


def found(snapshot: Snapshot, prices: np.ndarray, enough: float = 0.0) -> Vertex:
    program, typical = snapshot.program, 1.0
    near = near_around(program, snapshot.known, NO_BOX, prices, 0.02, typical)
    return find_vertex(program, snapshot.known, near, prices, np.inf, typical, None, enough)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("off", [0.0, 0.005, 0.1, 3.0])
def test_its_bound_is_the_optimum_wherever_the_search_begins(seed: int, off: float) -> None:
    instance = jobs(seed)
    best = found(snapshot_of(instance), np.full(TYPES, 0.5)).prices
    start = best * np.exp(off * np.random.default_rng(seed).normal(size=TYPES))
    vertex = found(snapshot_of(instance), start)
    assert vertex.bound == pytest.approx(lp_optimum(instance), rel=1e-5)
    assert len(vertex.split) <= TYPES


def test_near_its_own_prices_few_pivots_are_needed() -> None:
    snapshot = snapshot_of(jobs(1))
    far = found(snapshot, np.zeros(TYPES))
    assert found(snapshot_of(jobs(1)), far.prices).pivots < far.pivots / 2


def test_the_picks_of_whole_rows_fit() -> None:
    instance = jobs(2)
    snapshot = snapshot_of(instance)
    vertex = found(snapshot, np.full(TYPES, 0.5))
    choice = snapshot.columns_of(vertex.picks)
    whole = np.setdiff1d(np.flatnonzero(choice >= 0), np.flatnonzero(np.isin(snapshot.order, vertex.split)))
    assert (instance.usage[:, choice[whole]].sum(axis=1) <= lifted(instance.capacity) + 1e-6).all()


def test_a_bound_that_was_better_before_is_kept_with_its_prices() -> None:
    snapshot = snapshot_of(jobs(0))
    prices = np.full(TYPES, 0.5)
    near = near_around(snapshot.program, snapshot.known, NO_BOX, prices, 0.02, 1.0)
    vertex = find_vertex(snapshot.program, snapshot.known, near, prices, -1.0, 1.0, None, 0.0)
    assert vertex.bound == -1.0
    assert vertex.prices is prices


def test_capacities_are_lifted_a_little_and_each_by_another_amount() -> None:
    room = lifted(np.full(8, 4.0))
    assert (room > 4.0).all()
    assert (room < 4.0 + 1e-5).all()
    assert len(set(room.tolist())) == 8
