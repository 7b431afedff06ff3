"""Synergy-GREEDY (OSDI'22, section 4.3): first fit by the best-case demand; whoever does not fit is skipped."""

from __future__ import annotations

from collections.abc import Iterable

from .mechanism import Prices
from .needs import Need
from .room import NodeRoom
from .settle import step_down


class Greedy:
    """Gives each job its best-case demand on the first node that has it. Its faults are the paper's.

    GPUs stay idle where CPUs or memory are used up, and jobs that ask for much are skipped.
    """

    admits = True

    def provide(self, needs: Iterable[Need], room: NodeRoom) -> Prices | None:
        """Serve jobs in the policy's order, those that stay where they are first; see `Mechanism.provide`.

        A job that may not be stopped and whose demand does not fit gets what fits within its share.
        """
        in_vain: set[tuple[int, float, float, int]] = set()
        for need in needs:
            if not need.pinned and not room.gpus.any():
                break
            choices = need.choices
            cpus, memory_gib = choices.demand
            asks = (need.gpus, cpus, memory_gib, need.unit)
            if asks in in_vain and not need.before:
                continue
            places = room.find(need, cpus, memory_gib, first=True)
            if places is not None:
                room.give(need, places, cpus, memory_gib, float(choices.speed[choices.best]))
            elif need.pinned:
                low = choices.low
                room.give(need, need.before, choices.lists[0][low], choices.lists[1][low], choices.lists[2][low])
                step_down(room, [node for node, _ in need.before])
            else:
                in_vain.add(asks)
        return None
