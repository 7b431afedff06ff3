"""Finish-time fairness: how long a job took against its fair share of every GPU type by itself.

The definition is that of Sia (section 3.5.5, equation 3.6), which extends Themis's ratio to several GPU types:
rho = sum over types g of P(g) * rho_g, with P(g) = N_g / N and rho_g = JCT / (JCT alone on N_g / N_avg GPUs of g),
where N_avg is the mean number of jobs that asked for GPUs while the job was there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..traces.tables import Floats

UNFAIR = 1.0  # a larger rho: the job would have finished sooner by itself


def contention_of(submit_s: Floats, finished_s: Floats) -> Floats:
    """Mean number of jobs that are submitted and not finished, over each job's own time, itself among them.

    Exact over time, where the artifact of Sia takes the mean of rounds. A job that took no time counts those
    there at its end.
    """
    times, at = np.unique(np.concatenate([submit_s, finished_s]), return_inverse=True)
    change = np.zeros(len(times))
    np.add.at(change, at, np.repeat([1.0, -1.0], len(submit_s)))
    active = np.cumsum(change)  # from each time to the next
    area = np.concatenate([[0.0], np.cumsum(active[:-1] * np.diff(times))])
    first, last = at[: len(submit_s)], at[len(submit_s) :]
    took = finished_s - submit_s
    return np.divide(area[last] - area[first], took, out=active[last] + 1.0, where=took > 0)


def rate_on_share(share: Floats, sizes: Sequence[float], alone_s: Sequence[float]) -> Floats:
    """Jobs per second on a share of GPUs, in time slices of the sizes that a job can use.

    `alone_s`: seconds for the whole job on each of `sizes` GPUs. Half a GPU is one GPU half of the time; three
    GPUs where a job can use two or four are each of them half of the time. Beyond the largest size nothing is
    gained, and more GPUs never slow a job down: it may leave some idle.
    """
    order = np.argsort(sizes)
    rates = np.maximum.accumulate(1.0 / np.asarray(alone_s, float)[order])
    return np.interp(
        share, np.concatenate([[0.0], np.asarray(sizes, float)[order]]), np.concatenate([[0.0], rates])
    )


def ratios(jct_s: Floats, alone_s: Floats, gpus: Floats) -> Floats:
    """rho of each job (equation 3.6).

    `alone_s`: (jobs, types) seconds on the job's fair share of each type; nan where a job cannot run on a type,
    which then counts for nothing. `gpus`: of each type in the cluster. nan: a job that can run nowhere, or takes
    no time.
    """
    known = np.isfinite(alone_s) & (alone_s > 0)
    weights = np.where(known, gpus, 0.0)
    each = np.divide(jct_s[:, None], alone_s, out=np.zeros_like(alone_s), where=known)
    total = weights.sum(axis=1)
    return np.divide((weights * each).sum(axis=1), total, out=np.full(len(jct_s), np.nan), where=total > 0)


def worst(rho: Floats) -> float:
    """The largest rho; nan where none is known."""
    known = rho[np.isfinite(rho)]
    return float(known.max()) if len(known) else float("nan")


def unfair_fraction(rho: Floats) -> float:
    """Share of jobs with rho above `UNFAIR`; nan where none is known."""
    known = rho[np.isfinite(rho)]
    # A job alone in its cluster has exactly 1, up to rounding.
    return float((known > UNFAIR + 1e-9).mean()) if len(known) else float("nan")
