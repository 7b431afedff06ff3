"""Lending in cells: reservations are cells, and borrowers lie on nodes apart from dedicated jobs. Pure.

As `lending` does with single GPUs, it lends where nodes that are free or come back cover what teams can need. A
number of GPUs to come is taken to fill the largest cells of a team first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .book import Book, Pool, Start, Waiting
from .ground import Ground, Shares
from .lending import Windows
from .reserving import NewLoad

Needs = dict[tuple[str, int], tuple[int, int]]  # (team, window) -> GPUs in cells, jobs of the queue they hang on


@dataclass
class CellServed:
    """Who starts on his own quota. no_cell: positions of jobs whose team has quota, and no node has it free."""

    starts: list[Start] = field(default_factory=list)
    no_cell: list[int] = field(default_factory=list)


def serve_dedicated_cells(book: Book, ground: Ground) -> CellServed:
    """Start jobs on their own cells, strictly by submission in each team, the team that has least first."""
    found = CellServed()
    while True:
        for pool in book.ordered():
            if not pool.waiting or pool.waiting[0].at in found.no_cell:
                continue
            head = pool.waiting[0]
            fit = ground.fit(pool.name, head.gpus)
            if fit.has_quota and fit.shares is None:
                found.no_cell.append(head.at)
            elif fit.shares is not None:
                ground.serve(pool.name, fit.shares)
                found.starts.append(book.start(pool, head, borrows=False, on=fit.shares))
                break
        else:
            return found


def lend_all_cells(book: Book, ground: Ground) -> list[Start]:
    """Start whoever waits, by submission, on cells apart from dedicated ones, and keep nothing back (HiveD)."""
    found: list[Start] = []
    of = [(pool, job) for pool in book.pools for job in pool.waiting]
    in_vain = set[int]()
    for pool, job in sorted(of, key=lambda one: one[1].at):
        if job.gpus in in_vain:
            continue
        shares = ground.borrowed(job.gpus)
        if shares is None:
            in_vain.add(job.gpus)
            continue
        ground.lend(shares)
        found.append(book.start(pool, job, borrows=True, on=shares))
    return found


def cells_for(unbound: Sequence[int], gpus: float) -> int:
    """Return the GPUs of the largest unbound cells that a load of so many GPUs may fill, one after another."""
    found = 0
    for cell in reversed(unbound):
        if found >= gpus:
            break
        found += cell
    return found


class CellsLent:
    """Which nodes are lent, by the window in which they are back, and which cells teams can need until then.

    Args:
        on: where each borrower is, by position.
        blocking: whether only what a queue could start in order is kept back; else all that waits and comes.
    """

    def __init__(
        self,
        book: Book,
        ground: Ground,
        windows: Windows,
        new_load: NewLoad,
        on: Mapping[int, Mapping[str, int]],
        *,
        blocking: bool,
        slack: float = 0.0,
    ) -> None:
        self._book, self._ground, self._windows = book, ground, windows
        self._blocking, self._slack, self._on = blocking, slack, on
        count = len(windows)
        self._new = {
            (pool.name, w): new_load(pool.name, s) for pool in book.pools for w, s in enumerate(windows.horizons_s)
        }
        self._window = dict[str, int]()  # of each lent node; `count`: it is never back for sure
        for job in book.borrowers:
            for node in on[job.at]:
                self._window[node] = max(self._window.get(node, 0), windows.of(job.most_s))
        self._needs: Needs = {
            (pool.name, w): self._need(pool, pool.waiting, w) for pool in book.pools for w in range(count)
        }

    def lend(self) -> list[Start]:
        """Start borrowers, those of short windows first, and of teams that have least."""
        found: list[Start] = []
        for window in range(len(self._windows)):
            while (chosen := self._next(window)) is not None:
                pool, job, shares = chosen
                found.append(self._book.start(pool, job, borrows=True, on=shares))
                self._ground.lend(shares)
                own = self._windows.of(job.most_s)
                for node, _ in shares:
                    self._window[node] = max(self._window.get(node, 0), own)
                for w in range(len(self._windows)):
                    self._needs[pool.name, w] = self._need(pool, pool.waiting, w)
        return found

    def _next(self, window: int) -> tuple[Pool, Waiting, Shares] | None:
        if not self._ground.free and not any(self._ground.lent.values()):
            return None
        for pool in self._book.ordered():
            depth = max(self._needs[pool.name, w][1] for w in range(len(self._windows)))
            unsafe = set[tuple[int, int]]()  # (GPUs, own window) of jobs on which no need hangs: one is as another
            for place, job in enumerate(pool.waiting):
                own = self._windows.of(job.most_s)
                if own > window or (place >= depth and (job.gpus, own) in unsafe):
                    continue
                shares = self._ground.borrowed(job.gpus, self._until(own))
                if shares is not None and self._is_safe(pool, place, own, shares):
                    return pool, job, shares
                if place >= depth:
                    unsafe.add((job.gpus, own))
        return None

    def _until(self, window: int) -> list[str]:
        """Return the nodes that are lent until the end of a window anyway, or for longer."""
        return [node for node, until in self._window.items() if until >= window]

    def _is_safe(self, pool: Pool, place: int, own: int, shares: Shares) -> bool:
        """Return whether in each window in which somebody is back the rest covers what teams can need."""
        ground, count = self._ground, len(self._windows)
        taken = {node for node, _ in shares}
        free = sum(ground.nodes[node] for node in ground.free)
        free_then = free - sum(ground.nodes[node] for node in taken & ground.free)
        then = self._window | {node: max(self._window.get(node, 0), own) for node in taken}
        others = [*pool.waiting[:place], *pool.waiting[place + 1 :]]
        for w in range(count):
            if not any(until == w for until in then.values()):
                continue
            kept = sum(self._needs[one.name, w][0] for one in self._book.pools)
            mine, hangs_on = self._needs[pool.name, w]
            more = self._need(pool, others, w)[0] - mine if place < hangs_on else 0
            left = free + self._back(self._window, w) - kept
            left_then = free_then + self._back(then, w) - kept - more
            if left_then < 0 and left_then < left:
                return False
        return True

    def _back(self, windows: Mapping[str, int], w: int) -> int:
        """Return the GPUs of lent nodes that are back before a window begins."""
        return sum(self._ground.nodes[node] for node, until in windows.items() if until < w)

    def _need(self, pool: Pool, queue: Sequence[Waiting], w: int) -> tuple[int, int]:
        """Return the GPUs of the cells that a team can need within a window, and how many jobs they hang on."""
        unbound, new = self._ground.unbound[pool.name], self._new[pool.name, w]
        if not self._blocking:
            load = sum(_rounded(job.gpus) for job in queue) + new
            return cells_for(unbound, (1 + self._slack) * load), len(queue)
        horizon_s = self._windows.horizons_s[w]
        room = sorted([*unbound, *self._may_be_idle(pool, horizon_s)])
        largest, most, load = max(self._ground.nodes.values(), default=1), sum(unbound), 0
        for count, job in enumerate(queue, start=1):
            if not _take(room, job.gpus, largest, keeps=job.least_s < horizon_s):
                return cells_for(unbound, (1 + self._slack) * load), count
            load += _rounded(job.gpus)
            if load >= most:
                return most, count
        return cells_for(unbound, (1 + self._slack) * (load + new)), len(queue)

    def _may_be_idle(self, pool: Pool, horizon_s: float) -> list[int]:
        """Return the GPUs of each bound cell that are idle if all that may end before a horizon has ended."""
        idle = {node: own.idle for node, own in self._ground.own[pool.name].items()}
        for job in pool.dedicated:
            if job.least_s < horizon_s:
                for node, gpus in self._on.get(job.at, {}).items():
                    idle[node] = idle.get(node, 0) + gpus
        return list(idle.values())


def _take(room: list[int], gpus: int, largest: int, *, keeps: bool) -> bool:
    """Take a job from rooms, least first; return whether there is room. keeps: it may end, so the room stays."""
    left = gpus
    while left > 0:
        part = min(left, largest)
        at = bisect_left(room, part)
        if at == len(room):
            return False
        if not keeps:
            rest = room.pop(at) - part
            room.insert(bisect_left(room, rest), rest)
        left -= part
    return True


def _rounded(gpus: int) -> int:
    """Return a power of two that is at least so many GPUs: the cell that a narrow job may need."""
    return 1 << (gpus - 1).bit_length() if gpus < 8 else gpus
