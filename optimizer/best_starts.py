"""When jobs of teams start best if all is known: with least waiting, and nobody later than allowed.

The integer program of "Anticipatory Resource Allocation for ML Training" (Figure 19). It plans all jobs once, so
it is for small instances, and judges policies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from .highs import Highs, Method
from .linear_program import LinearProgram, LinearSolution

SAME = 1e-6  # times that differ by less are one


@dataclass(frozen=True)
class Startable:
    """A job that takes GPUs for a time, and starts from `submitted` to `latest`. Times are of one unit."""

    team: str
    submitted: float
    takes: float
    gpus: int
    latest: float


@dataclass(frozen=True)
class BestStarts:
    """What was found. starts: of each job. delay: what jobs wait in all. gap: relative, of the objective."""

    starts: tuple[float, ...]
    delay: float
    objective: float
    gap: float
    seconds: float


def candidates(job: Startable, slot: float, parts: int | None) -> np.ndarray:
    """Return the times at which a job may start: every slot; or `parts` for each length of the job.

    With parts a job of 10 hours has as many as one of 10 minutes. The latest time is one of them, so that whatever
    the others do there is a plan.
    """
    step = slot if parts is None else max(slot, slot * round(job.takes / parts / slot))
    found = np.arange(job.submitted, job.latest, step)
    return np.append(found[found < job.latest], job.latest)


def best_starts(
    jobs: Sequence[Startable],
    quotas: Mapping[str, int],
    *,
    fairness: float = 0.0,
    slot: float = 1.0,
    parts: int | None = None,
    time_limit_s: float = math.inf,
) -> BestStarts:
    """Return starts with the least waiting, plus `fairness` times what the team that has most has over its quota.

    Args:
        quotas: GPUs of each team; all jobs together hold no more than all of them.
        fairness: beta; 0: nothing but waiting counts. The multiple counts for each unit of time.
        slot: between two times at which a job may start.
        parts: as of `candidates`. None: every slot.

    Raises:
        ValueError: in one sentence, for a job that can never start, a team without quota, or a slot or parts that
            are not above 0; and if no plan was found in time.
    """
    if not 0 < slot < math.inf or (parts is not None and parts < 1) or not 0 <= fairness < math.inf:
        raise ValueError(
            f"slot, parts, fairness: {slot}, {parts}, {fairness}; above 0, at least 1 and 0 are accepted"
        )
    for at, job in enumerate(jobs):
        if job.team not in quotas:
            raise ValueError(f"job {at}: its team {job.team!r} has no quota; known: {', '.join(quotas)}")
        if not job.submitted <= job.latest < math.inf or not job.takes > 0:
            raise ValueError(f"job {at}: starts from {job.submitted:g} to {job.latest:g}; it can never start")
    if not jobs:
        return BestStarts((), 0.0, 0.0, 0.0, 0.0)
    times = [candidates(job, slot, parts) for job in jobs]
    of = np.repeat(np.arange(len(jobs)), [len(own) for own in times])
    program = _program(jobs, quotas, times, of, fairness)
    found = Highs(Method.EXACT, time_limit_s=time_limit_s, gap=1e-6).solve(
        program, _latest(times, len(program.cost), program, len(of))
    )
    if found.x is None:
        raise ValueError(f"no plan of {len(jobs)} jobs was found in {time_limit_s:g} s")
    return _read(jobs, np.concatenate(times), of, found)


def _latest(times: Sequence[np.ndarray], columns: int, program: LinearProgram, starts: int) -> np.ndarray:
    """Return the plan in which each job starts at its latest time, as a point to begin with."""
    found = np.zeros(columns)
    found[np.cumsum([len(own) for own in times]) - 1] = 1.0
    if columns > starts:  # the multiples of quotas that this plan needs
        uses = -(program.matrix[:, :starts] @ found[:starts])
        per_quota = program.matrix[:, starts:].tocoo()
        np.maximum.at(found, starts + per_quota.col, uses[per_quota.row] / per_quota.data)
    return found


def _read(jobs: Sequence[Startable], at: np.ndarray, of: np.ndarray, found: LinearSolution) -> BestStarts:
    assert found.x is not None
    chosen = np.flatnonzero(found.x[: len(of)] > 0.5)
    starts = at[chosen][np.argsort(of[chosen], kind="stable")]
    delay = float(sum(start - job.submitted for start, job in zip(starts, jobs, strict=True)))
    return BestStarts(tuple(starts.tolist()), delay, found.objective, found.gap, found.seconds)


def _program(
    jobs: Sequence[Startable],
    quotas: Mapping[str, int],
    times: Sequence[np.ndarray],
    of: np.ndarray,
    fairness: float,
) -> LinearProgram:
    """Return the program: a column for each job and start, and one for each stretch of time if fairness counts.

    GPUs run short at starts only, so these are the times of the rows of all GPUs. Between two times at which a job
    may start or end nothing changes, so each such stretch has one multiple of quotas.
    """
    at = np.concatenate(times)
    takes = np.array([job.takes for job in jobs])[of]
    gpus = np.array([job.gpus for job in jobs], float)[of]
    waits = at - np.array([job.submitted for job in jobs])[of]
    peaks = np.unique(at)
    runs = _running(at, takes, peaks)
    parts = [sparse.csr_array((np.ones(len(of)), (of, np.arange(len(of))))), runs * gpus]
    lower = [np.ones(len(jobs)), np.full(len(peaks), -np.inf)]
    upper = [np.ones(len(jobs)), np.full(len(peaks), float(sum(quotas.values())))]
    cost, columns = waits, len(of)
    if fairness:
        edges = np.unique(np.concatenate([at, at + takes]))
        begins, length = edges[:-1], np.diff(edges)
        blocks, team = [], np.array([job.team for job in jobs], object)[of]
        for name, quota in quotas.items():
            own = _running(at, takes, begins) * np.where(team == name, gpus, 0.0)
            blocks.append(sparse.hstack([own, sparse.diags_array(np.full(len(begins), -float(quota)))]))
            lower.append(np.full(len(begins), -np.inf))
            upper.append(np.zeros(len(begins)))
        parts = [sparse.hstack([part, sparse.csr_array((part.shape[0], len(begins)))]) for part in parts] + blocks
        cost, columns = np.concatenate([waits, fairness * length]), len(of) + len(begins)
    whole = np.arange(columns) < len(of)
    most = np.where(whole, 1.0, np.inf)
    matrix = sparse.csr_array(sparse.vstack(parts))
    return LinearProgram(
        cost, matrix, np.concatenate(lower), np.concatenate(upper), np.zeros(columns), most, whole
    )


def _running(at: np.ndarray, takes: np.ndarray, when: np.ndarray) -> sparse.csr_array:
    """Return (times, starts) 1 where a job that starts then runs at the time."""
    first, last = np.searchsorted(when, at - SAME), np.searchsorted(when, at + takes - SAME)
    rows = np.concatenate([np.arange(low, high) for low, high in zip(first, last, strict=True)])
    columns = np.repeat(np.arange(len(at)), last - first)
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(when), len(at)))
