"""Makes what jobs have fit their nodes: where a node is short, who loses least for what it frees steps down."""

from __future__ import annotations

from collections.abc import Iterable

from .room import SLACK, Held, NodeRoom


def step_down(room: NodeRoom, nodes: Iterable[int] | None = None) -> None:
    """Lower jobs until no node is short, each time by the choice that loses least speed for what it frees.

    Every choice is at least as fast as the share, so the last step is what fits within it.
    """
    looked_at = range(len(room.tenants)) if nodes is None else list(nodes)
    for node in looked_at:
        while room.is_short(node) and _lowers(room, node):
            pass
    # What fits within a share may take more of one amount elsewhere, so a node may be short again.
    while any(room.is_short(node) and _to_shares(room, node) for node in looked_at):
        pass


def _lowers(room: NodeRoom, node: int) -> bool:
    """Lower the job of a node that loses least for what it frees. Return False if there is none."""
    best: tuple[float, Held, int] | None = None
    for job in room.tenants[node]:
        held = room.held[job]
        found = cheapest(held, node, room)
        if found is not None and (best is None or found[0] < best[0]):
            best = (found[0], held, found[1])
    if best is None:
        return False
    _, held, to = best
    cpus, memory_gib, speed = held.need.choices.lists
    room.change(held, cpus[to], memory_gib[to], speed[to])
    return True


def cheapest(held: Held, node: int, room: NodeRoom) -> tuple[float, int] | None:
    """Return what a job loses for what a node then has again, by its best choice for that; None: no slower one."""
    cpus, memory_gib, speed = held.need.choices.lists
    here = next(gpus for at, gpus in held.places if at == node) / held.need.gpus
    short_c, short_m = -float(room.cpus[node]), -float(room.memory_gib[node])
    all_c, all_m = float(room.totals.cpus[node]), float(room.totals.memory_gib[node])
    more_c, more_m = room.more_for(held)
    found: tuple[float, int] | None = None
    for k in range(len(speed)):
        if speed[k] > held.speed:
            break
        less_c, less_m = held.cpus - cpus[k], held.memory_gib - memory_gib[k]
        if -less_c > more_c + SLACK or -less_m > more_m + SLACK:
            continue  # it would take more of what is free than there is
        frees = 0.0
        if short_c > SLACK:
            frees += min(less_c * here, short_c) / all_c
        if short_m > SLACK:
            frees += min(less_m * here, short_m) / all_m
        if frees <= SLACK:
            continue
        loss = (held.speed - speed[k]) / frees
        if found is None or loss <= found[0]:
            found = (loss, k)
    return found


def _to_shares(room: NodeRoom, node: int) -> bool:
    """Give jobs of a node what they need within their shares, who loses least first, until it is enough.

    Return whether any has something else than before.
    """
    jobs = [room.held[job] for job in room.tenants[node]]
    lows = [(held.speed - held.need.choices.lists[2][held.need.choices.low], at) for at, held in enumerate(jobs)]
    changes = False
    for _, at in sorted(lows):
        held = jobs[at]
        cpus, memory_gib, speed = (one[held.need.choices.low] for one in held.need.choices.lists)
        if not room.is_short(node) or (held.cpus, held.memory_gib) == (cpus, memory_gib):
            continue
        room.change(held, cpus, memory_gib, speed)
        changes = True
    return changes


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
