"""What jobs could have: leases towards each deadline that can be met, in each shape, and what that is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..contract.round import Round
from .columns import Offer, Shaped, shaped
from .grid import best_effort, leases_for, leases_until, towards_deadline
from .kinds import Kinds

MEASURING = 1.0  # what the first lease of a job of which nothing is known is worth (section IV-B.1)
MOST_BEST_EFFORT = 1.0 - 1e-3


@dataclass(frozen=True)
class OfferOptions:
    """How options are made; see `UniSchedOptions`."""

    deadline_lease_s: float
    best_effort_lease_s: float
    published: bool
    urgent_s: float
    returned: bool
    joint: bool
    sr_aware: bool


def deadline_offers(round: Round, kinds: Kinds, at: Sequence[int], options: OfferOptions) -> list[list[Offer]]:
    """Return the options of the jobs at these positions: every deadline that can be met, in every shape."""
    columns, found = round.columns, list[list[Offer]]()
    if columns.rewards is None:
        return [[] for _ in at]
    for i in at:
        own, rewards = list[Offer](), columns.rewards[i]
        ways = _ways(round, i, options)
        cost_s = round.jobs[i].restart_cost_s
        work_s = float(np.nan_to_num(kinds.work_s[i]))
        for by_s, worth in zip(rewards.by_s, rewards.worth, strict=True):
            until_s = float(columns.submitted_s[i]) + by_s - round.now
            for way in ways:
                needed, within = _leases(work_s / way.speed, until_s, cost_s, bool(kinds.running[i]), options)
                if 0 < needed <= within:
                    own.append(Offer(worth, needed, within, way.gpu_type, way.shape))
        found.append(own)
    return found


def _leases(work_s: float, until_s: float, cost_s: float, running: bool, options: OfferOptions) -> tuple[int, int]:
    """Return how many leases a job needs, and before which one it must have had them."""
    lease_s = options.deadline_lease_s
    if options.published:
        within = leases_until(until_s, lease_s)
        return towards_deadline(work_s, lease_s, until_s, cost_s if options.sr_aware else 0.0).leases, within
    needed = leases_for(work_s, lease_s)
    within = leases_until(until_s - options.urgent_s - (0.0 if running else cost_s), lease_s)
    if needed > within and work_s <= until_s:
        within = needed  # it just holds, if it has every lease from now on
    return needed, within


def best_effort_offers(round: Round, kinds: Kinds, at: Sequence[int], options: OfferOptions) -> list[list[Offer]]:
    """Return the options of jobs without a deadline: the lease that begins now, worth one by what is left."""
    measured, found = kinds.is_measured(options.best_effort_lease_s), list[list[Offer]]()
    for i in at:
        if measured[i]:
            worth = MEASURING
        else:
            cost_s = round.jobs[i].restart_cost_s if options.sr_aware else 0.0
            work_s = float(kinds.attained_s[i] if np.isnan(kinds.work_s[i]) else kinds.work_s[i])
            needed = best_effort(max(work_s, 1.0), options.best_effort_lease_s, cost_s)
            worth = min(MOST_BEST_EFFORT, 1.0 / needed.leases)
            if needed.leases == 1:  # of jobs that end in this lease, who needs least
                worth = min(worth, 1.0 / (1.0 + 1e-3 * needed.seconds / options.best_effort_lease_s))
        found.append([Offer(worth * way.speed, 1, 1, way.gpu_type, way.shape) for way in _ways(round, i, options)])
    return found


def _ways(round: Round, i: int, options: OfferOptions) -> list[Shaped]:
    job, gpus = round.jobs[i], int(round.columns.gpus[i])
    joint = options.joint and job.spec.resources.gpus_per_replica == 1  # a replica is not torn
    return shaped(job, gpus, round.cluster, returned=options.returned, joint=joint)
