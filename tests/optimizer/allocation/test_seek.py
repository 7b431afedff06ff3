"""From wherever prices are sought, there comes a bound of it, a box around them and the rows open in that."""

from dataclasses import replace

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceProgram
from coadapt.optimizer.allocation.near import NOWHERE, REACH, SETTLED, is_inside, no_box
from coadapt.optimizer.allocation.rows import best_of, costs, dual_value
from coadapt.optimizer.allocation.seek import Aim, seek
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.choice_instances import FAMILIES, LARGER, draw
from tests.support.choice_jobs import jobs_that_scale, snapshot_of


@given(
    st.sampled_from([*FAMILIES, *LARGER]),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    st.sampled_from([0.02, 0.15]),
)
@settings(max_examples=100)
def test_the_box_holds_the_prices_and_the_dual_is_that_of_all_rows(
    family: str, seed: int, times: float, ahead: float
) -> None:
    snapshot = snapshot_of(draw(family, seed))
    snapshot = replace(snapshot, rows=snapshot.rows._replace(required=np.zeros_like(snapshot.rows.required)))
    worth = snapshot.worth_of_a_row() or 1.0
    count = len(snapshot.rows.order)
    typical = worth * count / max(snapshot.capacity.sum(), 1.0)
    rng = np.random.default_rng(seed)
    prices = times * typical * rng.random(len(snapshot.capacity))
    before = dual_value(*snapshot.frame, prices)
    aim = Aim(5e-3 * worth, 4e-5 * worth * count, 0.1, typical)
    near, held, _, dual = seek(*snapshot.frame, *snapshot.known, NOWHERE, no_box(), ahead, REACH, aim, prices)
    assert is_inside(prices, near.low, near.high)
    assert (held.low == near.low).all()
    assert (held.high == near.high).all()
    assert dual == pytest.approx(dual_value(*snapshot.frame, prices), rel=1e-9, abs=1e-9)
    most_picks = 1 + (snapshot.rows.end - snapshot.rows.begin).sum(axis=1).max(initial=0)
    assert dual <= before + count * aim.width * np.log(most_picks + 1) + 1e-9  # smoothed, it is no higher
    order, cost = snapshot.rows.order, np.empty(snapshot.usage.shape[1])
    settled = order[snapshot.state[order] == SETTLED]
    assert set(near.order) == set(order) - set(settled)
    costs(snapshot.columns, prices, cost)
    assert all(best_of(snapshot.rows, row, cost)[1] == snapshot.settled[row] for row in settled)


@pytest.mark.parametrize("gap", [1e-3, 1e-4])
@pytest.mark.parametrize(("few", "many", "each"), [(0, 300, 200.0), (20, 1000, 500.0), (5, 2000, 400.0)])
def test_where_gpus_were_free_and_many_jobs_come_the_round_is_proven_as_one_from_nothing(
    few: int, many: int, each: float, gap: float
) -> None:
    for seed in range(5):
        instance = jobs_that_scale(np.random.default_rng(seed), many, types=3, per_type=each, spread=0.3)
        ids, program = instance.ids, ChoiceProgram(instance.usage, instance.capacity)
        program.put(ids[:few], instance.value[:few], instance.allowed[:few])
        assert not program.solve(ids[:few], gap).prices.any()
        program.put(ids[few:], instance.value[few:], instance.allowed[few:])
        found, anew = program.solve(ids, gap), instance.program().solve(ids, gap)
        assert found.proven
        assert found.objective <= anew.bound * (1 + 1e-9)
        assert anew.objective <= found.bound * (1 + 1e-9)
        assert found.passes <= 100
