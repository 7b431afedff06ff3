"""What a job does when a node that it is on takes no new work, or goes away at a deadline. Pure.

With a deadline it saves at once. It moves if that fits before the deadline, and else saves and leaves. A job that
has not moved in time leaves, too, early enough to save once more. Without a deadline it moves as at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...core.doors import Door
from ...core.events import EventKind
from ...core.settings import Settings
from ...core.wording import span
from ..jobs.record import JobRecord, LeaveNotice, Stopped
from ..nodes.closures import Closed
from ..nodes.node_view import NodesSnapshot
from ..store.events import Event
from .commands import Command, LeaveGpus, SaveNow
from .reactions import Reaction, claim
from .rest import runs_once
from .saved_work import saved

MARGIN_S = 8.0  # from when a job has left until its node goes
SAVING_S = 5.0  # what a checkpoint is taken to take before one was written
SAME_S = 2.0  # a deadline that moves by less is the same


def stays(job: JobRecord, nodes: NodesSnapshot) -> bool:
    """Return whether a job keeps just what it has, as its nodes take no new work and nothing makes it leave.

    A program that may not be started again stays on a node that goes away, too.
    """
    if not nodes.closed:
        return False
    on = {slot.node_id for slot in job.target} & nodes.closed.keys()
    return bool(on) and (not on & nodes.draining or runs_once(job))


def save_s(job: JobRecord) -> float:
    """Return how long a job is taken to need to save and to end."""
    if job.spec.door is not Door.NATIVE:
        return job.spec.grace_s
    return SAVING_S if job.saving_s is None else job.saving_s


def leave_by(job: JobRecord, deadline_s: float) -> float:
    """Return when a job has to be told to leave at the latest, so that it can save once more."""
    return deadline_s - MARGIN_S - save_s(job)


def moves_in_time(job: JobRecord, settings: Settings, left_s: float) -> bool:
    """Return whether a job can start elsewhere and save before its node goes in so many seconds."""
    start_s = settings.restart_cost_s if job.start_s is None else job.start_s
    return start_s + 2 * save_s(job) + MARGIN_S <= left_s


def depart(job: JobRecord, nodes: NodesSnapshot, settings: Settings, now: float) -> Reaction:
    """Have a job leave nodes that go away at a deadline, and tell what becomes of it."""
    notice, found = job.notice, _most_urgent(job, nodes) if nodes.closed else None
    if found is None or found.deadline_s is None:
        return Reaction(job) if notice is None else _no_notice(job, nodes, notice, now)
    if notice is None or found.deadline_s < notice.deadline_s - SAME_S:
        return _first_told(job, found, found.deadline_s, settings, now)
    if abs(found.deadline_s - notice.deadline_s) >= SAME_S:  # there is more time than it was told
        return Reaction(replace(job, notice=replace(notice, deadline_s=found.deadline_s, late=False)))
    if not notice.left and now >= leave_by(job, notice.deadline_s) and not runs_once(job):
        text = f"has not moved off {notice.machine} yet: it saves and leaves its GPUs"
        return _leave(job, notice, (_event(job, now, text),), now)
    if now >= notice.deadline_s and not notice.late:
        text = f"did not leave {notice.machine} by its deadline; {saved(job)}"
        return Reaction(replace(job, notice=replace(notice, late=True)), (_event(job, now, text),))
    return Reaction(job)


def due_s(job: JobRecord) -> float:
    """Return from when on time alone changes what a job does about a node that goes away."""
    notice = job.notice
    if notice is None or notice.late:
        return float("inf")
    return notice.deadline_s if notice.left else leave_by(job, notice.deadline_s)


def why_lost(job: JobRecord, gone: Iterable[str], nodes: NodesSnapshot) -> str:
    """Return what else is told of lost nodes: that a notice had told of them, and what was saved."""
    found = [nodes.closed[id] for id in gone if id in nodes.closed and nodes.closed[id].leaves]
    told = sorted({f"{one.machine}: {one.told()}" for one in found})
    return f", as was told ({'; '.join(told)}); {saved(job)}" if told else ""


# --- inside -------------------------------------------------------------------------------------------------


def _most_urgent(job: JobRecord, nodes: NodesSnapshot) -> Closed | None:
    """Return what closes the node of a job that goes away first; None: none of its nodes has a deadline."""
    on = {slot.node_id for slot in (*job.held, *job.target)}
    found = [nodes.closed[id] for id in sorted(on & nodes.draining) if id in nodes.closed and id in nodes.alive]
    hurried = [one for one in found if one.deadline_s is not None]
    return min(hurried, key=lambda one: one.deadline_s or 0.0, default=None)


def _first_told(job: JobRecord, found: Closed, deadline_s: float, settings: Settings, now: float) -> Reaction:
    """Tell a job of a node that goes away: it saves at once, and leaves at once where a move does not fit."""
    left_s = deadline_s - now
    notice = LeaveNotice(found.machine, deadline_s, now)
    head = f"{found.machine} goes away in {span(left_s)} ({found.first.what})"
    if runs_once(job):
        text = f"{head}: it may not be started again, so it stays until it ends"
        return Reaction(replace(job, notice=notice), (_event(job, now, text),))
    fits = "" if save_s(job) + MARGIN_S / 2 <= left_s else _does_not_fit(job, left_s)
    if moves_in_time(job, settings, left_s):
        text = f"{head}: it saves at once, and moves if there is another place"
        commands: tuple[Command, ...] = (SaveNow(),) if job.group and job.spec.door is Door.NATIVE else ()
        return Reaction(replace(job, notice=notice), (_event(job, now, text),), round=True, commands=commands)
    text = f"{head}: it saves and leaves its GPUs{fits or ', as a start elsewhere does not fit'}"
    return _leave(job, notice, (_event(job, now, text),), now)


def _does_not_fit(job: JobRecord, left_s: float) -> str:
    does = "its checkpoint takes" if job.spec.door is Door.NATIVE else "it is given"
    return f"; {does} about {span(save_s(job))}, which does not fit: {saved(job)}, and what follows may be lost"


def _leave(job: JobRecord, notice: LeaveNotice, told: tuple[Event, ...], now: float) -> Reaction:
    job = replace(job, notice=replace(notice, left=True))
    if not job.target:
        return Reaction(job, told)
    left = claim(job, (), now, Stopped.DRAINED)
    return Reaction(left.job, (*told, *left.events), round=True, commands=(LeaveGpus(),))


def _no_notice(job: JobRecord, nodes: NodesSnapshot, notice: LeaveNotice, now: float) -> Reaction:
    """Forget a notice: the job has left, or the node stays after all."""
    machines = {nodes.machines.get(slot.node_id) for slot in (*job.held, *job.target)}
    if notice.machine in machines:
        text = f"{notice.machine} does not go away any more"
    else:
        early_s = notice.deadline_s - now
        when = f"{span(early_s)} before its deadline" if early_s >= 0 else f"{span(-early_s)} after its deadline"
        text = f"has left {notice.machine} {when}; {saved(job)}"
    return Reaction(replace(job, notice=None), (_event(job, now, text),))


def _event(job: JobRecord, now: float, text: str, **data: object) -> Event:
    return Event(EventKind.NOTICE, now, job.id, {"text": text, **data})
