"""Serves jobs in an order, and lets jobs overtake that find room while those before them do not.

With `fill` whoever finds room starts. With `reserve` the first that finds none has a place kept: the one that is
expected to be free soonest. Others start there only if they are expected to end before (EASY backfilling, Lifka,
1995).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ..core.decisions import Refused, Waiting, WaitReason
from ..core.placement import NodeShare, Placement
from ..core.wording import n_gpus
from .admission import starting
from .choosing.decided import QueueReasons, decisions_of
from .contract.round import Plan, Round
from .placing.demand import Demand
from .placing.ledger import Ledger
from .placing.rooms import ledger_of, room
from .placing.soonest import Soonest, soonest_place
from .placing.speeds import types_for, types_with_room

_KEPT = "\0kept"  # no job is called that


class Backfill(StrEnum):
    """Whether jobs may overtake one that finds no room."""

    NONE = "none"
    FILL = "fill"
    RESERVE = "reserve"


@dataclass
class _Service:
    """One round: `ledger` is the truth, and in `others` the place that is kept is taken, too."""

    round: Round
    type_blind: bool
    ledger: Ledger
    others: Ledger
    kept: Soonest | None = None
    kept_for: int = -1
    tried: set[int] = field(default_factory=set)

    def start(self, i: int) -> bool:
        """Start the job at a position where it may. Return whether it has room."""
        self.tried.add(i)
        gpus, id = int(self.round.columns.gpus[i]), self.round.columns.ids[i]
        if gpus > max(map(self.ledger.idle, self.round.cluster.gpu_types), default=0):
            return False
        found = room(self.others, self.round, i, self.type_blind)
        if found is None and self.kept is not None and self.round.columns.remaining_s[i] <= self.kept.after_s:
            found = room(self.ledger, self.round, i, self.type_blind)
        if found is None:
            return False
        self.ledger.take(id, found)
        if self.others is not self.ledger:
            taken = {share.node_id for share in self.kept.place.shares} if self.kept is not None else set()
            if rest := tuple(share for share in found.shares if share.node_id not in taken):
                self.others.take(id, Placement(found.gpu_type, rest))
        return True

    def keep(self, i: int) -> None:
        """Keep the soonest place for the job at a position, if the cluster has one."""
        job, gpus, columns = self.round.jobs[i], int(self.round.columns.gpus[i]), self.round.columns
        cluster = self.round.cluster
        types = types_with_room(cluster, gpus, Demand.of(job.spec)).intersection(
            types_for(job.spec, gpus, cluster)
        )
        left_s = dict(
            zip(columns.ids.tolist(), np.nan_to_num(columns.remaining_s, nan=math.inf).tolist(), strict=True)
        )
        self.kept = soonest_place(gpus, sorted(types), cluster, self.ledger.held, left_s)
        if self.kept is None:
            return
        self.kept_for = i
        self.others = Ledger.of(cluster, self.ledger.held)
        idle = ((share.node_id, self.others.idle_on(share.node_id)) for share in self.kept.place.shares)
        if shares := tuple(NodeShare(node, count) for node, count in idle if count):
            self.others.take(_KEPT, Placement(self.kept.place.gpu_type, shares))


def backfilling(
    round: Round, order: np.ndarray, how: Backfill, patience_s: float | None, *, type_blind: bool = False
) -> Plan:
    """Preempt nothing; waiting jobs start in `order` (positions in the round), and may overtake as `how` says.

    Args:
        patience_s: the job that has waited longest, if longer than this, comes first; None: the order holds.
    """
    if round.sharing is not None:  # guarantees take the part of the place that is kept
        overtakes = how is Backfill.FILL
        return starting(round, round.sharing, order, type_blind=type_blind, overtakes=overtakes)
    columns = round.columns
    ledger = ledger_of(round, np.flatnonzero(columns.held > 0))
    waiting = [i for i in order.tolist() if not (columns.held[i] and columns.ids[i] in ledger.held)]
    first = _impatient(round, waiting, patience_s)
    if first is not None:
        waiting.remove(first)
        waiting.insert(0, first)
    service = _Service(round, type_blind, ledger, ledger)
    for i in waiting:
        if not service.start(i) and how is Backfill.RESERVE and service.kept is None:
            service.keep(i)
    tried = np.isin(np.arange(len(order)), list(service.tried))
    placements = dict(ledger.held)
    reasons = _Reasons(QueueReasons(round, placements, order, tried, len(round.cluster.gpu_types) > 1), service)
    return Plan(placements, decisions=decisions_of(round, placements, reasons.why), order=order)


def _impatient(round: Round, waiting: list[int], patience_s: float | None) -> int | None:
    """Return the position of the job that has waited longest, if longer than its patience."""
    if patience_s is None or not waiting:
        return None
    submitted_s = round.columns.submitted_s
    oldest = min(waiting, key=lambda i: (submitted_s[i], i))
    return oldest if round.now - submitted_s[oldest] > patience_s else None


@dataclass(frozen=True)
class _Reasons:
    """Tells why jobs wait, where a place is kept; it reads nothing that a later round changes."""

    queue: QueueReasons
    service: _Service

    def why(self, i: int) -> Waiting | Refused:
        kept, round = self.service.kept, self.queue.round
        if kept is None:
            return self.queue.why(i)
        if i == self.service.kept_for:
            where = ", ".join(sorted(share.node_id[:12] for share in kept.place.shares))
            when = "" if math.isinf(kept.after_s) else f", in about {_time(kept.after_s)} as expected"
            gpus = n_gpus(int(round.columns.gpus[i]))
            return Waiting(
                WaitReason.KEPT_BY_OTHERS, f"{gpus} on {where} are kept for it until they are free{when}."
            )
        if room(self.service.ledger, round, i, self.service.type_blind) is not None:
            first = round.columns.ids[self.service.kept_for]
            detail = f"A place is kept for job {first}, and this job is not expected to end before it is free."
            return Waiting(WaitReason.PLACE_KEPT, detail)
        return self.queue.why(i)


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 7200 else f"{max(seconds / 60, 1):.0f} min"
