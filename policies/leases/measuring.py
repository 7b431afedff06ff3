"""Jobs that are measured as they train: on how few GPUs, and on which nodes, if some are kept for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ...core.cluster import Cluster
from ...core.placement import Placement
from ..choosing.decided import QueueReasons, decisions_of
from ..contract.round import JobColumns, JobView, Plan, Round, objects
from .serving import Serving

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
MOST_GPUS = 2  # on which a job is measured


class SomeJobs(Sequence[JobView]):
    """Some jobs of a round, by position, with columns of their own."""

    def __init__(self, jobs: Sequence[JobView], at: Ints, columns: JobColumns) -> None:
        self._jobs, self._at, self.columns = jobs, at, columns

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, index: int) -> JobView: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[JobView]: ...
    def __getitem__(self, index: int | slice) -> JobView | Sequence[JobView]:
        if isinstance(index, slice):
            return [self._jobs[i] for i in self._at[index].tolist()]
        return self._jobs[int(self._at[index])]


def measured_on_fewer(round: Round) -> Mask:
    """Return (jobs,) whether each is measured on fewer GPUs than it may ask for."""
    found = np.zeros(len(round.jobs), bool)
    for i in np.flatnonzero(np.isnan(round.columns.remaining_s)).tolist():
        found[i] = round.jobs[i].measured_on > 0
    return found


def resized(round: Round, measured: Mask, *, at_once: bool) -> Round:
    """Return the round in which measured jobs ask for the GPUs on which they are measured now.

    A job that holds fewer than it asks for, as it was measured on them, counts as waiting.

    Args:
        at_once: whether they are measured on two GPUs at once, rather than on one first.
    """
    columns = round.columns
    gpus = columns.gpus.copy()
    for i in np.flatnonzero(measured).tolist():
        gpus[i] = min(int(gpus[i]), MOST_GPUS) if at_once else round.jobs[i].measured_on
    goes_on = (columns.held > 0) & (columns.held < gpus) & columns.preemptible
    if not (goes_on.any() or measured.any()):
        return round
    placements = objects(columns.placements.tolist())
    placements[goes_on] = None
    changed = replace(columns, gpus=gpus, held=np.where(goes_on, 0, columns.held), placements=placements)
    return replace(round, jobs=SomeJobs(round.jobs, np.arange(len(gpus)), changed))


@lru_cache(maxsize=4)
def kept_apart(cluster: Cluster, nodes: int) -> tuple[Cluster, Cluster]:
    """Return the nodes of a cluster without the first ones, and those, which are kept for measuring."""
    count = min(nodes, max(len(cluster.nodes) - 1, 0))
    return Cluster(cluster.nodes[count:], cluster.pool), Cluster(cluster.nodes[:count], cluster.pool)


def measured_apart(round: Round, measured: Mask) -> Mapping[str, Placement]:
    """Return who is measured where on the nodes of a round: first come, first served."""
    at = np.flatnonzero(measured)
    order = at[np.argsort(round.columns.submitted_s[at], kind="stable")].tolist()
    serving = Serving(round)
    serving.start(serving.keep(order))
    return dict(serving.ledger.held)


def without(round: Round, cluster: Cluster, left_out: Mask) -> Round:
    """Return the round of other nodes and without some jobs."""
    at, columns = np.flatnonzero(~left_out), round.columns
    kept: dict[str, Any] = {f.name: getattr(columns, f.name) for f in fields(columns)}
    kept = {name: one[at] if isinstance(one, np.ndarray) else one for name, one in kept.items()}
    columns = JobColumns(**kept)
    return replace(round, cluster=cluster, jobs=SomeJobs(round.jobs, at, columns))


def joined(round: Round, plan: Plan, left_out: Mask, apart: Mapping[str, Placement]) -> Plan:
    """Return the plan of a round from one without some jobs and from what these have."""
    at, others = np.flatnonzero(~left_out), np.flatnonzero(left_out)
    figures = dict[str, np.ndarray]()
    for name, column in plan.figures.items():
        figures[name] = np.full(len(left_out), np.nan)
        figures[name][at] = column
    placements = {**plan.placements, **apart}
    order = np.concatenate([others, at if plan.order is None else at[plan.order]])
    reasons = QueueReasons(round, placements, order, ~left_out, len(round.cluster.gpu_types) > 1)
    decisions = decisions_of(round, placements, reasons.why)
    return replace(plan, placements=placements, order=order, figures=figures, decisions=decisions)
