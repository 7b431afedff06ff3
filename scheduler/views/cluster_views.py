"""The cluster, its nodes and the health of the service, as users are shown them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from ...core.cluster import Node
from ...core.cores import cores_of, listed
from ...core.resources import Resources
from ...core.schemas import (
    ClusterView,
    DeviceRow,
    HealthView,
    MachineRow,
    NodeRow,
    PhaseRow,
    ScalingView,
)
from ...core.settings import Settings
from ...core.slot import Slot
from ...policies.contract.round import Plan
from ...policies.warm_up import COMPILING
from ..jobs.record import JobRecord
from ..nodes.closures import Closed
from ..nodes.node_view import NodesSnapshot
from ..runtime.loop import Health
from ..store.events import Event
from .event_views import job_event


def cluster_view(
    snapshot: NodesSnapshot,
    jobs: Sequence[JobRecord],
    settings: Settings,
    rounds: int,
    plan: Plan | None,
    *,
    compiling: bool = False,
    unplanned: str | None = None,
    events: Iterable[Event] = (),
    phases: Mapping[str, PhaseRow] | None = None,
    asleep: Sequence[MachineRow] = (),
    saved_kwh: float | None = None,
    scaling: ScalingView | None = None,
    power_notes: Iterable[str] = (),
    health: HealthView | None = None,
    ahead_s: float = 0.0,
    may_read: Callable[[str], bool] | None = None,
) -> ClusterView:
    """Return what `coadapt cluster` shows: every usable node with what runs on it.

    compiling: whether the first round waits for its kernels.
    unplanned: why the last round has no plan; None: it has one.
    events: the newest that are of no job, oldest first.
    phases: how long each phase of the last rounds took; None before the first.
    asleep: machines whose nodes are not there, with what is done to them.
    saved_kwh: by these.
    scaling: nodes that are bought and given up; None: none are.
    power_notes: sentences on them, and on those that could be off.
    health: how the service is.
    ahead_s: by how much the machine's clock is ahead of the steady one.
    may_read: whether notes on a job are told, by its id; None: those on all are.
    """
    held: dict[str, list[tuple[str, Slot]]] = {}
    cores: dict[str, dict[str, tuple[str, str]]] = {}
    for job in jobs:
        for slot in job.occupied:
            held.setdefault(slot.node_id, []).append((job.id, slot))
            if slot.node_id in job.cores:
                cores.setdefault(slot.node_id, {})[job.id] = job.cores[slot.node_id]
    here = sorted((*snapshot.cluster.nodes, *snapshot.closed_nodes))
    nodes = [
        node_row(node, held.get(node.id, ()), snapshot.closed.get(node.id), ahead_s, cores.get(node.id, {}))
        for node in here
    ]
    notes = list(health["notes"]) if health else []
    on_jobs = plan.notes if plan else ()
    notes += [note.text for note in on_jobs if note.job is None or may_read is None or may_read(note.job)]
    if compiling:
        notes.append(f"{COMPILING}; the first round waits for it")
    if unplanned is not None:
        notes.append(f"{unplanned}; jobs keep what they have")
    notes += [
        f"{found.machine} takes no new work: {found.told(ahead_s)}"
        for id, found in sorted(snapshot.closed.items())
        if id in snapshot.alive
    ]
    notes += power_notes
    return ClusterView(
        nodes=nodes,
        asleep=list(asleep),
        saved_kwh=saved_kwh,
        scaling=scaling,
        policy=settings.policy,
        round_interval_s=settings.round_interval_s,
        rounds=rounds,
        phases=dict(phases or {}),
        prices=dict(plan.prices) if plan else {},
        solver_s=plan.solver_s if plan else None,
        gap=plan.gap if plan and plan.placements and math.isfinite(plan.gap) else None,
        notes=notes,
        events=[job_event(event) for event in events],
    )


def health_view(health: Health, notes: Sequence[str], round_age_s: float | None) -> HealthView:
    """Return how the service is. `notes`: on its store."""
    trouble = [f"the last tick failed and is tried again: {health.trouble}"] if health.trouble else []
    return HealthView(
        tick_age_s=round(health.tick_age_s, 3),
        round_age_s=None if round_age_s is None else round(round_age_s, 3),
        degraded_since_s=None if health.degraded is None else health.degraded.since_s,
        degraded=None if health.degraded is None else health.degraded.reason,
        trouble=health.trouble,
        notes=[*notes, *trouble],
    )


def node_row(
    node: Node,
    held: Iterable[tuple[str, Slot]],
    closed: Closed | None = None,
    ahead_s: float = 0.0,
    cores: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> NodeRow:
    """Return a node with what is free of it and who holds the rest.

    Args:
        held: its slots with their job ids.
        closed: why it takes no new work; None: it takes some.
        cores: of jobs there, by id: those that processes keep to, and those of the machine.
    """
    free, gpus = Resources.of_node(node), dict[str, int]()
    tenants: dict[int, dict[str, float]] = {device: {} for device in range(node.gpus)}
    for job_id, slot in held:
        free -= Resources.of_slot(slot)
        gpus[job_id] = gpus.get(job_id, 0) + slot.gpus
        for device in slot.devices:
            tenants.setdefault(device, {})[job_id] = slot.share
    return NodeRow(
        id=node.id,
        machine=node.machine_name,
        gpu_type=node.gpu_type,
        pool=node.pool,
        gpus=node.gpus,
        free_gpus=sum(not tenants[device] for device in range(node.gpus)),
        cpus=node.cpus,
        free_cpus=_stated(free.cpus),
        cores={job: own for job, (own, _) in sorted(cores.items())},
        free_cores=_free_cores(cores.values()),
        memory_gib=node.memory_gib,
        free_memory_gib=_stated(free.memory_gib),
        emulated=node.emulated,
        closed="" if closed is None else closed.told(ahead_s),
        leaves=closed is not None and closed.leaves,
        deadline_s=None if closed is None else closed.deadline_s,
        jobs=gpus,
        devices=[
            DeviceRow(index=device, free=max(free.devices.get(device, 0.0), 0.0), tenants=tenants[device])
            for device in range(node.gpus)
        ],
    )


def _free_cores(told: Iterable[tuple[str, str]]) -> str:
    """Return the cores of a machine that no job keeps to."""
    there, kept = set[int](), set[int]()
    for own, machine in told:
        there.update(cores_of(machine))
        kept.update(cores_of(own))
    return listed(there - kept)


def _stated(amount: float) -> float | None:
    """Return an amount rounded for people; None if the node does not state one."""
    return max(round(amount, 6), 0.0) if math.isfinite(amount) else None
