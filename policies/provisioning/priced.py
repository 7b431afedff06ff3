"""Our mechanism: prices choose for all jobs at once, and jobs are placed so that nodes can give what was chosen.

1. The program for one machine (`ideal`) chooses CPUs and memory of all jobs together, by prices.
2. Who runs stays on its GPUs. Newcomers go where their demand evens out what nodes are asked for. If a node is
   still asked for more than it has, jobs of equal sizes change places, while that is worth two restarts.
3. Where a node is short, jobs step down by the least loss (`settle`). The rest is handed out (`leftovers`).

TUNE instead takes the best case of each job by itself, and whoever gives way falls back to the share at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .classes import Chosen
from .leftovers import hand_out
from .mechanism import Prices
from .needs import Need, Places
from .room import SLACK, NodeRoom
from .settle import drop_what_exceeds, step_down

MOST_SWAPS = 16  # of jobs on one GPU type, in a round
WORTH_A_SWAP = 0.1  # speeds at the share that two restarts must gain


class Priced:
    """Chooses by prices, packs by balance, steps down by least loss and hands out the rest.

    Args:
        hands_out: whether what is left over goes to the jobs that gain most.
    """

    admits = False

    def __init__(self, *, hands_out: bool = True) -> None:
        self._hands_out = hands_out

    def provide(self, needs: Iterable[Need], room: NodeRoom) -> Prices | None:
        """Give the needs what is best for all of them together; see `Mechanism.provide`."""
        needs = list(needs)
        if not needs:
            return Prices()
        chosen = Chosen(needs, room, whole=False)
        totals, prices = room.totals, chosen.prices
        all_c, all_m = float(totals.cpus.sum()), float(totals.memory_gib.sum())
        # A little of each counts even where there is enough of it, so that nodes stay even.
        weight_c, weight_m = prices.cpu + 1e-3 / all_c, prices.gib + 1e-3 / all_m
        weight = np.array([weight_c, weight_m])
        waiting: list[tuple[float, int]] = []
        per_gpu: list[float] = []
        for at, (need, k) in enumerate(zip(needs, chosen.choice, strict=True)):
            cpus, memory_gib, speed = need.choices.lists
            per_gpu.append((weight_c * cpus[k] + weight_m * memory_gib[k]) / need.gpus)
            if need.before and (need.pinned or all(room.gpus[node] >= gpus for node, gpus in need.before)):
                room.give(need, need.before, cpus[k], memory_gib[k], speed[k])
            else:
                waiting.append((-need.gpus, at))
        average = float(weight @ np.array([all_c, all_m])) / max(float(totals.gpus.sum()), 1.0)
        waiting.sort(key=lambda one: (one[0], -abs(per_gpu[one[1]] - average), one[1]))
        for _, at in waiting:
            need, k = needs[at], chosen.choice[at]
            places = _place(need, per_gpu[at], average, weight, room)
            if places is not None:
                cpus, memory_gib, speed = need.choices.lists
                room.give(need, places, cpus[k], memory_gib[k], speed[k])
        _swap(room, weight)
        step_down(room)
        drop_what_exceeds(room)
        if self._hands_out:
            hand_out(room)
        return prices


def _slack(room: NodeRoom, weight: np.ndarray) -> np.ndarray:
    """Return (nodes,) what each node has left, in worth; below 0 where it is asked for more than it has."""
    found: np.ndarray = weight[0] * room.cpus + weight[1] * room.memory_gib
    return found


def _place(need: Need, per_gpu: float, average: float, weight: np.ndarray, room: NodeRoom) -> Places | None:
    """Return where a newcomer goes: a hungry one where most is left for its free GPUs, others where least is."""
    at = np.flatnonzero(room.gpus >= need.gpus)
    if not len(at):
        return None if need.gpus <= need.unit else room.spread(need, room.gpus // need.unit * need.unit)
    excess = _slack(room, weight)[at] - average * room.gpus[at]
    node = at[np.argmax(excess)] if per_gpu > average else at[np.argmin(excess)]
    return ((int(node), need.gpus),)


def _swap(room: NodeRoom, weight: np.ndarray) -> None:
    """Let jobs of equal sizes change places where a node is asked for more than it has and another has some left.

    Whether it is worth two restarts is judged by the prices of what then has room.
    """
    for _ in range(MOST_SWAPS):
        slack = _slack(room, weight)
        short = np.flatnonzero((room.cpus < -SLACK) | (room.memory_gib < -SLACK))
        if not len(short):
            return
        best: tuple[float, str, str] | None = None
        source = int(short[np.argmin(slack[short])])
        for target in np.argsort(-slack)[:4].tolist():
            if target == source or slack[target] <= slack[source]:
                continue
            wanted = (float(slack[target]) - float(slack[source])) / 2
            for job, worth, gpus in _movable(room, source, weight):
                for other, less, same in _movable(room, target, weight):
                    moved = worth - less
                    if same != gpus or moved <= 0:
                        continue
                    before = _lack(room, source, 0.0, weight) + _lack(room, target, 0.0, weight)
                    after = _lack(room, source, moved, weight) + _lack(room, target, -moved, weight)
                    gain = before - after - 1e-9 * abs(moved - wanted)
                    if best is None or gain > best[0]:
                        best = (gain, job, other)
        if best is None or best[0] < WORTH_A_SWAP:
            return
        _exchange(room, best[1], best[2])


def _lack(room: NodeRoom, node: int, freed: float, weight: np.ndarray) -> float:
    """Return by how much worth a node is asked for too much once so much is freed."""
    lack = weight[0] * max(-float(room.cpus[node]), 0.0) + weight[1] * max(-float(room.memory_gib[node]), 0.0)
    spare = weight[0] * max(float(room.cpus[node]), 0.0) + weight[1] * max(float(room.memory_gib[node]), 0.0)
    return max(lack - freed, 0.0) if freed >= 0 else lack + max(-freed - spare, 0.0)


def _movable(room: NodeRoom, node: int, weight: np.ndarray) -> list[tuple[str, float, int]]:
    """Return the jobs that are on one node alone and may move, with what they hold in worth, and their GPUs."""
    found = []
    for job, gpus in room.tenants[node].items():
        held = room.held[job]
        if len(held.places) == 1 and not held.need.pinned:
            found.append((job, float(weight[0]) * held.cpus + float(weight[1]) * held.memory_gib, gpus))
    return found


def _exchange(room: NodeRoom, one: str, other: str) -> None:
    a, b = room.take_back(one), room.take_back(other)
    room.give(a.need, b.places, a.cpus, a.memory_gib, a.speed)
    room.give(b.need, a.places, b.cpus, b.memory_gib, b.speed)
