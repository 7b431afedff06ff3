"""Says in sentences how a job stands: its deadline, its slack, its lease, and what its cells cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...core.wording import n_gpus, span
from ..contract.round import JobView, Plan, Round
from .grid import lease_at, leases_for

MOST_NAMED = 4  # jobs of a sentence


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


def waiting_sentences(job: str, round: Round, plan: Plan) -> list[str]:
    """Return a sentence on whom a job waits for, or who waits for it: deadlines come before best effort.

    Args:
        plan: with the figures `has_lease` and `due_s`.
    """
    ids: list[str] = round.columns.ids.tolist()
    leased, due_s = plan.figures["has_lease"], plan.figures["due_s"]
    first = [ids[i] for i in np.flatnonzero(leased).tolist() if ids[i] in plan.placements]
    if job in first:
        waits = [id for id, by_s in zip(ids, due_s.tolist(), strict=True) if math.isinf(by_s) and _waits(id, plan)]
        return [f"For its deadline {_named(waits)} {'waits' if len(waits) == 1 else 'wait'}."] if waits else []
    if not first or not _waits(job, plan):
        return []
    theirs = "its deadline" if len(first) == 1 else "their deadlines"
    return [f"It waits, as {_named(first)} must run now for {theirs}."]


def _waits(job: str, plan: Plan) -> bool:
    return job not in plan.placements


def _named(jobs: Sequence[str]) -> str:
    named = [*jobs[:MOST_NAMED], *([f"{len(jobs) - MOST_NAMED} more"] if len(jobs) > MOST_NAMED else [])]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
