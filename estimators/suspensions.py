"""How often a job is to be suspended and resumed, and what that costs (UniSched, section 4.1). Pure.

A job with a deadline takes some of the leases until then, all choices alike. It is suspended wherever it does not
take the next one. Equation 3 sums that over all numbers of suspensions; the sum has a closed form.
"""

from __future__ import annotations

import math

# Of the leases of a job without a deadline: the published share of those after which it loses its GPUs.
BEST_EFFORT_SHARE = 0.5


def leases(work_s: float, lease_s: float) -> int:
    """Return the leases that so much work takes, at least one.

    Raises:
        ValueError: for work or a lease that is not above 0 and finite.
    """
    for name, value in (("work_s", work_s), ("lease_s", lease_s)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}: {value} is not accepted, must be finite and above 0")
    return max(math.ceil(work_s / lease_s - 1e-9), 1)


def suspensions(needed: int, until: int | None) -> float:
    """Return how often a job is suspended on average before it ends.

    Args:
        needed: leases that it still needs, 1 or more.
        until: leases until its deadline; None: it has none. Where they are too few, every one is taken.

    Raises:
        ValueError: for fewer leases than that.
    """
    if needed < 1:
        raise ValueError(f"needed: {needed} leases are not accepted, must be 1 or more")
    if until is None:
        return BEST_EFFORT_SHARE * needed
    if until < 0:
        raise ValueError(f"until: {until} leases are not accepted, must be 0 or more")
    return (needed - 1) * (until - needed) / until if needed < until else 0.0


def suspending_s(work_s: float, cost_s: float, lease_s: float, until_s: float | None) -> float:
    """Return the seconds that suspending and resuming will take.

    Args:
        work_s: seconds that the job still trains.
        cost_s: of one suspension with the resumption after it, as measured of the job.
        until_s: seconds until its deadline; None: it has none.

    Raises:
        ValueError: as `leases`, and for a cost or time that is below 0 or not finite.
    """
    for name, value in (("cost_s", cost_s), ("until_s", until_s)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name}: {value} is not accepted, must be finite and 0 or more")
    until = None if until_s is None else math.floor(until_s / lease_s + 1e-9)
    return cost_s * suspensions(leases(work_s, lease_s), until)
