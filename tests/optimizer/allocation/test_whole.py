"""A vertex is made whole at little cost, also where a job that must run is among those it splits."""

from dataclasses import replace

import numpy as np
import pytest
from coadapt.optimizer.allocation.near import everywhere
from coadapt.optimizer.allocation.plan import fill, objective
from coadapt.optimizer.allocation.rows import NOTHING, columns_of
from coadapt.optimizer.allocation.whole import make_whole

from tests.support.choice_jobs import jobs_that_scale, snapshot_of

ROWS, LARGE = 1000, 8


@pytest.mark.parametrize("seed", range(5))
def test_way_is_made_for_a_job_that_must_run_at_little_cost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = jobs_that_scale(rng, ROWS, types=4, per_type=400.0, spread=0.3)
    required = rng.random(ROWS) < 0.1
    large = required & (rng.random(ROWS) < 0.3)
    allowed = jobs.allowed & (~large[:, None] | (jobs.size == LARGE))
    instance = replace(jobs, required=required, allowed=allowed)
    found = instance.program().solve(instance.ids, gap=1e-4)
    snapshot = snapshot_of(instance)
    _, pick = snapshot.dense(snapshot.rows.order)
    picks = snapshot.no_picks()
    served = np.flatnonzero(found.choice >= 0)
    picks[snapshot.rows.order[served]] = pick[served, found.choice[served]]
    # The plan without one of the large jobs, whose GPUs others have.
    torn = snapshot.rows.order[np.flatnonzero(large)[:1]]
    picks[torn] = NOTHING
    others = snapshot.everything._replace(order=np.setdiff1d(snapshot.rows.order, torn))
    fill(others, snapshot.columns, found.prices, picks, snapshot.room(picks), 1e-7, 20)
    assert (snapshot.room(picks) < LARGE).all()
    # It would fit in a plan in which all jobs that must run have as much as they can: that is a poor one.
    greedy = snapshot.no_picks()
    largest = np.flatnonzero(jobs.size == LARGE)[np.arange(ROWS) % 4]
    greedy[snapshot.rows.order[required]] = pick[required, largest[required]]

    make_whole(snapshot, everywhere(snapshot.rows, snapshot.capacity), found.prices, picks, torn, greedy)

    assert (columns_of(snapshot.everything, picks)[required] >= 0).all()
    assert (snapshot.room(picks) >= -1e-9).all()
    assert objective(snapshot.rows, picks) >= (1 - 1e-3) * found.objective
