"""Plans each pool by itself with a policy that knows no pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..core.decisions import Decision, Waiting, WaitReason
from ..core.teams import kind_of
from .choosing.decided import decisions_of
from .choosing.lazy import LazyMapping
from .contract.explanation import Explanation, job_of, plain_explanation
from .contract.plan_check import check_plan
from .contract.policy import Policy
from .contract.round import Plan, Round
from .contract.sharing import Standing
from .contract.traits import PolicyTraits


class PerPool(Policy):
    """Plans each pool with a policy of its own, which keeps its state from round to round.

    A policy that crosses pools plans all of them at once. A job of a pool that has no nodes gets nothing. In a
    cluster without pools the plan is the policy's own.
    Where the policy of one pool raises, its jobs keep what they have, and the other pools are planned.
    """

    def __init__(self, make: Callable[[], Policy]) -> None:
        self._make = make
        self._policies: dict[str, Policy] = {}
        self.traits: PolicyTraits = self.of("").traits

    def of(self, pool: str) -> Policy:
        """Return the policy of a pool."""
        if pool not in self._policies:
            self._policies[pool] = self._make()
        return self._policies[pool]

    def plan(self, round: Round) -> Plan:
        """Plan every pool that has nodes and jobs."""
        if self.traits.crosses_pools:
            return self.of("").plan(round)
        if _knows_no_pools(round):
            return self.of("").plan(_outside_pools(round))
        parts = rounds_of_pools(round)
        plans: dict[str, Plan] = {}
        failures: dict[str, Exception] = {}
        for pool, part in sorted(parts.items()):
            try:
                plans[pool] = self.of(pool).plan(part)
                check_plan(plans[pool], part)
            except Exception as error:
                plans[pool], failures[pool] = _as_it_is(part), error
        return replace(together(plans, round), failures=failures)

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by the rules of its pool's policy."""
        if self.traits.crosses_pools:
            return self.of("").explain(job, round, plan)
        if _knows_no_pools(round):
            return self.of("").explain(job, _outside_pools(round), plan)
        pool = round.jobs[job_of(job, round)].spec.pool or ""
        if pool not in plan.pools or pool in plan.failures:
            of_pool = replace(round, cluster=round.cluster.of_pool(pool))  # what others leave free is not for it
            return plain_explanation(job, of_pool, replace(plan, notes=()))
        return self.of(pool).explain(job, rounds_of_pools(round)[pool], plan.pools[pool])


def _as_it_is(round: Round) -> Plan:
    """Return a plan in which every job keeps what it has."""
    waits = Waiting(WaitReason.NOT_SAID, "The policy did not plan its pool in this round.")
    placements = {job.id: job.placement for job in round.jobs if job.placement is not None}
    return Plan(placements, decisions=decisions_of(round, placements, lambda i: waits))


def _knows_no_pools(round: Round) -> bool:
    """Return whether neither a node nor a job of a round belongs to a pool."""
    return set(round.cluster.pools) <= {""} and all(job.spec.pool is None for job in round.jobs)


def _outside_pools(round: Round) -> Round:
    """Return a round with what teams were promised outside pools."""
    return round if round.sharing is None else replace(round, sharing=round.sharing.of_pool(""))


def rounds_of_pools(round: Round) -> dict[str, Round]:
    """Split a round into one per pool that has nodes and jobs."""
    jobs: dict[str, list[int]] = {}
    for at, job in enumerate(round.jobs):
        jobs.setdefault(job.spec.pool or "", []).append(at)
    return {
        pool: Round(
            round.now,
            round.length,
            round.cluster.of_pool(pool),
            [round.jobs[i] for i in at],
            tuple(node for node in round.asleep if node.pool == pool),
            None if round.sharing is None else round.sharing.of_pool(pool),
            foresight=round.foresight,
        )
        for pool, at in jobs.items()
        if pool in round.cluster.pools
    }


def together(plans: Mapping[str, Plan], round: Round) -> Plan:
    """Join the plans of a round's pools. Prices are named `type@pool`; objective and bound are sums over pools."""

    def decision(i: int) -> Decision:
        job = round.jobs[i]
        part = plans.get(job.spec.pool or "")
        if part is not None:
            return part.decision(job.id)
        where = round.cluster.of_pool(job.spec.pool or "").called
        return Waiting(WaitReason.POOL_EMPTY, f"It waits for nodes: {where} has none now.")

    parts = plans.values()
    objective, bound = sum(plan.objective for plan in parts), sum(plan.bound for plan in parts)
    return Plan(
        placements={job: placement for plan in parts for job, placement in plan.placements.items()},
        objective=objective,
        bound=bound,
        gap=(bound - objective) / abs(objective) if objective else 0.0,
        prices=_by_pool({pool: plan.prices for pool, plan in plans.items()}),
        cpu_prices=_by_pool({pool: plan.cpu_prices for pool, plan in plans.items()}),
        memory_prices=_by_pool({pool: plan.memory_prices for pool, plan in plans.items()}),
        solver_s=sum(plan.solver_s for plan in parts),
        evictions=sum(plan.evictions for plan in parts),
        notes=[
            replace(note, text=f"pool {pool}: {note.text}") if pool else note
            for pool, plan in plans.items()
            for note in plan.notes
        ],
        decisions=LazyMapping(round.columns.ids.tolist(), decision),
        teams=_teams_together(plans),
        deadlines={job: planned for plan in parts for job, planned in plan.deadlines.items()},
        borrowed=frozenset().union(*(plan.borrowed for plan in parts)),
        again_s=min((plan.again_s for plan in parts if plan.again_s is not None), default=None),
        pools=dict(plans),
    )


def _by_pool(prices: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {kind_of(t, pool): price for pool, by_type in prices.items() for t, price in by_type.items()}


def _teams_together(plans: Mapping[str, Plan]) -> dict[str, dict[str, Standing]]:
    """Return how teams stand in all pools; types are named as prices are."""
    found: dict[str, dict[str, Standing]] = {}
    for pool, plan in plans.items():
        for team, by_type in plan.teams.items():
            named = {kind_of(t, pool): standing for t, standing in by_type.items()}
            found.setdefault(team, {}).update(named)
    return found
