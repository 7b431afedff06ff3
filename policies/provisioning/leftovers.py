"""What is left of the CPUs and the memory of nodes goes to the jobs there that gain most by it."""

from __future__ import annotations

from collections.abc import Iterable

from .room import SLACK, Held, NodeRoom

LEAST_GAIN = 1e-9  # of speed


def hand_out(room: NodeRoom, nodes: Iterable[int] | None = None) -> None:
    """Raise jobs while a node has what makes one faster, each time the one that gains most for what it takes.

    Args:
        nodes: which nodes to look at; None: all.
    """
    for node in range(len(room.tenants)) if nodes is None else nodes:
        while room.cpus[node] > SLACK or room.memory_gib[node] > SLACK:
            best: tuple[float, Held, int] | None = None
            for job in room.tenants[node]:
                held = room.held[job]
                found = _step(held, room)
                if found is not None and (best is None or found[0] > best[0]):
                    best = (found[0], held, found[1])
            if best is None:
                break
            _, held, to = best
            cpus, memory_gib, speed = held.need.choices.lists
            room.change(held, cpus[to], memory_gib[to], speed[to])


def _step(held: Held, room: NodeRoom) -> tuple[float, int] | None:
    """Return the choice of a job that gains most for what it takes, and how much; None: no faster one fits."""
    choices = held.need.choices
    cpus, memory_gib, speed = choices.lists
    if held.speed >= speed[choices.best] - LEAST_GAIN:
        return None
    found: tuple[float, int] | None = None
    free_c, free_m = room.more_for(held)
    node = held.places[0][0]
    all_c, all_m = float(room.totals.cpus[node]), float(room.totals.memory_gib[node])
    for k in range(choices.best, -1, -1):
        gain = speed[k] - held.speed
        if gain <= LEAST_GAIN:
            break
        more_c, more_m = cpus[k] - held.cpus, memory_gib[k] - held.memory_gib
        if more_c > free_c + SLACK or more_m > free_m + SLACK:
            continue
        per = gain / max(max(more_c, 0.0) / all_c + max(more_m, 0.0) / all_m, 1e-12)
        if found is None or per > found[0]:
            found = (per, k)
    return found
