"""From a plan to slots, and from slots to the actions that may be sent now.

The launcher and `slots_of` are called here only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..core.job import Phase
from ..core.slot import Slot
from ..policies.contract.round import Plan
from .launcher import Assign, ForceOut, Holding, less_given_up, slots_of, step
from .nodes import NodesSnapshot
from .profile_work import ProfileWork
from .record import JobRecord, ProfileRun
from .snapshot import MEASURED_IN, START_S, Snapshot, waits_for_other_types

SAVE_S = 120.0  # beyond its longest step a job may take so long to leave its slots; START_S more if it moves


@dataclass(frozen=True)
class StartProfile:
    """Measure a job in a slot."""

    work: ProfileWork
    slot: Slot


CycleAction = Assign | ForceOut | StartProfile


@dataclass(frozen=True)
class Wanted:
    """The slots of the last plan, by the id of their view; `work` says which are profile runs."""

    slots: dict[str, tuple[Slot, ...]]
    work: Mapping[str, ProfileWork]


class SlotPlanner:
    """Realises placements as slots; what it found for the same nodes, placement and holdings stays found."""

    def __init__(self) -> None:
        self._nodes = NodesSnapshot()
        self._found: dict[str, tuple[tuple[object, ...], tuple[Slot, ...]]] = {}

    def plan(
        self,
        snapshot: Snapshot,
        plan: Plan,
        nodes: NodesSnapshot,
        find: Callable[[str], JobRecord | None],
        failed: Callable[[str, ValueError], None],
    ) -> Wanted:
        """Return the plan as slots; a placement that cannot be realised is told to `failed` and left out."""
        wanted: dict[str, tuple[Slot, ...]] = {}
        same_nodes = (nodes.cluster, nodes.leases) == (self._nodes.cluster, self._nodes.leases)
        known, found = self._found if same_nodes else {}, dict[str, tuple[tuple[object, ...], tuple[Slot, ...]]]()
        specs = {view.id: view.spec for view in snapshot.round.jobs}
        for view_id, placement in plan.placements.items():
            work = snapshot.work.get(view_id)
            job = find(work.job_id if work is not None else view_id)
            if job is None or not job.active:
                continue
            key = (placement, job.held, job.profiles, job.spec)
            if (before := known.get(view_id)) is not None and before[0] == key:
                found[view_id] = before
            else:
                run = job.profile(work.gpu_type) if work is not None else None
                mine = job.held if work is None else () if run is None or run.slot is None else (run.slot,)
                others = set(job.occupied) - set(mine)
                try:
                    slots = slots_of(placement, specs[view_id], nodes.cluster, nodes.leases, mine, others)
                except ValueError as error:
                    failed(job.id, error)
                    continue
                # The same object where nothing changes: comparing it costs nothing from then on.
                found[view_id] = key, job.target if work is None and slots == job.target else slots
            wanted[view_id] = found[view_id][1]
        self._nodes, self._found = nodes, found
        return Wanted(wanted, snapshot.work)


def actions(
    jobs: Iterable[JobRecord], wanted: Wanted | None, nodes: NodesSnapshot, release_timeout_s: float, now: float
) -> list[CycleAction]:
    """Return what may be sent now, in order; the rest follows when slots are released.

    `wanted` None: no round has been planned yet, and every job keeps what it was given.
    """
    planned = wanted.slots if wanted is not None else {}
    holdings: dict[str, Holding] = {}
    shall: dict[str, tuple[Slot, ...]] = {}
    runs: list[tuple[JobRecord, ProfileRun]] = []
    by_id: dict[str, JobRecord] = {}
    settled: list[JobRecord] = []  # they neither move nor leave anything: only their GPUs count
    for job in jobs:
        by_id[job.id] = job
        if job.measured_in:
            runs += [(job, run) for run in job.profiles if run.slot is not None]
        if not (job.active or job.held):
            continue
        kept = not job.active or job.phase is Phase.PROFILING or wanted is None
        slots = job.target if kept else planned.get(job.id, ())
        if slots == job.target == job.held:
            settled.append(job)
        else:
            holdings[job.id], shall[job.id] = _holding(job), slots
    starts: dict[str, ProfileWork] = {}
    for view_id, work in (wanted.work if wanted is not None else {}).items():
        if view_id in planned and _startable(by_id.get(work.job_id), work, nodes):
            holdings[view_id], shall[view_id], starts[view_id] = Holding(), planned[view_id], work
    for job, run in runs:
        if run.slot is not None:
            view_id = ProfileWork(job.id, run.gpu_type).id
            shall[view_id] = (run.slot,) if run.active else ()
            holdings[view_id] = Holding(frozenset(shall[view_id]), frozenset({run.slot}))
    if not holdings:
        return []
    capacity = {node.id: node.gpus for node in nodes.cluster.nodes}
    for job in settled:
        for slot in job.held:
            capacity[slot.node_id] = capacity.get(slot.node_id, 0) - slot.gpus
    sent: list[CycleAction] = []
    for action in step(shall, holdings, capacity, now, release_timeout_s):
        if action.job_id in by_id:
            sent.append(action)
        elif action.job_id in starts and action.slots:
            sent.append(StartProfile(starts[action.job_id], action.slots[0]))
    return sent


def _startable(job: JobRecord | None, work: ProfileWork, nodes: NodesSnapshot) -> bool:
    """Return whether a planned run may still start: it may have failed since the last round."""
    if job is None or job.phase not in MEASURED_IN:
        return False
    run = job.profile(work.gpu_type)
    return run is not None and run.startable and not waits_for_other_types(job, run, nodes.cluster.gpu_types)


def _holding(job: JobRecord) -> Holding:
    # A job leaves at the end of a step, and for new slots only when its processes there are ready.
    patience_s = job.spec.training.hang_timeout_s + SAVE_S
    if job.moving_since_s is not None:
        patience_s += START_S
    return Holding(
        frozenset(job.target),
        frozenset(job.held),
        job.pending_since_s,
        shrinks=job.spec.resources.gpus is None,
        patience_s=patience_s,
    )


def without_given_up(wanted: Wanted, job_id: str, before: JobRecord, after: JobRecord) -> None:
    """Take out of the plan what a job's executor gave up: only a new round tries that again."""
    if job_id in wanted.slots:
        wanted.slots[job_id] = less_given_up(wanted.slots[job_id], before.target, after.target)
