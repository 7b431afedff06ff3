"""When a job that holds nothing gives up its executor, and where an executor cannot stay. Pure."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from ...core.doors import Door
from ...core.events import EventKind
from ...core.settings import Settings
from ..jobs.record import JobRecord, Stopped
from ..nodes.node_view import NodesSnapshot
from ..store.events import Event
from .commands import LeaveGpus, RetireExecutor
from .reactions import Reaction, claim


def with_rest(before: JobRecord, after: JobRecord, now: float) -> JobRecord:
    """Return the changed job with the moment from which on its executor holds nothing."""
    since_s = after.idle_since_s
    if not after.active or after.renews or after.life > before.life or after.occupied:
        since_s = None
    elif before.occupied:
        since_s = now
    return after if since_s == after.idle_since_s else replace(after, idle_since_s=since_s)


def may_have_executor(job: JobRecord) -> bool:
    """Return whether an executor of the job may exist: it holds something, has just held it, or ends.

    Of a job that is set aside nobody knows.
    """
    holds = bool(job.occupied) or job.idle_since_s is not None
    return holds or not job.active or job.renews or bool(job.quarantine)


def leaves_node(job: JobRecord, draining: Container[str]) -> bool:
    """Return whether a job has to stop for a moment, as its executor stands on a node that goes away."""
    return job.executor_node in draining and not job.renews and not runs_once(job)


def leave_node(job: JobRecord, nodes: NodesSnapshot, now: float) -> Reaction:
    """Have a job save and leave its GPUs where its executor's node goes away. It goes on with another executor."""
    if job.quarantine or not job.target or not leaves_node(job, nodes.left_by_executors):
        return Reaction(job)
    text = "is to save and leave its GPUs, as the node of its executor goes away"
    told = Event(EventKind.PLACED, now, job.id, {"text": text, "gpus": 0})
    return Reaction(claim(job, (), now, Stopped.DRAINED).job, (told,), commands=(LeaveGpus(),))


def rest(job: JobRecord, nodes: NodesSnapshot, settings: Settings, now: float) -> Reaction:
    """Retire the executor of a job that has held nothing for a while. A later one counts groups from 1 again."""
    if job.occupied or job.renews or job.quarantine:
        return Reaction(job)
    idle = job.idle_since_s is not None and now >= job.idle_since_s + settings.executor_idle_s
    leaves = leaves_node(job, nodes.left_by_executors)
    if not (idle or leaves):
        return Reaction(job)
    changed = replace(job, idle_since_s=None, executor_node="", generation=0)
    return Reaction(changed, round=leaves, commands=(RetireExecutor(),))


def runs_once(job: JobRecord) -> bool:
    """Return whether a job is a program that may not be started again."""
    return job.spec.door is Door.PLAIN and not job.spec.restartable
