"""What a round's moves cost, and what its changes gain. Pure."""

from __future__ import annotations

import math

import numpy as np

from ...core.placement import Placement
from ...policies.contract.round import Plan
from .causes import plan_of
from .hooks import RoundDone


def moves_of(done: RoundDone) -> dict[str, float | None]:
    """Return both for the jobs whose GPUs change.

    `moves_cost_gpu_s`: GPU-seconds for which moved jobs pause, by their measured restarts. `gained`: by how much
    their new GPUs are worth more than their old ones, restarts included, in units of the objective; None where the
    policy weighs no options.
    """
    columns, placements = done.round.columns, done.plan.placements
    cost_gpu_s, gained, weighed = 0.0, 0.0, False
    for at, (job_id, before) in enumerate(zip(columns.ids.tolist(), columns.placements.tolist(), strict=True)):
        after = placements.get(job_id)
        if after == before or "/" in job_id:
            continue
        if before is not None and after is not None:
            cost_gpu_s += done.round.jobs[at].restart_cost_s * after.gpus
        then, now = _worth(done.plan, job_id, before), _worth(done.plan, job_id, after)
        if then is not None and now is not None:
            gained, weighed = gained + now - then, True
    return {"moves_cost_gpu_s": round(cost_gpu_s, 1), "gained": float(f"{gained:.3g}") if weighed else None}


def _worth(plan: Plan, job_id: str, placement: Placement | None) -> float | None:
    """Return what GPUs add to the objective; nothing adds 0. None where that is not known."""
    plan = plan_of(job_id, plan)
    gains, configurations = plan.gains.get(job_id), plan.configurations
    if gains is None or configurations is None:
        return None
    if placement is None:
        return 0.0
    at = configurations.index(placement)
    return float(gains[at]) if at >= 0 and math.isfinite(float(np.asarray(gains)[at])) else None
