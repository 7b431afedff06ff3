"""A policy that knows no pools, asked for each pool by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .contract.round import Plan, Policy, Round


class PerPool:
    """Plans each pool with a policy of its own, which keeps its state from round to round.

    A job of a pool that has no nodes gets nothing. In a cluster without pools the plan is the policy's own.
    """

    def __init__(self, make: Callable[[], Policy]) -> None:
        self._make = make
        self._policies: dict[str, Policy] = {}

    def of(self, pool: str) -> Policy:
        """Return the policy of a pool."""
        if pool not in self._policies:
            self._policies[pool] = self._make()
        return self._policies[pool]

    def plan(self, round: Round) -> Plan:
        parts = rounds_of_pools(round)
        if set(parts) <= {""} and len(round.cluster.pools) <= 1:
            return self.of("").plan(round)
        return together({pool: self.of(pool).plan(part) for pool, part in sorted(parts.items())})


def rounds_of_pools(round: Round) -> dict[str, Round]:
    """Split a round into one per pool that has nodes and jobs."""
    jobs: dict[str, list[int]] = {}
    for at, job in enumerate(round.jobs):
        jobs.setdefault(job.spec.pool or "", []).append(at)
    return {
        pool: Round(round.now, round.length, round.cluster.of_pool(pool), [round.jobs[i] for i in at])
        for pool, at in jobs.items()
        if pool in round.cluster.pools
    }


def together(plans: Mapping[str, Plan]) -> Plan:
    """Join the plans of pools. Prices are named `type@pool`; objective and bound are sums over pools."""
    parts = plans.values()
    objective, bound = sum(plan.objective for plan in parts), sum(plan.bound for plan in parts)
    return Plan(
        placements={job: placement for plan in parts for job, placement in plan.placements.items()},
        objective=objective,
        bound=bound,
        gap=(bound - objective) / abs(objective) if objective else 0.0,
        prices={
            f"{gpu_type}@{pool}" if pool else gpu_type: price
            for pool, plan in plans.items()
            for gpu_type, price in plan.prices.items()
        },
        solver_s=sum(plan.solver_s for plan in parts),
        evictions=sum(plan.evictions for plan in parts),
        notes=[f"pool {pool}: {note}" if pool else note for pool, plan in plans.items() for note in plan.notes],
    )
