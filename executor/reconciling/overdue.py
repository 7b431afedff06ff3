"""What follows when a wait has lasted too long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..protocol.job_events import WorkerLost
from ..protocol.messages import Abort, Crashed, Finished
from .states import Finishing, Forming, Recovering, Stopping, Training
from .training_run import TrainingRun
from .transitions import abort_peers, count_loss, member_lost, script_failed, send_held, start_recovery, succeed
from .worker_state import Stage, TrainingWorker


def expire_workers(run: TrainingRun, now: float) -> None:
    """Kill each worker that did not do in time what it was asked for."""
    for worker in list(run.workers.values()):
        if worker.is_due(now):
            _expire(run, worker, now)


def _expire(run: TrainingRun, worker: TrainingWorker, now: float) -> None:
    overdue = worker.overdue
    if worker.retired or worker.outcome is not None:
        worker.kill(run.effects, retire=worker.retired)
        return
    worker.kill(run.effects)
    if worker.stage is Stage.STARTING and not run.members:
        script_failed(run, Crashed(f"{run.script} {overdue}", ""), now)
    else:
        run.slot_failed(worker.slot, f"a worker on node {worker.slot.node_id[:8]} {overdue}", now)


def expire_state(run: TrainingRun, now: float) -> None:
    """Go on without whoever a state waits for, once its deadline has passed."""
    state = run.state
    if now < state.deadline_s:
        return
    match state:
        case Forming(held=held) if held is not None:
            let_join(run, state, now)
        case Forming(group=group):
            _drop_the_silent(run, "did not join in time", now, lambda member: member.joined == group.generation)
        case Recovering(group=group):
            _drop_the_silent(run, "hangs", now, lambda member: member.broken == group.generation)
        case Stopping():
            _kill_group(run)
        case Finishing():
            _end_script(run, state, now)


def let_join(run: TrainingRun, state: Forming, now: float) -> None:
    """Wait no longer for the outputs of the last rank 0."""
    run.state = replace(state, held=None, deadline_s=now + run.timeouts.regroup_s)
    send_held(run, state.held)


def _drop_the_silent(
    run: TrainingRun, did_not: str, now: float, answered: Callable[[TrainingWorker], bool]
) -> None:
    for member in run.members:
        if not answered(member) and not run.ended:
            member_lost(run, member, did_not)
            abort_peers(run, member)
            member.kill(run.effects)
    start_recovery(run, now)


def _kill_group(run: TrainingRun) -> None:
    """End a group that does not stop, and tell so: what it did since its last checkpoint is lost."""
    for member in run.members:
        member.kill(run.effects)
    run.last_error = f"the group did not stop in {run.timeouts.stop_s:g} s and was killed"
    run.effects.tell(WorkerLost(run.last_error))


def _end_script(run: TrainingRun, state: Finishing, now: float) -> None:
    """Take rank 0's result; a rank 0 that has none never came to its end."""
    first = run.workers.get(state.group.ranks[0])
    if first is None or isinstance(first.outcome, Finished):
        succeed(run, state.group)
        return
    summary = f"{run.script} did not end within {run.timeouts.finish_s:g} s of its last step"
    script_failed(run, Crashed(summary, ""), now, first)


def find_the_hung(run: TrainingRun, now: float) -> None:
    """Break a group that makes no steps. Ranks that only wait answer then, and the hung one does not."""
    if not isinstance(run.state, Training):
        return
    hang_s = run.timeouts.hang_s
    silent = [member for member in run.members if now >= member.heard_s + hang_s]
    if not silent:
        return
    generation = run.state.group.generation
    count_loss(run, silent[0], f"the group made no step for {hang_s:g} s")
    if not run.ended:
        for member in run.members:
            run.effects.send(member.id, Abort(generation))
        start_recovery(run, now, run.timeouts.abort_s)
