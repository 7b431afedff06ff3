"""Says in sentences how a job stands: its deadline, its slack, its lease, and what its cells cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...core.wording import n_gpus, span
from ..contract.round import JobView
from .grid import lease_at, leases_for


def deadline_sentences(told: Mapping[str, float], job: JobView, now: float, lease_s: float) -> list[str]:
    """Return sentences on a job's part of a plan.

    Args:
        told: its figures: `due_s`, `slack_s`, `planned_within_s`, `has_lease`, `cells_cost`, `measured`.
        lease_s: of jobs with a deadline.
    """
    if told["measured"]:
        return ["It is measured first, before jobs without a deadline: nobody knows how long it takes."]
    due_s, slack_s, within_s = told["due_s"], told["slack_s"], told["planned_within_s"]
    if math.isinf(due_s):
        if job.rewards is None:
            return ["It has no deadline: it is served after jobs that must run now, by the GPU-time that is left."]
        return ["It is best effort now: it can meet no deadline, or others need the GPUs for theirs."]
    found = [f"Its deadline is in {span(due_s - now)}, and it could wait for {span(max(slack_s, 0.0))}."]
    if job.remaining_s is not None:
        leases = leases_for(job.remaining_s, lease_s)
        each = f"leases of {span(lease_s)}" if leases > 1 else f"lease of {span(lease_s)}"
        found.append(f"It needs {leases} more {each} on {n_gpus(job.spec.asked_gpus)}.")
    if told["has_lease"]:
        ends_s = (lease_at(now, lease_s) + 1) * lease_s
        found.append(f"It has the lease that ends in {span(ends_s - now)}, which no best effort takes from it.")
    if within_s > 0:
        found.append(f"It is planned to have ended within {span(within_s)}.")
    cost = told["cells_cost"]
    most = 0.0 if job.rewards is None else job.rewards.most
    found.append(
        f"A lease of its GPUs costs {cost:.3g} now, of the {most:g} that ending in time is worth."
        if cost > 0
        else "A lease of its GPUs costs nothing now: no other deadline needs them."
    )
    return found
