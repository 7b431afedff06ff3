"""Choice programs as GPU jobs make them."""

import numpy as np
from coadapt.optimizer.allocation.snapshot import Snapshot
from scipy import sparse
from scipy.optimize import linprog

from tests.support.choice_instances import Instance


def jobs_that_scale(rng: np.random.Generator, count: int, types: int, per_type: float, spread: float) -> Instance:
    """Draw jobs that scale well or badly on 1 to 8 GPUs. The speeds of types are `spread` apart."""
    gpus, group = np.tile([1, 2, 4, 8], types), np.repeat(np.arange(types), 4)
    speed = rng.lognormal(0, spread, (count, types))[:, group]
    return Instance(
        value=speed * gpus ** rng.uniform(0.4, 0.95, (count, 1)),
        allowed=np.ones((count, len(gpus)), bool),
        usage=np.where(group == np.arange(types)[:, None], gpus, 0).astype(float),
        capacity=np.full(types, per_type),
        group=group,
        size=gpus.astype(float),
        required=np.zeros(count, bool),
        offset=np.zeros(count),
        scale=np.ones(count),
        stay_column=np.full(count, -1),
        stay_gain=np.zeros(count),
    )


def snapshot_of(instance: Instance) -> Snapshot:
    """Return the snapshot that a solver is given."""
    program = instance.program()
    return program._snapshot(program._rows.slots(instance.ids))


def lp_optimum(instance: Instance) -> float:
    """Return the optimum of the LP relaxation of a program without required rows, by scipy's HiGHS.

    Columns that do not fit into the empty program take no part.
    """
    problem = instance.problem()
    row, column = np.nonzero(problem.allowed & (problem.usage <= problem.capacity[:, None]).all(axis=0))
    if not len(row):
        return 0.0
    one_each = sparse.csr_array((np.ones(len(row)), (row, np.arange(len(row)))), (len(problem.value), len(row)))
    limits = sparse.vstack([one_each, sparse.csr_array(problem.usage[:, column])])
    room = np.concatenate([np.ones(len(problem.value)), problem.capacity])
    return -float(linprog(-problem.value[row, column], limits, room).fun)
