"""GPUs that jobs are leaving: others have them once they are free, as in the live cluster. Pure.

A job trains on where it is until its processes elsewhere have started, and holds both meanwhile. Whoever is to
have what it leaves waits; where jobs wait for each other in a circle, one stops first (`scheduler/launcher.py`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Move:
    """A job's change of GPUs: those that join and those it leaves, by node.

    keeps_s: how long it keeps what it leaves, from when it has what joins.
    """

    job: int
    joins: Mapping[str, int]
    leaves: Mapping[str, int]
    keeps_s: float


@dataclass(frozen=True)
class Wait:
    """How long a job waits for what joins, and whether it stopped for that."""

    seconds: float = 0.0
    stopped: bool = False


@dataclass
class Handovers:
    """What was left in earlier rounds and is still held: a heap of (until, node, GPUs)."""

    held: list[tuple[float, str, int]] = field(default_factory=list)

    def waits(self, moves: Sequence[Move], free: Mapping[str, int], now: float) -> dict[int, Wait]:
        """By job, in the order in which jobs are served.

        free: GPUs by node that neither a job that stays, nor any of `moves` before it moves, has in the plan. What
        the moves leave is added to what is held.
        """
        while self.held and self.held[0][0] <= now:
            heapq.heappop(self.held)
        room = Counter(free)
        for _, node, gpus in self.held:
            room[node] -= gpus
        waiting, found, stopped = list(moves), dict[int, Wait](), set[int]()
        clock, ahead = now, sorted(self.held)
        while waiting:
            ready = next((move for move in waiting if _fits(move.joins, room)), None)
            if ready is not None:
                waiting.remove(ready)
                found[ready.job] = Wait(clock - now, ready.job in stopped)
                room.subtract(ready.joins)
                if ready.job not in stopped:
                    for node, gpus in ready.leaves.items():
                        heapq.heappush(ahead, (clock + ready.keeps_s, node, gpus))
                        heapq.heappush(self.held, (clock + ready.keeps_s, node, gpus))
            elif ahead:
                clock, node, gpus = heapq.heappop(ahead)
                room[node] += gpus
            elif (blocker := next((m for m in waiting if m.leaves and m.job not in stopped), None)) is not None:
                stopped.add(blocker.job)
                room.update(blocker.leaves)
            else:  # what they wait for is not on its way to them: a node has failed
                found.update({move.job: Wait(clock - now, move.job in stopped) for move in waiting})
                break
        return found


def _fits(joins: Mapping[str, int], room: Mapping[str, int]) -> bool:
    return all(room.get(node, 0) >= gpus for node, gpus in joins.items())
