"""Rounding a vertex costs little, also where a job that must run is among those it splits."""

from dataclasses import replace

import numpy as np
import pytest
from coadapt.optimizer.allocation.box import everywhere
from coadapt.optimizer.allocation.options import NOTHING, objective
from coadapt.optimizer.allocation.rounding import fill, room_left, round_vertex

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
    program, everything = snapshot.program, snapshot.everything
    picks = snapshot.picks_of(found.choice)
    # The plan without one of the large jobs, whose GPUs others have.
    split = snapshot.order[np.flatnonzero(large)[:1]]
    picks[split] = NOTHING
    others = everything.only(np.setdiff1d(snapshot.order, split))
    fill(others, program.columns, found.prices, picks, room_left(program, picks))
    assert (room_left(program, picks) < LARGE).all()
    # It would fit in a plan in which all jobs that must run have as much as they can: that is a poor one.
    largest = np.flatnonzero(jobs.size == LARGE)[np.arange(ROWS) % 4]
    greedy = snapshot.picks_of(np.where(required, largest, -1))

    round_vertex(program, everything, everywhere(program), found.prices, picks, split, greedy)

    assert (snapshot.columns_of(picks)[required] >= 0).all()
    assert (room_left(program, picks) >= -1e-9).all()
    assert objective(program.rows, picks) >= (1 - 1e-3) * found.objective
