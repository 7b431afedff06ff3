"""Places jobs in an order: who must run now first, in cells that others leave if there is no other way."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ...core.placement import NodeShare, Placement
from ..contract.round import Round
from ..placing.cells import Shape, place
from ..placing.demand import Demand
from ..placing.ledger import Ledger, OverCommitted, exists
from ..placing.rooms import ledger_of, room
from ..placing.speeds import is_whole, types_for


class Serving:
    """Gives jobs of a round places, by position. Who runs and is served stays where it is.

    Args:
        spread: (position -> shape) of jobs that may lie apart, as their speed allows it.
    """

    def __init__(self, round: Round, spread: Mapping[int, Shape] | None = None) -> None:
        self._round, self._spread = round, spread or {}
        columns = round.columns
        self._ids: list[str] = columns.ids.tolist()
        self._gpus: list[int] = columns.gpus.tolist()
        self._held: list[bool] = (columns.held > 0).tolist()
        self.ledger = Ledger(round.cluster)

    def keep(self, order: Sequence[int]) -> list[int]:
        """Let jobs stay where they run. Return the positions of those that do not run, or cannot stay."""
        running = [i for i in order if self._held[i]]
        if not self.ledger.held:
            self.ledger = ledger_of(self._round, np.array(running, np.int64))
        else:
            for i in running:
                if self._ids[i] not in self.ledger.held:
                    self._stay(i)
        return [i for i in order if self._ids[i] not in self.ledger.held]

    def serve(self, order: NDArray[np.int64], must: int, last: Container[int] = ()) -> None:
        """Serve all jobs in an order, of which the first `must` have to run.

        Those may take the places of others. Of the others, the first that fit by their number of GPUs come first.
        What they leave goes to who runs there, and then to whoever fits.

        Args:
            last: jobs that have to run and may lie apart. They take what the others leave of nodes.
        """
        listed = order.tolist()
        first, others = listed[:must], listed[must:]
        running = [i for i in others if self._held[i]]
        waiting = self.keep(first)
        apart = [i for i in waiting if i in last]
        self.pack([i for i in waiting if i not in last], first, running)
        left = sum(self.ledger.idle(t) for t in self._round.cluster.gpu_types)
        taken = np.cumsum([self._gpus[i] for i in (*apart, *others)])[len(apart) :]
        chosen = others[: int(np.searchsorted(taken, left, side="right"))]
        later = others[len(chosen) :]
        waiting = self.keep(chosen)
        waiting = self.start([*waiting, *apart], [i for i in later if self._held[i]])
        self.start([*waiting, *self.keep(later)])

    def pack(self, order: Sequence[int], served: Sequence[int], beside: Sequence[int] = ()) -> None:
        """Start jobs, and move smaller ones that are served where a node has to be cleared for one."""
        for i in self.start(order, beside):
            if (moved := self._clear(i, served)) is not None:
                self.start(moved, beside)

    def _clear(self, i: int, served: Sequence[int]) -> list[int] | None:
        """Start a job where the fewest GPUs of others have to be moved, and return the positions of these.

        Only jobs on one node that ask for less are moved: they start elsewhere, or wait. None: there is no place.
        """
        round, gpus = self._round, self._gpus[i]
        columns, ids = round.columns, self._ids
        movable: dict[str, list[int]] = {}
        for j in served:
            held = self.ledger.held.get(ids[j])
            if held is not None and held.nodes == 1 and self._gpus[j] < gpus and columns.preemptible[j]:
                movable.setdefault(held.shares[0].node_id, []).append(j)
        for gpu_type in types_for(round.jobs[i].spec, gpus, round.cluster):
            largest = round.cluster.largest_nodes[gpu_type]
            whole, rest = divmod(gpus, largest)
            wanted, moved = [largest] * whole + ([rest] if rest else []), list[int]()
            taken: dict[str, int] = {}
            for size in wanted:
                options = [
                    (sum(self._gpus[j] for j in going), node.id, going)
                    for node in round.cluster.of_type(gpu_type)
                    if node.id not in taken
                    and (going := self._going(node.id, size, movable.get(node.id, ()))) is not None
                ]
                if not options:
                    break
                _, node_id, going = min(options)
                taken[node_id] = size
                moved += going
            if len(taken) == len(wanted):
                before = [(ids[j], self.ledger.give_back(ids[j])) for j in moved]
                if (found := self._placement(self.ledger, i, gpu_type, taken)) is not None:
                    self.ledger.take(ids[i], found)
                    return moved
                for job, placement in before:
                    self.ledger.take(job, placement)
        return None

    def _placement(self, ledger: Ledger, i: int, gpu_type: str, taken: Mapping[str, int]) -> Placement | None:
        """Return GPUs of nodes with what is asked for beside them; None: they lack it, or replicas are torn."""
        spec, nodes = self._round.jobs[i].spec, ledger.cluster.by_id
        demand = Demand.of(spec)
        shares = [NodeShare(node, gpus, *demand.on(nodes[node], gpus)) for node, gpus in taken.items()]
        found = Placement(gpu_type, tuple(shares))
        lacks = any(ledger.lack(share, gpu_type) is not None for share in shares)
        return None if lacks or not is_whole(found, spec) else found

    def _going(self, node: str, gpus: int, movable: Sequence[int]) -> list[int] | None:
        """Return who has to leave a node so that so many of its GPUs are free; None: even all are not enough."""
        free, going = self.ledger.idle_on(node), list[int]()
        for j in sorted(movable, key=lambda j: -self._gpus[j]):
            if free >= gpus:
                break
            free += self._gpus[j]
            going.append(j)
        return going if free >= gpus else None

    def _stay(self, i: int) -> None:
        placement = self._round.columns.placements[i]
        if exists(placement, self._round.cluster):
            with suppress(OverCommitted):
                self.ledger.take(self._ids[i], placement)

    def start(self, order: Sequence[int], beside: Sequence[int] = ()) -> list[int]:
        """Start jobs where there is room, and return the positions of those that found none.

        Args:
            beside: positions of running jobs that are not served yet. What they hold is taken only if nothing
                else is left.
        """
        waiting: list[int] = []
        full = self._with(beside) if beside else self.ledger
        for i in order:
            if not self._idle():
                waiting.append(i)
                continue
            found = self._find(full, i)
            if found is None and full is not self.ledger:
                found = self._find(self.ledger, i)
            if found is None:
                waiting.append(i)
                continue
            self.ledger.take(self._ids[i], found)
            if full is not self.ledger:
                self._take_over(full, self._ids[i], found)
        return waiting

    def _idle(self) -> bool:
        """Return whether any GPU is left."""
        return any(self.ledger.idle(t) for t in self._round.cluster.gpu_types)

    def _with(self, beside: Sequence[int]) -> Ledger:
        """Return a ledger in which others stay where they run, too."""
        placements = self._round.columns.placements
        held = dict(self.ledger.held) | {self._ids[i]: placements[i] for i in beside}
        return Ledger.of(self._round.cluster, held)

    def _find(self, ledger: Ledger, i: int) -> Placement | None:
        found = room(ledger, self._round, i, False)
        if found is None and (shape := self._spread.get(i)) is not None:
            found = self._apart(ledger, i, shape)
        return found

    def _apart(self, ledger: Ledger, i: int, shape: Shape) -> Placement | None:
        cluster, gpus = self._round.cluster, self._gpus[i]
        for gpu_type in types_for(self._round.jobs[i].spec, gpus, cluster):
            if ledger.idle(gpu_type) < gpus:
                continue
            free = {node.id: ledger.idle_on(node.id) for node in cluster.of_type(gpu_type)}
            taken = place(gpus, shape, free)
            found = None if taken is None else self._placement(ledger, i, gpu_type, taken)
            if found is not None:
                return found
        return None

    def _take_over(self, full: Ledger, job: str, placement: Placement) -> None:
        """Enter a placement into the ledger of all; the last ones in its way hold nothing there any more."""
        for other, held in reversed(list(full.held.items())):
            if all(full.lack(share, placement.gpu_type) is None for share in placement.shares):
                break
            if other not in self.ledger.held and any(share.node_id in placement.by_node for share in held.shares):
                full.give_back(other)
        full.take(job, placement)
