"""Makes what jobs have fit their nodes: where a node is short, who loses least for what it frees steps down."""

from __future__ import annotations

from collections.abc import Iterable

from .room import SLACK, Held, NodeRoom


def step_down(room: NodeRoom, nodes: Iterable[int] | None = None) -> None:
    """Lower jobs until no node is short, each time by the choice that loses least speed for what it frees.

    Every choice is at least as fast as the share, so the last step is what fits within it.
    """
    for node in range(len(room.tenants)) if nodes is None else nodes:
        while room.is_short(node):
            best: tuple[float, Held, int] | None = None
            for job, gpus in room.tenants[node].items():
                held = room.held[job]
                found = cheapest(held, gpus, node, room)
                if found is not None and (best is None or found[0] < best[0]):
                    best = (found[0], held, found[1])
            if best is None:
                _to_shares(room, node)
                break
            _, held, to = best
            cpus, memory_gib, speed = held.need.choices.lists
            room.change(held, cpus[to], memory_gib[to], speed[to])


def cheapest(held: Held, gpus: int, node: int, room: NodeRoom) -> tuple[float, int] | None:
    """Return what a job loses for what a node then has again, by its best choice for that; None: no slower one."""
    cpus, memory_gib, speed = held.need.choices.lists
    part = gpus / held.need.gpus
    short_c, short_m = -float(room.cpus[node]), -float(room.memory_gib[node])
    all_c, all_m = float(room.totals.cpus[node]), float(room.totals.memory_gib[node])
    found: tuple[float, int] | None = None
    for k in range(len(speed)):
        if speed[k] > held.speed:
            break
        less_c, less_m = (held.cpus - cpus[k]) * part, (held.memory_gib - memory_gib[k]) * part
        if less_c < min(short_c, 0.0) - SLACK or less_m < min(short_m, 0.0) - SLACK:
            continue  # it would take more of what is free than there is
        frees = 0.0
        if short_c > SLACK:
            frees += min(less_c, short_c) / all_c
        if short_m > SLACK:
            frees += min(less_m, short_m) / all_m
        if frees <= SLACK:
            continue
        loss = (held.speed - speed[k]) / frees
        if found is None or loss <= found[0]:
            found = (loss, k)
    return found


def _to_shares(room: NodeRoom, node: int) -> None:
    """Give jobs of a node what they need within their shares, who loses least first, until it is enough."""
    jobs = [room.held[job] for job in room.tenants[node]]
    lows = [(held.speed - held.need.choices.lists[2][held.need.choices.low], at) for at, held in enumerate(jobs)]
    for _, at in sorted(lows):
        if not room.is_short(node):
            return
        held = jobs[at]
        cpus, memory_gib, speed = held.need.choices.lists
        low = held.need.choices.low
        room.change(held, cpus[low], memory_gib[low], speed[low])


def drop_what_exceeds(room: NodeRoom) -> None:
    """Take back jobs whose users gave more than the share, where that is more than a node has; they wait.

    Who does not run yet goes first, then who holds most.
    """
    for node in range(len(room.tenants)):
        while room.is_short(node):
            jobs = [room.held[job] for job in room.tenants[node] if not room.held[job].need.pinned]
            wide = [held for held in jobs if held.need.choices.is_wider]
            if not (could := wide or jobs):
                break
            going = max(could, key=lambda held: (not held.need.before, held.cpus, held.memory_gib))
            room.take_back(going.need.job)


def squeeze(room: NodeRoom) -> None:
    """Let jobs of short nodes have a part of what they have, but those whose users gave more than the share.

    It is for nodes on which all jobs stay, whatever their users gave.
    """
    for node in range(len(room.tenants)):
        if not room.is_short(node):
            continue
        here = (room.held[job] for job in room.tenants[node])
        soft = [one for one in here if not one.need.choices.is_wider]
        parts = [room.tenants[node][one.need.job] / one.need.gpus for one in soft]
        has_c = sum(one.cpus * part for one, part in zip(soft, parts, strict=True))
        has_m = sum(one.memory_gib * part for one, part in zip(soft, parts, strict=True))
        left_c = _left(has_c, float(room.cpus[node]))
        left_m = _left(has_m, float(room.memory_gib[node]))
        for one in soft:
            cpus, memory_gib = one.cpus * left_c, one.memory_gib * left_m
            room.change(one, cpus, memory_gib, one.need.choices.speed_with(cpus, memory_gib))


def _left(has: float, free: float) -> float:
    """Return what part of what jobs have they can keep, where a node has so much free; below 0: it is short."""
    return 1.0 if free >= 0 or has <= 0 else max(1.0 + (free - SLACK) / has, 0.0)
