"""Which nodes to ask for: the best value for a dollar, within the limits of each type and the budget. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...core.scaling_settings import ScalingSettings
from ...policies.contract.round import JobView, Plan, Round
from .state import ScalingState
from .worth import (
    Asking,
    Worth,
    by_price,
    by_waiting,
    keeps_of,
    lost_at_notice_s,
    new_nodes,
    stranded,
    waiting_jobs,
    without_room,
)

CENT = 1e-9


@dataclass(frozen=True)
class Room:
    """What may still be bought: nodes of each type, and dollars an hour."""

    settings: ScalingSettings
    counts: Mapping[str, int]  # nodes there or asked for
    left_out: Collection[str] = ()

    @property
    def cost_per_h(self) -> float:
        """Return what the nodes cost an hour."""
        return self.settings.cost_per_h(self.counts)

    def most(self, name: str) -> int:
        """Return how many nodes of a type may be bought."""
        if name in self.left_out:
            return 0
        type = self.settings.types[name]
        dollars = self.settings.budget_per_h - self.cost_per_h + CENT
        return max(min(type.max - self.counts.get(name, 0), int(dollars / type.price_per_h)), 0)

    def without(self, name: str, nodes: int) -> Room:
        """Return what is left once nodes of a type are bought."""
        return Room(self.settings, Counter(self.counts) + Counter({name: nodes}), self.left_out)


@dataclass(frozen=True)
class Chosen:
    """What to ask for.

    buy: nodes of each type, best first.
    offers: what one more node of each type that may be bought was worth, best first, for people.
    held_back: why a need is not met: the budget, limits, or what is left out; "": it is, or there is none.
    """

    buy: tuple[Worth, ...] = ()
    offers: tuple[Worth, ...] = ()
    held_back: str = ""


@dataclass
class Needs:
    """What has lasted: in how many rounds in a row each job found no room, and the prices of the last rounds."""

    settings: ScalingSettings
    waited: dict[str, int] = field(default_factory=dict)
    prices: list[Mapping[str, float]] = field(default_factory=list)

    def note(self, round: Round, plan: Plan, coming: Mapping[str, int]) -> list[JobView]:
        """Count a round. Return the jobs whose need has lasted.

        Args:
            coming: nodes of each type that are asked for.
        """
        nodes = [
            node
            for name, count in coming.items()
            if name in self.settings.types
            for node in new_nodes(name, self.settings.types[name], count, "coming")
        ]
        jobs = waiting_jobs(round, plan)
        # A policy that prices GPUs tells by its prices what more of them are worth. A job for which no node will
        # do has no part in these.
        lacking = stranded(jobs, round, nodes) if plan.prices else without_room(jobs, round, plan, nodes)
        self.waited = {job.id: self.waited.get(job.id, 0) + 1 for job in lacking}
        if coming:  # what comes changes prices
            self.prices.clear()
        elif plan.prices:
            self.prices = [*self.prices[1 - self.settings.rounds :], dict(plan.prices)][-self.settings.rounds :]
        return [job for job in lacking if self.waited[job.id] >= self.settings.rounds]

    @property
    def mean_prices(self) -> Mapping[str, float]:
        """Return the mean price of each GPU type over the last rounds; empty while they are too few."""
        if len(self.prices) < self.settings.rounds:
            return {}
        names = set.intersection(*(set(one) for one in self.prices))
        return {name: sum(one[name] for one in self.prices) / len(self.prices) for name in sorted(names)}


def choose(
    state: ScalingState, settings: ScalingSettings, needs: Needs, round: Round, plan: Plan, lacking: list[JobView]
) -> Chosen:
    """Return which nodes to ask for after a round.

    Args:
        lacking: jobs whose need has lasted.
    """
    room = Room(settings, state.all, state.left_out)
    keeps = {name: keeps_of(state.notices_per_h(name), lost_at_notice_s(round)) for name in settings.types}
    buy, offers = list[Worth](), list[Worth]()
    asking = Asking(lacking, round, plan, settings.types)
    while asking.jobs:
        found = _for_waiting(asking, keeps, room.most)
        offers = offers or found
        if not found:
            break
        best = found[0]
        buy.append(best)
        room = room.without(best.type, best.nodes)
        asking = replace(asking, jobs=[job for job in asking.jobs if job.id not in best.jobs])
    if buy or state.requests or not (prices := needs.mean_prices):
        would = _for_waiting(asking, keeps, lambda name: settings.types[name].max)
        return Chosen(tuple(buy), tuple(offers), _limits(room, [one.type for one in would]))
    offers = _best_first(
        by_price(name, type, keeps[name], prices, settings.rounds) for name, type in settings.types.items()
    )
    worth_it = [one for one in offers if one.per_dollar > max(settings.least_value_per_dollar, CENT)]
    for one in worth_it:
        if room.most(one.type):
            return Chosen((one,), tuple(offers))
    return Chosen((), tuple(offers), _limits(room, [one.type for one in worth_it]) if worth_it else "")


def _for_waiting(asking: Asking, keeps: Mapping[str, float], most: Callable[[str], int]) -> list[Worth]:
    """Return what nodes of each type are worth to jobs that wait. `most`: returns how many may be bought."""
    if not asking.jobs:
        return []
    found = (by_waiting(name, most(name), keeps[name], asking) for name in asking.types)
    return _best_first(one for one in found if one is not None)


def _best_first(offers: Iterable[Worth]) -> list[Worth]:
    return sorted(offers, key=lambda one: (-one.per_dollar, one.type))


def _limits(room: Room, types: Sequence[str]) -> str:
    """Return what keeps nodes of these types from being bought, for people."""
    parts = []
    for name in types:
        type = room.settings.types[name]
        if name in room.left_out:
            parts.append(f"{name} is left out for a while")
        elif room.counts.get(name, 0) >= type.max:
            parts.append(f"all {type.max} of {name} are there or asked for")
        else:
            left = room.settings.budget_per_h - room.cost_per_h
            parts.append(f"{name} costs {type.price_per_h:g} an hour, and {left:.2f} of the budget are left")
    return "; ".join(parts)
