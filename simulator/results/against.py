"""Two runs of the same jobs, job by job: how much sooner jobs end, and who ends later ("Anticipatory Resource
Allocation for ML Training", section 6).
"""

from __future__ import annotations

import math

import numpy as np

from ..engine.outcome import Outcome
from ..traces.tables import Floats

LATE_S = 1.0  # from here on a job counts as slowed; rounds may differ by less

# Figure -> its name in tables.
MEANING_AGAINST = {
    "jobs": "jobs",
    "speedup_geomean": "speed-up, geometric mean",
    "speedup_mean": "speed-up, mean",
    "speedup_of_means": "ratio of mean JCTs",
    "speedup_p5": "speed-up, p5",
    "speedup_p50": "speed-up, p50",
    "speedup_p90": "speed-up, p90",
    "speedup_p95": "speed-up, p95",
    "speedup_p99": "speed-up, p99",
    "slowed_percent": "jobs that end later (%)",
    "slowdown_total_min": "later by, all jobs (min)",
    "slowdown_worst_min": "later by, worst job (min)",
}


def check_same(outcome: Outcome, other: Outcome) -> None:
    """Raise ValueError, in one sentence, unless both are runs of the same jobs."""
    own, theirs = outcome.workload, other.workload
    if own.ids != theirs.ids:
        strange = min(set(own.ids) ^ set(theirs.ids), default="their order")
        raise ValueError(f"--against: the runs are of other jobs ({strange!r} differs); runs of one trace compare")
    at = np.flatnonzero(np.abs(own.submit_s - theirs.submit_s) > LATE_S)
    if len(at):
        raise ValueError(f"--against: job {own.ids[int(at[0])]!r} was submitted at other times in the two runs")


def compared(outcome: Outcome, other: Outcome, after_s: float = 0.0) -> dict[str, float]:
    """Return the figures of a run over another one of the same jobs. Raises ValueError as `check_same` does.

    Args:
        after_s: only jobs count that were submitted so long after the first one.
    """
    check_same(outcome, other)
    submit_s = outcome.workload.submit_s
    counts = submit_s >= submit_s.min() + after_s if len(submit_s) else np.zeros(0, bool)
    return of_jobs(outcome.jct_s[counts], other.jct_s[counts])


def by_team(outcome: Outcome, other: Outcome, after_s: float = 0.0) -> dict[str, dict[str, float]]:
    """Return the figures of the jobs of each virtual cluster; {}: there is one at most."""
    check_same(outcome, other)
    names, submit_s = np.array(outcome.workload.virtual_clusters, object), outcome.workload.submit_s
    found = sorted(set(names.tolist()))
    if len(found) < 2:
        return {}
    counts = submit_s >= submit_s.min() + after_s
    return {
        name: of_jobs(outcome.jct_s[own], other.jct_s[own])
        for name in found
        if (own := counts & (names == name)).any()
    }


def of_jobs(jct_s: Floats, other_s: Floats) -> dict[str, float]:
    """Return the figures of (jobs,) JCTs over those of the same jobs in another run; {}: there are none."""
    if not len(jct_s):
        return {}
    speedup = np.maximum(other_s, 1e-9) / np.maximum(jct_s, 1e-9)
    late_s = np.maximum(jct_s - other_s, 0.0)
    late_s[late_s <= LATE_S] = 0.0
    quantiles = {f"speedup_p{part}": float(np.quantile(speedup, part / 100)) for part in (5, 50, 90, 95, 99)}
    return {
        "jobs": float(len(jct_s)),
        "speedup_geomean": math.exp(float(np.log(speedup).mean())),
        "speedup_mean": float(speedup.mean()),
        "speedup_of_means": float(other_s.mean() / jct_s.mean()),
        **quantiles,
        "slowed_percent": 100 * float((late_s > 0).mean()),
        "slowdown_total_min": float(late_s.sum()) / 60,
        "slowdown_worst_min": float(late_s.max()) / 60,
    }
