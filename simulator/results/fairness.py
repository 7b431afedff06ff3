"""Finish-time fairness: how long a job took, relative to its fair share of every GPU type by itself.

The definition is that of Sia (section 3.5.5, equation 3.6), which extends Themis's ratio to several GPU types.
It is rho = sum over types g of P(g) * rho_g. Here P(g) = N_g / N, and rho_g = JCT / (JCT alone on N_g / N_avg
GPUs of g). N_avg is the mean number of jobs that asked for GPUs while the job was there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..traces.tables import Floats

UNFAIR = 1.0  # a job with a larger rho would have finished sooner by itself


def contention_of(submit_s: Floats, finished_s: Floats) -> Floats:
    """Return (jobs,) the mean number of active jobs over each job's own time, itself among them.

    Active jobs are submitted and not finished. The mean is exact over time; Sia's artifact takes the mean of
    rounds. A job that took no time counts the jobs at its end.
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
    """Return jobs/s on a share of GPUs, in time slices of the sizes that a job can use.

    Half a GPU is one GPU for half of the time. On three GPUs, a job that can use two or four has each size for
    half of the time. More than the largest size gains nothing. More GPUs never slow a job down, as it may leave
    some idle.

    `alone_s`: seconds for the whole job on each of `sizes` GPUs.
    """
    order = np.argsort(sizes)
    rates = np.maximum.accumulate(1.0 / np.asarray(alone_s, float)[order])
    return np.interp(
        share, np.concatenate([[0.0], np.asarray(sizes, float)[order]]), np.concatenate([[0.0], rates])
    )


def ratios(jct_s: Floats, alone_s: Floats, gpus: Floats) -> Floats:
    """Return (jobs,) rho (equation 3.6); nan for a job that can run nowhere, or takes no time.

    `alone_s`: (jobs, types) seconds on the job's fair share of each type. A type with nan, on which the job cannot
        run, does not count.
    `gpus`: (types,) in the cluster.
    """
    known = np.isfinite(alone_s) & (alone_s > 0)
    weights = np.where(known, gpus, 0.0)
    each = np.divide(jct_s[:, None], alone_s, out=np.zeros_like(alone_s), where=known)
    total = weights.sum(axis=1)
    return np.divide((weights * each).sum(axis=1), total, out=np.full(len(jct_s), np.nan), where=total > 0)


def worst(rho: Floats) -> float:
    """Return the largest rho; nan: none is known."""
    known = rho[np.isfinite(rho)]
    return float(known.max()) if len(known) else float("nan")


def unfair_fraction(rho: Floats) -> float:
    """Return the share of jobs with rho above `UNFAIR`; nan: none is known."""
    known = rho[np.isfinite(rho)]
    # A job alone in its cluster has 1, up to rounding.
    return float((known > UNFAIR + 1e-9).mean()) if len(known) else float("nan")
