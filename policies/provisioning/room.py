"""GPUs, CPUs and memory that are free on the nodes of one GPU type, and who holds the rest of them.

The rules of placement live here (Synergy, OSDI'22, sections 4.2 and 6). A job is on one node if it fits one, else
on as few as can be. On each of its nodes it has CPUs and memory in proportion to its GPUs there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.resources import Totals
from .needs import Need, Places

SLACK = 1e-7  # amounts are sums of fractions; well below `core.resources.TOLERANCE`


@dataclass(slots=True)
class Held:
    """What a job has: its nodes, and CPUs, memory and GPUs in all. speed: over that at its share."""

    need: Need
    places: Places
    cpus: float
    memory_gib: float
    speed: float


class NodeRoom:
    """What is free on nodes; amounts may fall below 0 while a mechanism still changes what jobs have."""

    def __init__(self, totals: Totals) -> None:
        self.totals = totals
        self.gpus: NDArray[np.int64] = totals.gpus.copy()
        self.cpus, self.memory_gib = totals.cpus.copy(), totals.memory_gib.copy()
        self.claimed = np.zeros_like(self.gpus)  # GPUs of jobs that run and are not placed yet
        self.held: dict[str, Held] = {}
        self.tenants: list[dict[str, int]] = [{} for _ in range(len(self.gpus))]  # node -> job -> GPUs there

    # --- where there is room --------------------------------------------------------------------------------

    def fits(self, need: Need, places: Places, cpus: float, memory_gib: float) -> bool:
        """Return whether nodes have free what a job would hold there."""
        c, m = cpus / need.gpus, memory_gib / need.gpus
        for node, gpus in places:
            if not need.pinned and self.gpus[node] < gpus:
                return False
            if self.cpus[node] < gpus * c - SLACK or self.memory_gib[node] < gpus * m - SLACK:
                return False
        return True

    def find(self, need: Need, cpus: float, memory_gib: float, *, first: bool = False) -> Places | None:
        """Return where a job can have this: where it is, else on the fullest node, else on the fewest nodes.

        Args:
            first: take the first node in place of the fullest.
        """
        if need.before and self.fits(need, need.before, cpus, memory_gib):
            return need.before
        if need.pinned:
            return None
        at = self._fitting(need.gpus, cpus, memory_gib)
        if len(at):
            unclaimed = at[self.gpus[at] - self.claimed[at] >= need.gpus]
            at = unclaimed if len(unclaimed) else at
            return ((int(at[0]) if first else self.fullest(at), need.gpus),)
        if need.gpus <= need.unit:
            return None
        return self.spread(need, self.usable(need, cpus, memory_gib))

    def find_gpus(self, need: Need) -> Places | None:
        """Return where a job finds its GPUs, whatever CPUs and memory are free there."""
        return self.find(need, -np.inf, -np.inf)

    def _fitting(self, gpus: int, cpus: float, memory_gib: float) -> NDArray[np.int64]:
        has = (self.cpus >= cpus - SLACK) & (self.memory_gib >= memory_gib - SLACK)
        return np.flatnonzero((self.gpus >= gpus) & has)

    def fullest(self, at: NDArray[np.int64]) -> int:
        """Return the one of some nodes with the fewest free GPUs, then the fewest CPUs, then the least memory."""
        for free in (self.gpus, self.cpus, self.memory_gib):
            if len(at) == 1:
                break
            of = free[at]
            at = at[of == of.min()]
        return int(at[0])

    def usable(self, need: Need, cpus: float, memory_gib: float) -> NDArray[np.int64]:
        """Return (nodes,) the GPUs that a job could have on each node with its amounts, in whole replicas."""
        most = self.gpus.astype(float)
        for free, each in ((self.cpus, cpus / need.gpus), (self.memory_gib, memory_gib / need.gpus)):
            if each > 0:
                most = np.minimum(most, np.floor((free + SLACK) / each))
        whole: NDArray[np.int64] = np.maximum(most, 0).astype(np.int64) // need.unit * need.unit
        return whole

    def spread(self, need: Need, usable: NDArray[np.int64]) -> Places | None:
        """Return the fewest nodes on which a job has its GPUs; None: all together are not enough."""
        order = np.argsort(-usable, kind="stable")
        sums = np.cumsum(usable[order])
        count = int(np.searchsorted(sums, need.gpus)) + 1
        if count > len(order):
            return None
        whole = order[: count - 1]
        rest = need.gpus - (int(sums[count - 2]) if count > 1 else 0)
        others = order[count - 1 :]
        enough = others[usable[others] >= rest]
        last = int(enough[np.argmin(usable[enough])])
        return tuple(sorted([*((int(node), int(usable[node])) for node in whole), (last, rest)]))

    # --- changes --------------------------------------------------------------------------------------------

    def claim(self, need: Need, sign: int) -> None:
        """Count the GPUs that a job has now as claimed, or, with `sign` -1, no more."""
        if not need.pinned:
            for node, gpus in need.before:
                self.claimed[node] += sign * gpus

    def reserve(self, need: Need) -> None:
        """Keep the GPUs of a pinned job from all others, before anything is given."""
        for node, gpus in need.before:
            self.gpus[node] -= gpus

    def give(self, need: Need, places: Places, cpus: float, memory_gib: float, speed: float) -> None:
        """Give a job what it has not had before. Whether it is free is not looked at."""
        self.held[need.job] = Held(need, places, cpus, memory_gib, speed)
        for node, gpus in places:
            self.tenants[node][need.job] = gpus
            if not need.pinned:
                self.gpus[node] -= gpus
        self._add(places, -cpus / need.gpus, -memory_gib / need.gpus)

    def take_back(self, job: str) -> Held:
        """Take from a job all that it has."""
        held = self.held.pop(job)
        for node, gpus in held.places:
            del self.tenants[node][job]
            if not held.need.pinned:
                self.gpus[node] += gpus
        self._add(held.places, held.cpus / held.need.gpus, held.memory_gib / held.need.gpus)
        return held

    def change(self, held: Held, cpus: float, memory_gib: float, speed: float) -> None:
        """Give a job other CPUs and another memory on the nodes where it is."""
        gpus = held.need.gpus
        self._add(held.places, (held.cpus - cpus) / gpus, (held.memory_gib - memory_gib) / gpus)
        held.cpus, held.memory_gib, held.speed = cpus, memory_gib, speed

    def _add(self, places: Places, cpus: float, memory_gib: float) -> None:
        for node, gpus in places:
            self.cpus[node] += gpus * cpus
            self.memory_gib[node] += gpus * memory_gib

    def more_for(self, held: Held) -> tuple[float, float]:
        """Return how many more CPUs and GiB a job could have in all, by what is free on each of its nodes."""
        cpus = min(float(self.cpus[node]) / gpus for node, gpus in held.places)
        memory_gib = min(float(self.memory_gib[node]) / gpus for node, gpus in held.places)
        return max(cpus, 0.0) * held.need.gpus, max(memory_gib, 0.0) * held.need.gpus

    def is_short(self, node: int) -> bool:
        """Return whether jobs have more of a node's CPUs or memory than there are."""
        return bool(self.cpus[node] < -SLACK or self.memory_gib[node] < -SLACK)
