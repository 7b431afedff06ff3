"""Leases on a fixed grid of time: how many a job needs and has, and what being suspended costs. Pure.

Numbers of equations are those of UniSched (IEEE TC 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

EXACT = 1e-9  # a part of a lease that counts as none


def leases_for(seconds: float, lease_s: float) -> int:
    """Return how many leases a job needs for some seconds, at least one."""
    return max(math.ceil(seconds / lease_s - EXACT), 1)


def leases_until(seconds: float, lease_s: float) -> int:
    """Return how many whole leases there are in some seconds from now, at least 0."""
    return max(math.floor(seconds / lease_s + EXACT), 0)


def lease_at(now_s: float, lease_s: float) -> int:
    """Return the number of the lease that a moment is in; leases begin at multiples of their length."""
    return math.floor(now_s / lease_s + EXACT)


def cycles(needed: int, available: int) -> float:
    """Return how often a job is suspended that takes `needed` of `available` leases, any as likely (equation 3).

    It is the mean of C(n-1, k) C(m-n+1, k+1) / C(m, n) over k, in closed form (n-1)(m-n)/m.
    """
    return (needed - 1) * (available - needed) / available if needed <= available else 0.0


@dataclass(frozen=True)
class Needed:
    """What a job needs with what its suspensions cost: seconds, and leases."""

    seconds: float
    leases: int


def towards_deadline(work_s: float, lease_s: float, until_s: float, restart_s: float) -> Needed:
    """Return what a job needs that has work for so long and a deadline in `until_s` seconds."""
    first = leases_for(work_s, lease_s)
    seconds = work_s + restart_s * cycles(first, leases_until(until_s, lease_s))
    return Needed(seconds, leases_for(seconds, lease_s))


def best_effort(work_s: float, lease_s: float, restart_s: float) -> Needed:
    """Return what a job without a deadline needs: it is suspended after every second lease."""
    seconds = work_s + restart_s * leases_for(work_s, lease_s) / 2
    return Needed(seconds, leases_for(seconds, lease_s))
