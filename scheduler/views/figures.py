"""Collects what the scheduler tells those who watch it. It costs one look at each active job."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
import ray
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from ...core.figures import GPU_STATES, DeliveryFigures, Figures, Tallied, of_types
from ...core.settings import Settings
from ..care.backups import Backups
from ..changes.status import Status, status_of
from ..jobs.record import JobRecord
from ..nodes.node_view import NodesSnapshot
from ..nodes.scaling import NodeFigures
from ..runtime.clock import Clock
from ..runtime.degraded import StoreWatch
from ..runtime.loop import Health
from ..store.store import Store

ENDED = {Status.SUCCEEDED, Status.FAILED, Status.CANCELLED}


def collected(
    *,
    store: Store,
    settings: Settings,
    clock: Clock,
    watch: StoreWatch,
    health: Health,
    nodes: NodesSnapshot,
    jobs: Iterable[JobRecord],
    since: Tallied,
    backups: Backups,
    bought: NodeFigures,
    ready: bool,
    round_age_s: float | None,
    deliveries: DeliveryFigures,
) -> Figures:
    """Return the figures now. `jobs`: those that are not retired; `since`: what was counted."""
    jobs, now_s = tuple(jobs), clock.steady_s()
    active = [job for job in jobs if job.active]
    statuses = Counter({status.value: 0 for status in Status if status not in ENDED})
    statuses.update(status_of(job).value for job in active)
    waits = [now_s - job.state.submitted_s for job in active if job.state.started_s is None and not job.paused]
    process, disk = psutil.Process(), shutil.disk_usage(_existing(Path(settings.state_dir)))
    cpu = process.cpu_times()
    return Figures(
        version=_version(),
        ray=ray.__version__,
        policy=settings.policy,
        started_s=process.create_time(),
        cpu_s=cpu.user + cpu.system,
        resident_bytes=process.memory_info().rss,
        open_files=process.num_fds(),
        ready=ready,
        tick_age_s=health.tick_age_s,
        tick_failing=bool(health.trouble),
        round_age_s=round_age_s,
        round_interval_s=settings.round_interval_s,
        degraded=watch.degraded is not None,
        degraded_since_s=None if watch.degraded is None else watch.degraded.since_s,
        store_write_s=watch.last_write_s,
        store_bytes=_store_bytes(store, settings),
        disk_free_bytes=disk.free,
        disk_bytes=disk.total,
        backup_age_s=backups.age_s(),
        backup_interval_s=settings.backup_hours * 3600.0,
        backup_failing=bool(backups.trouble),
        last_event=store.last_event,
        jobs=dict(statuses),
        quarantined=sum(bool(job.quarantine) for job in active),
        oldest_wait_s=max(waits, default=0.0),
        gpus=_gpus(nodes, jobs),
        nodes=bought.nodes,
        nodes_cost_per_h=bought.nodes_cost_per_h,
        nodes_budget_per_h=bought.nodes_budget_per_h,
        nodes_spent=bought.nodes_spent,
        nodes_asked=bought.nodes_asked,
        nodes_unmet=bought.nodes_unmet,
        since=since,
        deliveries=deliveries,
    )


def _gpus(nodes: NodesSnapshot, jobs: Iterable[JobRecord]) -> dict[str, dict[str, int]]:
    """Return how many GPUs of each type are in each state. A GPU that jobs share is one."""
    taken: dict[str, set[int]] = {}
    for job in jobs:
        for slot in job.occupied:
            taken.setdefault(slot.node_id, set()).update(slot.devices)
    found: dict[str, Counter[str]] = {state: Counter() for state in GPU_STATES}
    for node in nodes.cluster.nodes:
        held = min(len(taken.get(node.id, ())), node.gpus)
        found["held"][node.gpu_type] += held
        found["free"][node.gpu_type] += node.gpus - held
    for node in nodes.closed_nodes:
        found["draining"][node.gpu_type] += node.gpus
    for one in (one for one in nodes.asleep if not one.bought):
        found["asleep"][one.node.gpu_type] += one.node.gpus
    types = sorted({gpu_type for by_type in found.values() for gpu_type in by_type})
    every = {state: of_types({gpu_type: found[state][gpu_type] for gpu_type in types}) for state in GPU_STATES}
    return {told: {state: int(every[state][told]) for state in GPU_STATES} for told in every["free"]}


def _store_bytes(store: Store, settings: Settings) -> int | None:
    if settings.store_url is None:
        path = settings.store_path
        return sum(_size(path.with_name(f"{path.name}{suffix}")) for suffix in ("", "-wal"))
    with suppress(SQLAlchemyError), store.database.reading() as connection:
        return int(connection.scalar(text("select pg_database_size(current_database())")) or 0)
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _existing(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.exists())


@cache
def _version() -> str:
    try:
        return version("coadapt")
    except PackageNotFoundError:  # a checkout that was not installed
        return "unknown"
