"""Where quotas lie: cells of nodes that teams are bound to, nodes that are lent, and nodes that are free. Pure.

A quota is made of cells of 1, 2, 4, 8 … GPUs of a node ("Anticipatory Resource Allocation", section 5.5; HiveD). A
cell is bound to a node while a dedicated job of its team is in it. Borrowers lie on nodes without a bound cell, so
that whole nodes come back when they end. GPUs of a node stand in for each other: what is free of it is one cell.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Shares = tuple[tuple[str, int], ...]  # (node, GPUs) of a job


@dataclass
class Own:
    """What a team is bound to on a node, and how much of it its dedicated jobs have."""

    gpus: int
    used: int = 0

    @property
    def idle(self) -> int:
        return self.gpus - self.used


@dataclass(frozen=True)
class Fit:
    """Whether a quota has the cells for a job, and where they are: None means that no node has them free."""

    has_quota: bool
    shares: Shares | None = None


NO_QUOTA = Fit(False)


class Ground:
    """The nodes of one GPU type, and who is bound to them.

    Args:
        nodes: GPUs by node. quotas: the cells of each team.
        homes: nodes that a team takes first, as `homes_of` gives them.
    """

    def __init__(
        self,
        nodes: Mapping[str, int],
        quotas: Mapping[str, Sequence[int]],
        homes: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        self.nodes, self._homes = nodes, homes or {}
        self._largest = {team: max(cells, default=0) for team, cells in quotas.items()}
        self.unbound = {team: sorted(cells) for team, cells in quotas.items()}  # cells that no job is in
        self.own: dict[str, dict[str, Own]] = {team: {} for team in quotas}
        self.room = dict(nodes)  # GPUs of nodes in no bound cell
        self.lent: dict[str, int] = {}  # idle GPUs of nodes that borrowers are on
        self.free = set(nodes)  # nodes with nobody

    # --- what runs ------------------------------------------------------------------------------------------

    def hold(self, team: str, dedicated: Mapping[str, int]) -> None:
        """Bind a team to what its dedicated jobs have, GPUs by node: to its least cells that hold them."""
        self.serve(team, sorted(dedicated.items(), key=lambda one: (-one[1], one[0])))

    def serve(self, team: str, shares: Iterable[tuple[str, int]]) -> None:
        """Note what a dedicated job takes, as `fit` found it."""
        for node, gpus in shares:
            own = self.own[team].setdefault(node, Own(0))
            own.used += gpus
            if (short := -own.idle) > 0:
                more = self._cells(team, short)
                own.gpus += more
                self.room[node] -= more
                self.free.discard(node)

    def _cells(self, team: str, gpus: int) -> int:
        """Take the least cell of a team that holds so many GPUs, else its largest ones; return their GPUs."""
        cells, found = self.unbound[team], 0
        at = bisect_left(cells, gpus)
        if at < len(cells):
            return cells.pop(at)
        while found < gpus and cells:
            found += cells.pop()
        return max(found, gpus)

    def lend(self, shares: Iterable[tuple[str, int]]) -> None:
        """Note what a borrower has. Nothing more is lent of a node that has a bound cell, too."""
        for node, gpus in shares:
            whole = self.room[node] if self.room[node] == self.nodes[node] else 0
            self.lent[node] = max(self.lent.get(node, whole) - gpus, 0)
            self.free.discard(node)

    # --- questions ------------------------------------------------------------------------------------------

    def fit(self, team: str, gpus: int) -> Fit:
        """Return where a dedicated job lies: in the fullest bound cell with room, else in the least further cell.

        One that is wider than the largest cell takes whole cells of that size, and one more for the rest.
        """
        cells = list(self.unbound[team])
        wanted, rest = list[tuple[str, int] | int](), gpus
        idle = {node: own.idle for node, own in self.own[team].items()}
        while rest > 0:
            if (node := _fullest(idle, rest)) is not None:
                wanted.append((node, rest))
                break
            at = bisect_left(cells, rest)
            if at < len(cells):
                wanted.append(cells.pop(at))
                break
            if rest < self._largest[team] or not cells or cells[-1] < self._largest[team]:
                return NO_QUOTA
            rest -= cells[-1]
            wanted.append(cells.pop())
        return Fit(True, self._on_nodes(team, wanted, gpus))

    def _on_nodes(self, team: str, wanted: Sequence[tuple[str, int] | int], gpus: int) -> Shares | None:
        """Return nodes for bound cells and for further ones; None: a further one is free nowhere."""
        room, free = {node: left for node, left in self.room.items() if node not in self.lent}, set(self.free)
        found, left, home = Counter[str](), gpus, self._homes.get(team, frozenset())
        for one in wanted:
            if not isinstance(one, int):
                found[one[0]] += one[1]
                continue
            begun = {node: idle for node, idle in room.items() if node not in free}
            node = _fullest(begun, one) or _fullest({node: room[node] for node in free & home}, one)
            node = node or _fullest({node: room[node] for node in free}, one)
            if node is None:
                return None
            room[node] -= one
            free.discard(node)
            found[node] += min(one, left)
            left -= one
        return tuple(found.items())

    def borrowed(self, gpus: int, prefers: Iterable[str] = ()) -> Shares | None:
        """Return where a borrower lies: on nodes that are lent already, else on free ones; None: nowhere.

        Args:
            prefers: lent nodes that come first.
        """
        largest = max(self.nodes.values(), default=0)
        whole, rest = divmod(gpus, largest) if largest else (0, gpus)
        found, free = list[tuple[str, int]](), sorted(self.free, key=lambda node: (-self.nodes[node], node))
        for _ in range(whole):
            if not free or self.nodes[free[0]] < largest:
                return None
            found.append((free.pop(0), largest))
        if rest:
            first = {node: self.lent[node] for node in prefers}
            node = _fullest(first, rest) or _fullest(self.lent, rest)
            node = node or _fullest({node: self.nodes[node] for node in free}, rest)
            if node is None:
                return None
            found.append((node, rest))
        return tuple(found)


def _fullest(idle: Mapping[str, int], gpus: int) -> str | None:
    """Return the node with least idle GPUs that are enough; None: there is none."""
    rooms = [(left, node) for node, left in idle.items() if left >= gpus]
    return min(rooms)[1] if rooms else None


def fits_at_all(cells: Sequence[int], gpus: int) -> bool:
    """Return whether a quota's cells hold a job while nobody else is in them."""
    left, largest = list[int](), max(cells, default=0)
    for cell in cells:
        insort(left, cell)
    while gpus > 0:
        at = bisect_left(left, gpus)
        if at < len(left):
            return True
        if not left or left[-1] < largest:
            return False
        gpus -= left.pop()
    return True


def homes_of(nodes: Mapping[str, int], quotas: Mapping[str, Sequence[int]]) -> dict[str, frozenset[str]]:
    """Return nodes that hold the cells of all teams at once, by team, as far as they do.

    With nothing lent each team is on these alone, as on a cluster of its own.
    """
    room, found = dict(nodes), dict[str, set[str]]()
    cells = [(-cell, team) for team, own in quotas.items() for cell in own]
    for cell, team in sorted(cells, key=lambda one: one[0]):  # of equal cells teams keep their order
        if (node := _fullest(room, -cell)) is not None:
            room[node] += cell
            found.setdefault(team, set()).add(node)
    return {team: frozenset(own) for team, own in found.items()}
