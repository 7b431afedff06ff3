"""What jobs of each team are like: bursts, lengths and arrivals (Anticipatory Resource Allocation, section 2)."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from ..engine.outcome import Outcome
from ..traces.tables import Floats

BURST_S = 300.0

# Figure -> its name in tables.
MEANING_WORKLOAD = {
    "gpus": "GPUs",
    "burst_ratio": "burst ratio",
    "length_p99_over_p50": "lengths, p99 / p50",
    "arrivals_spread": "gaps, std / mean",
    "utilisation": "GPUs held",
}


def team_workloads(reference: Outcome) -> dict[str, dict[str, float]]:
    """Return the figures of the jobs of each virtual cluster; {}: there is one at most.

    gpus: of its own nodes, else the most that its jobs held at a time in this run.
    burst_ratio: the most that jobs ask for within 5 minutes, over `gpus`.
    length_p99_over_p50: of lengths, as far as they are known, else of times with GPUs.
    arrivals_spread: standard deviation of gaps between submissions, over their mean; 1: at random.
    utilisation: the part of `gpus` that jobs held in the mean from the first submission to the last end.
    """
    workload = reference.workload
    of = np.array(workload.virtual_clusters, object)
    names = sorted(set(of.tolist()))
    if len(names) < 2:
        return {}
    known = workload.duration_s
    length_s = np.where(np.isnan(known), reference.held_s, known)
    found = {}
    for name in names:
        own = np.flatnonzero(of == name)
        part = None if reference.parts is None else reference.parts.get(name)
        gpus = float(sum(node.gpus for node in part.nodes)) if part is not None else most_held(reference, own)
        submit_s = workload.submit_s[own]
        gaps_s = np.diff(submit_s)
        lasts_s = float(reference.finished_s[own].max() - submit_s.min())
        half = float(np.quantile(length_s[own], 0.5))
        held = float(reference.attained_gpu_s[own].sum())
        found[name] = {
            "gpus": gpus,
            "burst_ratio": largest_burst(submit_s, workload.gpus[own].astype(float)) / max(gpus, 1e-9),
            "length_p99_over_p50": float(np.quantile(length_s[own], 0.99)) / max(half, 1e-9),
            "arrivals_spread": float(gaps_s.std() / gaps_s.mean()) if len(gaps_s) and gaps_s.mean() > 0 else 0.0,
            "utilisation": held / (gpus * lasts_s) if gpus and lasts_s > 0 else 0.0,
        }
    return found


def largest_burst(submit_s: Floats, gpus: Floats, within_s: float = BURST_S) -> float:
    """Return the most GPUs that jobs ask for in any stretch of time of that length, its end left out.

    Args:
        submit_s: ascending. gpus: of the same jobs.
    """
    times, totals = submit_s.tolist(), [0.0, *np.cumsum(gpus).tolist()]
    ends = (bisect_left(times, at + within_s) for at in times)
    return max((totals[end] - totals[first] for first, end in enumerate(ends)), default=0.0)


def most_held(outcome: Outcome, jobs: np.ndarray) -> float:
    """Return the most GPUs that jobs at these positions of a workload held at a time."""
    own, held, now, most = set(jobs.tolist()), dict[int, float](), 0.0, 0.0
    changes = sorted((one for one in outcome.holdings if one.job in own), key=lambda one: (one.time_s, one.gpus))
    for change in changes:  # of one time those that end come first
        now += change.gpus - held.get(change.job, 0.0)
        held[change.job] = change.gpus
        most = max(most, now)
    return most
