"""The figures of deadlines: what was missed, and how long jobs without one took."""

from __future__ import annotations

import numpy as np

from ...core.rewards import Rewards
from ..engine.outcome import Outcome
from ..traces.tables import Floats

# Figure -> (its name in tables, whether less is better; None: neither).
MEANING_OF_DEADLINES: dict[str, tuple[str, bool | None]] = {
    "deadline_jobs": ("jobs with a deadline", None),
    "miss_rate": ("worth that was missed, of all", True),
    "late_jobs": ("jobs after their first deadline", True),
    "be_jct_h": ("JCT without a deadline, mean (h)", True),
    "deadline_jct_h": ("JCT with one, mean (h)", True),
    "suspensions_deadline": ("stops per job with a deadline", True),
    "suspensions_be": ("stops per job without one", True),
    "measuring_wait_max_s": ("longest wait to be measured (s)", True),
}


def worth_of(rewards: Rewards | None, jct_s: float) -> float:
    """Return what part of all that a job could be worth it earned, from 0 to 1; nan: it has no deadline."""
    return float("nan") if rewards is None else rewards.at(jct_s) / rewards.most


def earned(outcome: Outcome) -> Floats:
    """Return (jobs,) the part of its worth that each earned; nan: it has no deadline."""
    pairs = zip(outcome.workload.rewards, outcome.jct_s.tolist(), strict=True)
    return np.array([worth_of(rewards, jct_s) for rewards, jct_s in pairs], float)


def deadline_figures(outcome: Outcome) -> dict[str, float]:
    """Return the figures of a run with deadlines; none if no job has one.

    `miss_rate` is equation 15 of UniSched with its sign put right: the mean of what was not earned.
    """
    part = earned(outcome)
    with_one = ~np.isnan(part)
    if not with_one.any():
        return {}
    found = {
        "deadline_jobs": float(with_one.sum()),
        "miss_rate": float(1.0 - part[with_one].mean()),
        "late_jobs": float((part[with_one] < 1.0).sum()),
        "be_jct_h": _mean(outcome.jct_s[~with_one]) / 3600,
        "deadline_jct_h": _mean(outcome.jct_s[with_one]) / 3600,
        "suspensions_deadline": _mean(outcome.preemptions[with_one]),
        "suspensions_be": _mean(outcome.preemptions[~with_one]),
    }
    waits_s = outcome.measuring_wait_s[~np.isnan(outcome.measuring_wait_s)]
    return found | ({"measuring_wait_max_s": float(waits_s.max())} if len(waits_s) else {})


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
