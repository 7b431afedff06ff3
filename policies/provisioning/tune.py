"""Synergy-TUNE (OSDI'22, section 4.4): best-case demands, and where they do not fit, shares."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ...estimators.sensitivity.choices import Choices
from .leftovers import hand_out
from .mechanism import Prices
from .needs import Need, largest_first
from .room import SLACK, Held, NodeRoom


class Tune:
    """Packs best-case demands, largest first. Jobs beyond their share give way, so every job is placed.

    Args:
        hands_out: whether what is left over goes to the jobs that gain most.
    """

    admits = False

    def __init__(self, *, hands_out: bool = True) -> None:
        self._hands_out = hands_out

    def provide(self, needs: Iterable[Need], room: NodeRoom) -> Prices | None:
        """Place the jobs that ask for most GPUs first, then for most CPUs, then for most memory.

        Jobs go to GPUs that no other job has now, where they find room there.
        """
        ordered = largest_first(needs, lambda need: (need.gpus, *need.choices.demand))
        for need in ordered:
            room.claim(need, 1)
        for need in ordered:
            room.claim(need, -1)
            _place(need, room)
        if self._hands_out:
            hand_out(room)
        return None


@lru_cache(maxsize=4096)
def demoted(choices: Choices) -> tuple[float, float, float]:
    """Return CPUs, memory and speed of a job that gave way: no more than its share of either, and no slower."""
    demand, share = choices.demand, choices.share
    cpus, memory_gib = min(demand[0], share[0]), min(demand[1], share[1])
    speed = choices.speed_with(cpus, memory_gib)
    return (cpus, memory_gib, speed) if speed >= 1 - 1e-9 else (*share, 1.0)


def _place(need: Need, room: NodeRoom) -> None:
    choices = need.choices
    cpus, memory_gib = choices.demand
    speed = choices.lists[2][choices.best]
    places = room.find(need, cpus, memory_gib)
    if places is None:
        cpus, memory_gib, speed = demoted(choices)
        places = room.find(need, cpus, memory_gib)
    if places is None:
        places = room.find_gpus(need)
        if places is None:
            return
        room.give(need, places, cpus, memory_gib, speed)
        if not all(make_way(node, room) for node, _ in places):
            room.take_back(need.job)
        return
    room.give(need, places, cpus, memory_gib, speed)


def make_way(node: int, room: NodeRoom) -> bool:
    """Let as many jobs beyond their share give way as it needs, until a node is not short any more.

    Return False if that is not enough, as where users gave more than the share.
    """
    while room.is_short(node):
        best, most = None, SLACK
        for job, gpus in room.tenants[node].items():
            held = room.held[job]
            if (release := _release(held, gpus, node, room)) > most:
                best, most = held, release
        if best is None:
            return False
        room.change(best, *demoted(best.need.choices))
    return True


def _release(held: Held, gpus: int, node: int, room: NodeRoom) -> float:
    """Return how much of what a node is short of it has again if a job gives way, as parts of the node."""
    cpus, memory_gib, _ = demoted(held.need.choices)
    part, found = gpus / held.need.gpus, 0.0
    if room.cpus[node] < -SLACK:
        found += max(held.cpus - cpus, 0.0) * part / float(room.totals.cpus[node])
    if room.memory_gib[node] < -SLACK:
        found += max(held.memory_gib - memory_gib, 0.0) * part / float(room.totals.memory_gib[node])
    return found
