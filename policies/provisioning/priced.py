"""Our mechanism: prices choose for all jobs at once, and jobs are placed so that nodes can give what was chosen.

1. The program for one machine (`ideal`) chooses CPUs and memory of all jobs together, by prices.
2. Who runs stays on its GPUs. Newcomers go where their demand evens out what nodes are asked for. If a node is
   still asked for more than it has, jobs change places, while that is worth two restarts.
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
from .settle import cheapest, drop_what_exceeds, step_down

MOST_SWAPS = 16  # of jobs on one GPU type, in a round
MOST_TARGETS = 4  # nodes with most left that a change is looked for with
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
            places = _place(need, k, per_gpu[at], average, weight, room)
            if places is not None:
                cpus, memory_gib, speed = need.choices.lists
                room.give(need, places, cpus[k], memory_gib[k], speed[k])
        _swap(room)
        step_down(room)
        drop_what_exceeds(room)
        if self._hands_out:
            hand_out(room)
        return prices


def _slack(room: NodeRoom, weight: np.ndarray) -> np.ndarray:
    """Return (nodes,) what each node has left, in worth; below 0 where it is asked for more than it has."""
    found: np.ndarray = weight[0] * room.cpus + weight[1] * room.memory_gib
    return found


def _place(
    need: Need, k: int, per_gpu: float, average: float, weight: np.ndarray, room: NodeRoom
) -> Places | None:
    """Return where a newcomer goes: a hungry one where most is left for its free GPUs, others where least is.

    Nodes that have free what was chosen for it come before all others.
    """
    cpus, memory_gib = need.choices.lists[0][k], need.choices.lists[1][k]
    at = np.flatnonzero(room.gpus >= need.gpus)
    has = at[(room.cpus[at] >= cpus - SLACK) & (room.memory_gib[at] >= memory_gib - SLACK)]
    if not len(has) and need.gpus > need.unit:
        usable = room.usable(need, cpus, memory_gib)
        if (places := room.spread(need, usable)) is not None:
            return places
        if not len(at):
            return room.spread(need, room.gpus // need.unit * need.unit)
    at = has if len(has) else at
    if not len(at):
        return None
    excess = _slack(room, weight)[at] - average * room.gpus[at]
    node = at[np.argmax(excess)] if per_gpu > average else at[np.argmin(excess)]
    return ((int(node), need.gpus),)


def _swap(room: NodeRoom) -> None:
    """Let jobs change places with others of their size, or go to free GPUs, where a node is asked for too much.

    Each time it is the change that saves the most speed, judged by what the first job to step down would lose. It
    has to be worth two restarts.
    """
    for _ in range(MOST_SWAPS):
        lacks = _lacks(room)
        source = int(np.argmax(lacks))
        if lacks[source] <= SLACK:
            return
        held = (room.held[job] for job in room.tenants[source])
        losses = [found[0] for one in held if (found := cheapest(one, source, room))]
        if not losses:
            return
        best: tuple[float, str, int, str | None] | None = None
        spare = room.cpus / room.totals.cpus + room.memory_gib / room.totals.memory_gib
        for target in np.argsort(-spare, kind="stable")[:MOST_TARGETS].tolist():
            if target == source:
                continue
            before = float(lacks[source] + lacks[target])
            others: list[tuple[str | None, float, float, int]] = [*_movable(room, target)]
            if room.gpus[target] > 0:
                others.append((None, 0.0, 0.0, int(room.gpus[target])))
            for job, cpus, memory_gib, gpus in _movable(room, source):
                for other, other_cpus, other_memory, size in others:
                    if size != gpus if other is not None else size < gpus:
                        continue
                    moved = cpus - other_cpus, memory_gib - other_memory
                    after = _lack(room, source, *moved) + _lack(room, target, -moved[0], -moved[1])
                    gain = (before - after) * min(losses)
                    if best is None or gain > best[0] + SLACK:
                        best = (gain, job, target, other)
        if best is None or best[0] < WORTH_A_SWAP:
            return
        _exchange(room, best[1], best[2], best[3])


def _lacks(room: NodeRoom) -> np.ndarray:
    """Return (nodes,) what each node is asked for too much, as parts of it."""
    found: np.ndarray = np.maximum(-room.cpus, 0) / room.totals.cpus
    return found + np.maximum(-room.memory_gib, 0) / room.totals.memory_gib


def _lack(room: NodeRoom, node: int, cpus: float, memory_gib: float) -> float:
    """Return what a node is asked for too much once so much is freed there, as parts of it."""
    lack_c = max(-float(room.cpus[node]) - cpus, 0.0) / float(room.totals.cpus[node])
    return lack_c + max(-float(room.memory_gib[node]) - memory_gib, 0.0) / float(room.totals.memory_gib[node])


def _movable(room: NodeRoom, node: int) -> list[tuple[str, float, float, int]]:
    """Return the jobs that are on one node alone and may move: CPUs, memory and GPUs of each."""
    held = (room.held[job] for job in room.tenants[node])
    return [
        (one.need.job, one.cpus, one.memory_gib, one.need.gpus)
        for one in held
        if len(one.places) == 1 and not one.need.pinned
    ]


def _exchange(room: NodeRoom, one: str, target: int, other: str | None) -> None:
    """Put a job on another node, and the job that is in its place there where that is."""
    a = room.take_back(one)
    if other is not None:
        b = room.take_back(other)
        room.give(b.need, a.places, b.cpus, b.memory_gib, b.speed)
    room.give(a.need, ((target, a.need.gpus),), a.cpus, a.memory_gib, a.speed)
