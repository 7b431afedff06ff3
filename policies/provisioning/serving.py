"""Which jobs of a fixed size run, by the policy's order and their GPUs alone, and on GPUs of which type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ...core.placement import Placement
from ..contract.round import Round
from ..placing.ledger import exists, is_pinned
from ..placing.speeds import startable_on, types_for


@dataclass(frozen=True)
class Served:
    """A job that is to run: its position in the round, its GPU type, and whether it stays where it is."""

    at: int
    gpu_type: str
    stays: bool = False
    held: Placement | None = None  # what it runs on now, if all of that is still there


def running_on(round: Round, at: int) -> Placement | None:
    """Return what a job holds, if all of it is still there."""
    placement: Placement | None = round.columns.placements[at]
    if placement is None or not placement.shares or not exists(placement, round.cluster):
        return None
    return placement


def types_of(round: Round, at: int, type_blind: bool) -> Mapping[str, float]:
    """Return the GPU types on which a job may run, fastest first, with its progress per second on each."""
    job, gpus, cluster = round.jobs[at], int(round.columns.gpus[at]), round.cluster
    if len(cluster.gpu_types) == 1 or (job.rates is None and job.model is None):
        return dict.fromkeys(types_for(job.spec, gpus, cluster), 1.0)
    speed = startable_on(job, gpus, cluster, type_blind=type_blind)
    return dict(sorted(speed.items(), key=lambda one: (-one[1], one[0])))


def admitted(round: Round, order: np.ndarray, *, type_blind: bool) -> tuple[list[Served], np.ndarray]:
    """Return the jobs that run if running ones may be stopped, in order, and a mask (jobs,) of those looked at.

    A job is passed over only if fewer GPUs are left than it asks for. It keeps its GPU type where that has enough
    left, and else gets the fastest that has. Jobs that may not be stopped come first.
    """
    columns, left = round.columns, dict(round.cluster.capacity())
    found: list[Served] = []
    tried = np.zeros(len(columns.gpus), bool)
    could_stay = np.flatnonzero((columns.held > 0) & ~columns.preemptible)
    pinned = {int(at) for at in could_stay if is_pinned(round.jobs[int(at)], round.cluster)}
    for at in sorted(pinned):
        gpu_type = columns.placements[at].gpu_type
        found.append(Served(at, gpu_type, True, columns.placements[at]))
        left[gpu_type] -= int(columns.held[at])
        tried[at] = True
    gpus, idle = columns.gpus.tolist(), max(left.values(), default=0)
    for at in order.tolist():
        if not idle:
            break
        if gpus[at] > idle or at in pinned:
            continue
        held = running_on(round, at)
        could = types_of(round, at, type_blind)
        types = [held.gpu_type, *could] if held is not None and held.gpu_type in could else list(could)
        gpu_type = next((t for t in types if left[t] >= gpus[at]), None)
        tried[at] = True
        if gpu_type is not None:
            found.append(Served(at, gpu_type, held=held))
            left[gpu_type] -= gpus[at]
            idle = max(left.values())
    return found, tried


def started(round: Round, order: np.ndarray, *, type_blind: bool) -> tuple[list[Served], np.ndarray]:
    """Return as `admitted` does for jobs of which none is stopped and none overtakes one that could run."""
    columns, left = round.columns, dict(round.cluster.capacity())
    tried = np.zeros(len(columns.gpus), bool)
    found: list[Served] = []
    for at in np.flatnonzero(columns.held > 0).tolist():
        if (placement := running_on(round, at)) is not None:
            found.append(Served(at, placement.gpu_type, True, placement))
            left[placement.gpu_type] -= placement.gpus
    running = {one.at for one in found}
    capacity = round.cluster.capacity()
    for node in round.asleep:
        capacity[node.gpu_type] = capacity.get(node.gpu_type, 0) + node.gpus
    for at in order.tolist():
        if at in running:
            continue
        gpus = int(columns.gpus[at])
        tried[at] = True
        types = types_of(round, at, type_blind)
        gpu_type = next((t for t in types if left[t] >= gpus), None)
        if gpu_type is not None:
            found.append(Served(at, gpu_type))
            left[gpu_type] -= gpus
        elif any(capacity.get(t, 0) >= gpus for t in types):
            break
    return found, tried


def asking(round: Round, order: np.ndarray, *, preempts: bool) -> Iterable[int]:
    """Yield the positions of all jobs, those that stay where they are first, for who chooses whom it serves."""
    columns = round.columns
    stays = (columns.held > 0) & (~columns.preemptible if preempts else True)
    yield from np.flatnonzero(stays).tolist()
    yield from (int(at) for at in order if not stays[at])
