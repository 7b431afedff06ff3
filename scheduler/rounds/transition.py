"""Turns a plan into slots, and slots into the actions that may be sent now.

Nothing else calls the launcher or `slots_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ...core.cluster import Cluster
from ...core.placement import Placement
from ...core.resources import Resources
from ...core.slot import Slot
from ...core.teams import Teams
from ...policies.contract.round import Plan
from ...policies.placing.devices import name_devices
from ..changes.drain import stays
from ..changes.rest import leaves_node
from ..jobs.record import JobRecord, ProfileRun
from ..nodes.node_view import NodesSnapshot
from .launcher import Assign, ForceOut, Holding, less_given_up, same_amounts, slots_of, step
from .node_parts import alike, with_parts
from .profile_work import ProfileWork
from .snapshot import MEASURED_IN, START_S, TRAINED_IN, Snapshot, waits_for_other_types
from .spare_cpus import tried_next, with_spare
from .team_caps import TeamCaps

SAVE_S = 120.0  # time to leave slots beyond a job's longest step; START_S more if it moves


@dataclass(frozen=True)
class StartProfile:
    """Measure a job in a slot."""

    work: ProfileWork
    slot: Slot


CycleAction = Assign | ForceOut | StartProfile


@dataclass(frozen=True)
class Wanted:
    """The slots of the last plan by view id. `work` says which views are profile runs."""

    slots: dict[str, tuple[Slot, ...]]
    work: Mapping[str, ProfileWork]


def plan_slots(
    snapshot: Snapshot,
    plan: Plan,
    nodes: NodesSnapshot,
    jobs: Iterable[JobRecord],
    failed: Callable[[str, ValueError], None],
    tenants: int = 1,
    provisions: bool = False,
) -> Wanted:
    """Return the plan as slots. A placement that cannot be realised is told to `failed` and left out.

    Args:
        jobs: every job that is active or holds something.
        tenants: how many jobs may be on one GPU.
        provisions: whether the plan chooses CPUs and memory; else jobs get their GPUs' part.
    """
    by_id = {job.id: job for job in jobs}
    placements: dict[str, Placement] = {}
    # What stays where it is may be in no plan, and must not be told to leave when its nodes are open again.
    wanted = {job.id: job.target for job in by_id.values() if stays(job, nodes)} if nodes.closed else {}
    specs = {view.id: view.spec for view in snapshot.round.jobs}
    planned = plan.placements if provisions else with_parts(plan.placements, specs, nodes.cluster)
    tried = tried_next(snapshot.round.jobs, planned, nodes.cluster) if provisions else {}
    if tried or snapshot.work:
        chosen = {id for id, spec in specs.items() if spec.resources.cpus_per_gpu is None}
        planned = with_spare(planned, chosen, nodes.cluster, snapshot.work, tried)
    for view_id, placement in planned.items():
        work = snapshot.work.get(view_id)
        job = by_id.get(work.job_id if work is not None else view_id)
        if job is None or not job.active:
            continue
        placements[view_id] = placement
        if (
            work is None
            and view_id not in wanted
            and alike(placement, job.placement)
            and _leased(job.target, nodes)
        ):
            wanted[view_id] = job.target  # comparing the same object is cheap from here on
    if placements.keys() <= wanted.keys():
        return Wanted(wanted, snapshot.work)
    moving = [placement for view_id, placement in placements.items() if view_id not in wanted]
    touched = {share.node_id for placement in moving for share in placement.shares}
    near = {id: p for id, p in placements.items() if any(share.node_id in touched for share in p.shares)}
    held = {view_id: slots for job in by_id.values() for view_id, slots in _held(job, touched)}
    on = {view_id: _devices(slots) for view_id, slots in held.items()}
    names = name_devices(near, on, nodes.cluster, tenants)
    for view_id, sentence in names.refused.items():
        wanted.pop(view_id, None)
        failed(_job_id(view_id, snapshot), ValueError(sentence))
    for view_id, placement in names.placements.items():
        if view_id in wanted:
            continue
        current = held.get(view_id, ())
        try:
            slots = slots_of(placement, specs[view_id], nodes.cluster, nodes.leases, current)
        except ValueError as error:
            failed(_job_id(view_id, snapshot), error)
            continue
        if view_id in snapshot.work:
            slots = tuple(_with_part(slot, nodes.cluster) for slot in slots)
        target = by_id[view_id].target if view_id in by_id else ()
        wanted[view_id] = target if target and same_amounts(slots, target) else slots
    return Wanted(wanted, snapshot.work)


def _with_part(slot: Slot, cluster: Cluster) -> Slot:
    """Return a slot that tells its GPUs' part of the CPUs, beside the CPUs that it was given to measure with."""
    node = cluster.by_id[slot.node_id]
    return replace(slot, part_cpus=node.cpus * slot.gpus / node.gpus)


def _job_id(view_id: str, snapshot: Snapshot) -> str:
    work = snapshot.work.get(view_id)
    return view_id if work is None else work.job_id


def _leased(slots: Iterable[Slot], nodes: NodesSnapshot) -> bool:
    return all(nodes.leases.get(slot.node_id) == slot.lease_id for slot in slots)


def _held(job: JobRecord, nodes: Container[str]) -> Iterator[tuple[str, tuple[Slot, ...]]]:
    """Yield (view id, slots) of a job, if some are on these nodes, and of each of its profile runs.

    Slots that the job is to keep come first.
    """
    if any(slot.node_id in nodes for slot in job.held):
        yield job.id, tuple(dict.fromkeys((*job.target, *job.held)))
    for run in job.profiles if job.measured_in else ():
        if run.slot is not None:
            yield ProfileWork(job.id, run.gpu_type).id, (run.slot,)


def _devices(slots: Iterable[Slot]) -> dict[str, list[int]]:
    """Return the GPUs of slots by node, in the order of the slots."""
    found: dict[str, list[int]] = {}
    for slot in slots:
        found.setdefault(slot.node_id, []).extend(slot.devices)
    return found


def actions(
    jobs: Mapping[str, JobRecord],
    holding: Mapping[str, JobRecord],
    wanted: Wanted | None,
    nodes: NodesSnapshot,
    release_timeout_s: float,
    now: float,
    teams: Teams | None = None,
) -> list[CycleAction]:
    """Return what may be sent now, in order. The rest follows when slots are released.

    Args:
        jobs: every job that is active or holds something, by id.
        holding: those of them that have slots or shall have some; thousands more may wait.
        wanted: the last plan; None before the first round, when every job keeps what it was given.
        teams: whose caps hold at any moment, also while jobs move.
    """
    planned = wanted.slots if wanted is not None else {}
    holdings: dict[str, Holding] = {}
    shall: dict[str, tuple[Slot, ...]] = {}
    settled: list[tuple[JobRecord, tuple[Slot, ...]]] = []  # of jobs that neither move nor leave anything
    caps = TeamCaps(teams)
    runs: list[tuple[JobRecord, ProfileRun]] = []
    looked_at = {**holding, **{job_id: jobs[job_id] for job_id in planned if job_id in jobs}}
    for job in sorted(looked_at.values(), key=lambda job: job.number):
        runs += [(job, run) for run in job.profiles if run.slot is not None]
        if not (job.active or job.held):
            continue
        kept = job.paused or job.quarantine or leaves_node(job, nodes.left_by_executors) or wanted is None
        kept = kept or job.phase not in TRAINED_IN or stays(job, nodes)
        slots = job.target if kept else planned.get(job.id, ())
        if nodes.draining and any(slot.node_id in nodes.draining for slot in slots):
            slots = job.target  # planned before the node had to be left; the next round knows
        if job.target == job.held and (slots is job.target or same_amounts(slots, job.target)):
            settled.append((job, job.held))
        else:
            holdings[job.id], shall[job.id] = _holding(job, caps.of(job)), slots
    starts: dict[str, ProfileWork] = {}
    for view_id, work in (wanted.work if wanted is not None else {}).items():
        if view_id in planned and _startable(jobs.get(work.job_id), work, nodes):
            holdings[view_id], shall[view_id], starts[view_id] = Holding(), planned[view_id], work
    for job, run in runs:
        if run.slot is not None:
            view_id = ProfileWork(job.id, run.gpu_type).id
            shall[view_id] = (run.slot,) if run.active else ()
            holdings[view_id] = Holding(frozenset(shall[view_id]), frozenset({run.slot}))
    if not holdings:
        return []
    sent: list[CycleAction] = []
    room = _room(nodes, [*shall.values(), *(held.held for held in holdings.values())], settled)
    room |= caps.room({cap for held in holdings.values() for cap in held.caps.values()}, settled)
    for action in step(shall, holdings, room, now, release_timeout_s):
        if action.job_id in jobs:
            sent.append(action)
        elif action.job_id in starts and action.slots:
            sent.append(StartProfile(starts[action.job_id], action.slots[0]))
    return sent


def _room(
    nodes: NodesSnapshot,
    moving: Iterable[Iterable[Slot]],
    settled: Iterable[tuple[JobRecord, Iterable[Slot]]],
) -> dict[str, Resources]:
    """Return what settled jobs leave free on the nodes that other jobs are on or go to."""
    looked_at = {slot.node_id for slots in moving for slot in slots}
    room = {node.id: Resources.of_node(node) for node in nodes.cluster.nodes if node.id in looked_at}
    for _, slots in settled:
        for slot in slots:
            if slot.node_id in room:
                room[slot.node_id] -= Resources.of_slot(slot)
    return room


def _startable(job: JobRecord | None, work: ProfileWork, nodes: NodesSnapshot) -> bool:
    """Return whether a planned profile run may still start. It may have failed since the round."""
    if job is None or job.paused or job.phase not in MEASURED_IN or leaves_node(job, nodes.left_by_executors):
        return False
    run = job.profile(work.gpu_type)
    return run is not None and run.startable and not waits_for_other_types(job, run, nodes.cluster.gpu_types)


def _holding(job: JobRecord, caps: Mapping[str, str]) -> Holding:
    # A job leaves at the end of a step, and a command within its grace.
    # One that moves leaves only when its new processes are ready.
    patience_s = max(job.spec.training.hang_timeout_s, job.spec.grace_s) + SAVE_S
    if job.moving_since_s is not None:
        patience_s += START_S
    return Holding(
        frozenset(job.target),
        frozenset(job.held),
        job.pending_since_s,
        shrinks=job.spec.resources.gpus is None,
        patience_s=patience_s,
        caps=caps,
    )


def in_use(jobs: Mapping[str, JobRecord], wanted: Wanted | None) -> dict[str, str]:
    """Return what jobs have of each node, or are to have by the last plan; a node without a job is absent.

    Args:
        jobs: every job that is active or holds something, by id.
    """
    there = [(slot.node_id, job.id) for job in jobs.values() for slot in job.occupied]
    for view_id, slots in (wanted.slots if wanted is not None else {}).items():
        job_id = wanted.work[view_id].job_id if wanted is not None and view_id in wanted.work else view_id
        if job_id in jobs and jobs[job_id].active:
            there += [(slot.node_id, job_id) for slot in slots]
    return {node: f"{job_id} is there" for node, job_id in there}


def without_given_up(wanted: Wanted, job_id: str, before: JobRecord, after: JobRecord) -> None:
    """Take out of the plan what a job's executor has given up. Only a new round tries that again."""
    if job_id in wanted.slots:
        wanted.slots[job_id] = less_given_up(wanted.slots[job_id], before.target, after.target)
