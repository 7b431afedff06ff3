"""What the end of a worker's process means for the job."""

from __future__ import annotations

from dataclasses import replace

from ..protocol.job_events import Released, WorkerLost
from ..protocol.messages import Crashed, Finished, Left
from ..protocol.worker_events import Exited, Gone
from .states import Finishing, Grouped, Stopping
from .training_run import TrainingRun
from .transitions import (
    abort_peers,
    count_loss,
    member_lost,
    script_failed,
    start_recovery,
    storage_failed,
    succeed,
)
from .worker_state import Stage, TrainingWorker, reason_of, script_error


def worker_gone(run: TrainingRun, worker: TrainingWorker, event: Gone, now: float) -> None:
    """Forget a worker actor; its slot is free now."""
    if event.setup_failed and not worker.retired and not run.members:
        worker.retired = True
        script_failed(run, Crashed(event.reason, ""), now, repeats=False)
    process_exited(run, worker, event, now)
    del run.workers[worker.id]
    if worker.slot not in run.targets or run.ended:
        left = worker.outcome if isinstance(worker.outcome, Left) else None
        saved_step = left.steps if left is not None and left.saved is not None else None
        run.effects.tell(Released(run.sequence, (worker.slot,), saved_step=saved_step))


def process_exited(run: TrainingRun, worker: TrainingWorker, ending: Exited | Gone, now: float) -> None:
    """Act on the end of a process, which its worker actor tells, or which ended with the actor."""
    if not worker.lives:
        return
    worker.stage = Stage.EXITED
    worker.not_due()
    if worker.killed and worker.retired:
        return
    abort_peers(run, worker)
    if worker.id in run.ranks:
        _member_exited(run, worker, ending, now)
    elif not worker.retired and not run.ended:
        _newcomer_exited(run, worker, ending, now)


def _member_exited(run: TrainingRun, worker: TrainingWorker, ending: Exited | Gone, now: float) -> None:
    state = run.state
    if isinstance(state, Finishing) and not (worker.rank == 0 and not isinstance(worker.outcome, Finished)):
        _member_ended_with_script(run, state, worker, now)
        return
    if worker.retired or (isinstance(state, Stopping) and isinstance(worker.outcome, Left)):
        return
    error = script_error(worker, ending, run.script)
    if error is not None and error.unfit:
        _newcomer_unfit(run, worker, error, now)
    elif error is not None and error.storage:
        storage_failed(run, worker, error, now)
        start_recovery(run, now)
    elif error is not None and isinstance(state, Grouped) and not state.group.lost_one:
        script_failed(run, error, now, worker)
    else:  # an error may follow from what the group lost before
        if error is None and not isinstance(worker.outcome, Left | Finished):
            member_lost(run, worker, reason_of(ending))
        start_recovery(run, now)


def _member_ended_with_script(run: TrainingRun, state: Finishing, worker: TrainingWorker, now: float) -> None:
    if not any(member.joined for member in run.members):  # newcomers wait for a group in vain
        succeed(run, state.group)
    elif worker.rank == 0:  # the result is there
        run.state = replace(state, deadline_s=min(state.deadline_s, now + run.timeouts.last_s))


def _newcomer_unfit(run: TrainingRun, worker: TrainingWorker, error: Crashed, now: float) -> None:
    """Go on without newcomers: this one could not take over the state, and no other could."""
    run.cannot_grow = True
    run.tries.given_up.add(worker.slot)
    run.effects.tell(WorkerLost(error.summary, worker.slot))
    start_recovery(run, now)


def _newcomer_exited(run: TrainingRun, worker: TrainingWorker, ending: Exited | Gone, now: float) -> None:
    """Count a worker that never trained: as its slot's failure while others train, else as the job's."""
    error = script_error(worker, ending, run.script)
    if error is not None and error.storage and not run.members:
        storage_failed(run, worker, error, now)
        return
    if error is not None and not run.members:
        script_failed(run, error, now)
        return
    node = worker.slot.node_id[:8]
    summary = error.summary if error is not None else f"a worker on node {node} {reason_of(ending)}"
    run.slot_failed(worker.slot, summary, now)
    if isinstance(ending, Exited) and error is None and not run.members:
        count_loss(run, worker, summary)
