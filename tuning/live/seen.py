"""What a study sees of its groups: from rows of jobs, what they have told, and the cluster's idle GPUs. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ...core.decisions import WaitReason
from ...core.phase import Phase
from ..actions import UNMEASURED, GroupState, Seen, SeenGroup
from ..planner import UNBOUNDED, EpochTime, GroupMemory, Kind, kind_of
from ..state import Group, StudyState
from ..study_file import StudyFile
from .epoch_clock import EpochClock
from .store import Known

RESTART_S = 10.0  # that a group's start takes, where none was seen
_FOR_GPUS = {
    WaitReason.NO_ROOM,
    WaitReason.FRAGMENTED,
    WaitReason.NO_CPUS_OR_MEMORY,
    WaitReason.BEHIND_OTHERS,
    WaitReason.OUTBID,
    WaitReason.KEPT_BY_OTHERS,
}
_STATES = {
    Phase.SUBMITTED: GroupState.WAITING,
    Phase.PROFILING: GroupState.WAITING,
    Phase.QUEUED: GroupState.WAITING,
    Phase.RUNNING: GroupState.RUNNING,
    Phase.SUCCEEDED: GroupState.ENDED,
    Phase.FAILED: GroupState.FAILED,
    Phase.CANCELLED: GroupState.CANCELLED,
}


def seen(
    study: StudyFile,
    state: StudyState,
    known: Known,
    rows: Mapping[str, Mapping[str, Any]],
    idle: Mapping[str, int],
    now_s: float,
    emulated: bool = False,
    clock: EpochClock | None = None,
    others: bool = False,
) -> Seen:
    """Return what a decision goes by.

    Args:
        known: what groups have told.
        rows: job -> its row, as the client lists it; a job that was removed is absent, and counts as ended.
        idle: GPUs by type that nobody uses.
        clock: knows how long epochs of groups take, as far as that is known.
        others: whether jobs of others wait for GPUs.
        emulated: whether all GPUs are, which have the memory of a machine; else nobody has measured it.
    """
    metrics = _metrics(study, known)
    groups = {
        group: _group(study, state.groups[group], rows.get(job), known, group, metrics, clock)
        for group, job in known.jobs.items()
        if group in state.groups
    }
    return Seen(
        now_s=now_s,
        idle=dict(idle),
        groups=groups,
        memory=_memory(study, state, known),
        unmeasured=UNBOUNDED if emulated else UNMEASURED,
        times=_times(study, state, known),
        restart_s=RESTART_S,
        others_wait=others,
    )


def all_emulated(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether no node has a real GPU."""
    return all(node["emulated"] for node in nodes)


def idle_gpus(nodes: Iterable[Mapping[str, Any]], pool: str | None, types: Sequence[str] | None) -> dict[str, int]:
    """Return the GPUs by type that nobody uses, of a pool and of the types that the study's jobs may use."""
    found: dict[str, int] = {}
    for node in nodes:
        wanted = types is None or node["gpu_type"] in types
        if wanted and node["pool"] == (pool or "") and not node["closed"]:
            found[node["gpu_type"]] = found.get(node["gpu_type"], 0) + node["free_gpus"]
    return found


def others_wait(queued: Iterable[Mapping[str, Any]], own: Iterable[str]) -> bool:
    """Return whether a queued job is none of the study's own, and waits for GPUs that it may have."""
    mine = set(own)
    return any(row["id"] not in mine and row["wait_reason"] in _FOR_GPUS for row in queued)


def _metrics(study: StudyFile, known: Known) -> dict[int, dict[int, float]]:
    """Return the study's metric: run -> epoch -> value, of whichever group the run was in."""
    found: dict[int, dict[int, float]] = {}
    for of_group in known.metrics.values():
        for run, by_epoch in of_group.items():
            for epoch, by_name in by_epoch.items():
                if study.metric in by_name:
                    found.setdefault(run, {})[epoch] = by_name[study.metric]
    return found


def _group(
    study: StudyFile,
    group: Group,
    row: Mapping[str, Any] | None,
    known: Known,
    id: str,
    metrics: Mapping[int, Mapping[int, float]],
    clock: EpochClock | None,
) -> SeenGroup:
    phase = Phase.CANCELLED if row is None else Phase(row["phase"])
    told = known.metrics.get(id, {})
    names = {name for by_epoch in told.values() for by_name in by_epoch.values() for name in by_name}
    runs = set(group.first_runs) - known.left.get(id, set())
    if known.epochs.get(id):
        newest = known.epochs[id][-1][0]
        runs = {run for run in told if newest in told[run]} - known.left.get(id, set())
    own = {run: metrics.get(run, {}) for run in group.first_runs}
    if group.elastic and row is not None:
        own, names = _of_target(study, group, row, phase), set(row["metrics"])
    return SeenGroup(
        state=_STATES[phase],
        runs=tuple(sorted(runs)),
        metrics=own,
        gpu_s=known.gpu_s.get(id, 0.0),
        message="" if row is None or phase is not Phase.FAILED else row["reason"],
        reported=tuple(sorted(names)),
        weight=None if row is None or "weight" not in row else row["weight"],
        epoch_s=None if clock is None else clock.of(id),
    )


def _of_target(
    study: StudyFile, group: Group, row: Mapping[str, Any], phase: Phase
) -> dict[int, Mapping[int, float]]:
    """Return the metric of a target, which trains as any other job does: the last one, with its epoch."""
    value = row["metrics"].get(study.metric)
    if value is None:
        return {}
    place = row["measured_at"].get(study.metric)
    epoch = (
        study.epochs if phase is Phase.SUCCEEDED else min(int(place["epoch"]) if place else 0, study.epochs - 1)
    )
    return {group.first_runs[0]: {epoch: float(value)}} if epoch > 0 else {}


def _times(study: StudyFile, state: StudyState, known: Known) -> dict[tuple[Kind, int], EpochTime]:
    """Return the seconds of epochs by kind and width, as a line over the number of trials, from all groups."""
    points: dict[tuple[Kind, int], list[tuple[int, float]]] = {}
    for id in state.groups:
        epochs, place = known.epochs.get(id, []), _place(study, state, id)
        if place is None:
            continue
        for (before, began_s, trials), (after, ended_s, _) in pairwise(epochs):
            if after == before + 1:
                points.setdefault(place, []).append((trials, ended_s - began_s))
    # Of groups of one size nobody knows how much of an epoch is each trial's.
    return {key: _line(found) for key, found in points.items() if len({n for n, _ in found}) > 1}


def _memory(study: StudyFile, state: StudyState, known: Known) -> dict[tuple[Kind, int], GroupMemory]:
    """Return what groups of each kind and width take, by the smallest and the largest that was measured.

    Where only one size was, all of its memory counts as its trials', which is more than they take.
    """
    points: dict[tuple[Kind, int], dict[int, tuple[float, float]]] = {}
    for id, measured in known.memory.items():
        if (key := _place(study, state, id)) is not None:
            points.setdefault(key, {}).update(measured)
    found = {}
    for key, sizes in points.items():
        least, most, gpu_gib = min(sizes), max(sizes), min(gpu for _, gpu in sizes.values())
        each = sizes[most][0] / most
        if least < most:
            each = max(sizes[most][0] - sizes[least][0], 0.0) / (most - least)
        one = sizes[most][0] - each * (most - 1)
        found[key] = GroupMemory(one, one + each, gpu_gib)
    return found


def _place(study: StudyFile, state: StudyState, group: str) -> tuple[Kind, int] | None:
    """Return the kind and the width of a group's trials; None: the study knows no such group."""
    if (own := state.groups.get(group)) is None or not own.first_runs:
        return None
    run = state.runs[own.first_runs[0]]
    return kind_of(state.trials[run.trial], study.cannot_fuse()), own.shrink


def _line(points: Sequence[tuple[int, float]]) -> EpochTime:
    """Return the line of seconds over trials, of at least two numbers, that is nearest; no part is below 0."""
    count, mean_n = len(points), math.fsum(n for n, _ in points) / len(points)
    mean_s = math.fsum(seconds for _, seconds in points) / count
    spread = math.fsum((n - mean_n) ** 2 for n, _ in points)
    slope = math.fsum((n - mean_n) * (seconds - mean_s) for n, seconds in points) / spread
    slope = min(max(slope, 0.0), mean_s / mean_n)
    return EpochTime(mean_s - slope * mean_n, slope)
