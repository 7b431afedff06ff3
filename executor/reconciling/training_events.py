"""What each event of a training worker means."""

from __future__ import annotations

from ...core.reports import Report
from ..protocol.messages import Broken, Crashed, Event, Finished, Heartbeat, Joined, Left, Ready
from ..protocol.worker_events import Exited, Gone, Started, WorkerEvent
from .exits import process_exited, worker_gone
from .states import Forming, Stopping, Training
from .training_run import TrainingRun
from .transitions import script_finished, settle, start_recovery
from .worker_state import Stage, TrainingWorker


def training_event(run: TrainingRun, worker: TrainingWorker, event: Event | WorkerEvent, now: float) -> None:
    match event:
        case Started():
            worker.started(event, run.timeouts, now)
        case Ready():
            _on_ready(run, worker, now)
        case Joined():
            _on_joined(run, worker, event, now)
        case Heartbeat():
            worker.progressed(event.steps, now)
        case Report():  # sent between steps by the thread that trains, as heartbeats are
            worker.progressed(event.progress.steps, now)
        case Broken():
            _on_broken(run, worker, event, now)
        case Left() | Finished() | Crashed():
            _on_outcome(run, worker, event, now)
        case Exited():
            process_exited(run, worker, event, now)
        case Gone():
            worker_gone(run, worker, event, now)


def _on_ready(run: TrainingRun, worker: TrainingWorker, now: float) -> None:
    if worker.retired or not worker.lives:
        return
    worker.stage, worker.ready_s, worker.heard_s = Stage.READY, now, now
    worker.not_due()
    run.tries.started(worker.slot)


def _on_joined(run: TrainingRun, worker: TrainingWorker, event: Joined, now: float) -> None:
    worker.joined = max(worker.joined, event.generation)
    worker.joined_steps = worker.steps = event.steps
    worker.heard_s = now
    if event.generation != run.generation:
        return
    if worker.rank == 0:
        run.rank_0 = worker.id
    if isinstance(run.state, Forming):
        members = run.members
        if len(members) == len(run.ranks) and all(member.joined == event.generation for member in members):
            settle(run, run.state, now)


def _on_broken(run: TrainingRun, worker: TrainingWorker, event: Broken, now: float) -> None:
    worker.broken = max(worker.broken, event.generation)
    worker.steps, worker.heard_s = event.steps, now
    in_group = worker.id in run.ranks and event.generation == run.generation
    if in_group and isinstance(run.state, Forming | Training | Stopping):
        start_recovery(run, now)


def _on_outcome(run: TrainingRun, worker: TrainingWorker, event: Left | Finished | Crashed, now: float) -> None:
    worker.ended_script(event, run.timeouts, now)
    if isinstance(event, Finished) and worker.id in run.ranks and not worker.retired:
        script_finished(run, worker, event, now)
