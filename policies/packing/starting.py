"""Starts the waiting jobs of one pool in one round, beside partners or alone. It remembers what was in vain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ...core.job import JobSpec
from ...core.placement import Placement
from ...core.usage import Usage
from ..placing.demand import Demand
from ..placing.ledger import OverCommitted
from .binder import Facts, Partner, Rules, chosen, partners
from .tenants import Tenants


class Sharing(StrEnum):
    """When a partner is looked for: before GPUs of one's own, as Algorithm 4 reads, or where there are none."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class Sizes:
    """Which jobs share GPUs. `most_gpus`: of a job. `distributed`: whether jobs on several nodes do."""

    most_gpus: int
    distributed: bool

    def allow(self, at: Placement) -> bool:
        """Return whether GPUs of a job may be shared."""
        return at.gpus <= self.most_gpus and (at.nodes == 1 or self.distributed)


@dataclass
class Starting:
    """One pool in one round.

    facts: what the binder goes by of a job, by id. speeds: how fast the pair of two jobs is, for `fastest`.
    least_speed: slower pairs are not made.
    eager_cost_s: a pair is made even where GPUs are idle if both together lose at most so long; None: none is.
    """

    tenants: Tenants
    rules: Rules
    sizes: Sizes
    sharing: Sharing
    partner: Partner
    facts: Callable[[str], Facts]
    speeds: Callable[[Facts, Facts], float] | None = None
    least_speed: float = 0.0
    eager_cost_s: float | None = None
    _slow: set[tuple[int, Usage | None]] = field(default_factory=set)  # by use: pairs would be too slow
    _open: dict[int, dict[str, tuple[Facts, str]]] | None = None  # by GPUs, by job: who is alone there
    _full: set[tuple[int, tuple[str, ...], Demand]] = field(default_factory=set)  # no GPUs of one's own were found
    _in_vain: dict[int, list[Facts]] = field(default_factory=dict)  # by GPUs: who found no partner
    _hopeless: set[int] = field(default_factory=set)

    def is_hopeless(self, gpus: int) -> bool:
        """Return whether no job of so many GPUs can start any more in this round, whatever it is like."""
        return gpus in self._hopeless

    def start(self, id: str, spec: JobSpec, gpus: int, types: tuple[str, ...]) -> Placement | None:
        """Start a job on one of these GPU types, beside a partner or alone. Return its GPUs; None: it waits."""
        demand = Demand.of(spec)
        most_s = math.inf if self.sharing is Sharing.FIRST else self.eager_cost_s
        found = None if most_s is None else self._beside(id, gpus, types, demand, most_s)
        found = found or self._alone(id, gpus, types, demand)
        if found is None and self.sharing is Sharing.LAST:
            found = self._beside(id, gpus, types, demand, math.inf)
        anywhere = demand.is_wish and set(types) >= set(self.tenants.cluster.gpu_types)
        if found is None and anywhere and not self._may_find_partner(gpus):
            self._hopeless.add(gpus)
        return found

    def _alone(self, id: str, gpus: int, types: tuple[str, ...], demand: Demand) -> Placement | None:
        if (gpus, types, demand) in self._full:
            return None
        if (found := self.tenants.find(gpus, types, demand)) is None:
            self._full.add((gpus, types, demand))
            return None
        self.tenants.take(id, found)
        if self._open is not None:
            self._opens(id, found)
        return found

    def _beside(
        self, id: str, gpus: int, types: tuple[str, ...], demand: Demand, most_s: float
    ) -> Placement | None:
        if not self._may_find_partner(gpus):
            return None
        new = self.facts(id)
        slow = gpus, new.usage
        if new.score is None or slow in self._slow:
            return None
        if any(_is_easier(old, new) for old in self._in_vain.get(gpus, ())):
            return None
        known = self._alone_now()[gpus]
        found = partners(new, [one for one in known.values() if one[1] in types], self.rules)
        if not found:
            self._in_vain.setdefault(gpus, []).append(new)
        speed = {} if self.speeds is None else {old.id: self.speeds(new, old) for old in found}
        if self.least_speed > 0:
            found = [old for old in found if speed.get(old.id, 0.0) >= self.least_speed]
            if not found and self.rules.least_left == 0:
                self._slow.add(slow)
        if most_s < math.inf:
            found = [old for old in found if _cost_s(new, old, speed.get(old.id, 0.0)) <= most_s]
        while found:
            old = chosen(found, self.partner, speed)
            try:
                placement = self.tenants.join(id, old.id, demand)
            except OverCommitted:  # CPUs or memory of the node
                found.remove(old)
                continue
            del known[old.id]
            return placement
        return None

    def _may_find_partner(self, gpus: int) -> bool:
        if self.rules.capacity < 0 or gpus > self.sizes.most_gpus:
            return False
        return bool(self._alone_now().get(gpus))

    def _alone_now(self) -> dict[int, dict[str, tuple[Facts, str]]]:
        if self._open is None:
            self._open = {}
            for id, at in self.tenants.held.items():
                if self.tenants.is_alone(id):
                    self._opens(id, at)
        return self._open

    def _opens(self, id: str, at: Placement) -> None:
        """Note that a job is alone on its GPUs, so that another may come."""
        if self._open is None or not self.sizes.allow(at):
            return
        if (facts := self.facts(id)).score is not None:
            self._open.setdefault(at.gpus, {})[id] = facts, at.gpu_type
            self._in_vain.pop(at.gpus, None)
            self._slow = {one for one in self._slow if one[0] != at.gpus}
            self._hopeless.discard(at.gpus)


def _cost_s(new: Facts, old: Facts, speed: float) -> float:
    """Return by how much two jobs together end later for sharing GPUs, until the first of them ends, s."""
    if speed <= 0:
        return math.inf
    return 2 * (1.0 - min(speed, 1.0)) * min(new.left_s, old.left_s) / speed


def _is_easier(old: Facts, new: Facts) -> bool:
    """Return whether a job that found no partner would have found one more easily than another."""
    lighter = (old.score or 0) <= (new.score or 0) and (old.memory_gib or 0.0) <= (new.memory_gib or 0.0)
    return lighter and old.left_s <= new.left_s and old.total_s <= new.total_s


def room_by_stopping(
    tenants: Tenants, job: str, gpus: int, types: Sequence[str], demand: Demand, victims: Sequence[Sequence[str]]
) -> list[str] | None:
    """Start a job on GPUs of its own for which others are stopped. Return who was; None: there is no room even so.

    Args:
        victims: jobs that may be stopped, those that share GPUs together, in the order in which they would be.
    """
    before, stopped = dict(tenants.held), list[str]()
    found: Placement | None = None
    for together in victims:
        for one in together:
            tenants.give_back(one)
            stopped.append(one)
        if (found := tenants.find(gpus, types, demand)) is not None:
            break
    taken = frozenset() if found is None else found.devices
    gone = [one for one in stopped if before[one].devices & taken]
    for one in stopped:
        if one not in gone:
            tenants.take(one, before[one])
    if found is None:
        return None
    tenants.take(job, found)
    return gone
