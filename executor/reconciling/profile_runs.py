"""Profile runs of one job, beside whatever trains.

Each run is one worker at a time in a slot of its own. Where memory runs out another process goes on with the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ...core.reports import NOTHING_PROFILED, ProfileProgress
from ...core.slot import Slot
from ...estimators.profile_plan import BISECTIONS
from ..protocol.job_events import ProfileFinished
from ..protocol.messages import Crashed, Event, Finished, Left, Profiled, ProfiledInput, Ready, Trying
from ..protocol.worker_events import Exited, Gone, Started, WorkerEvent
from .effects import Effects, KeepProfile, StartWorker
from .timeouts import Timeouts
from .worker_state import ProfileWorker, Stage, reason_of, script_error

PROFILE_RESTARTS = BISECTIONS + 1  # processes after the first of a profile run
MOST_PROCESSES = 3  # that measure a job's input


@dataclass
class ProfileRuns:
    """Start, replace and end the workers that measure a job.

    `is_done(slot, progress)` says whether no size is left to measure in a slot; `names` gives ids of new workers.
    """

    is_done: Callable[[Slot, ProfileProgress], bool]
    names: Iterator[str]
    effects: Effects
    timeouts: Timeouts
    script: str
    workers: dict[str, ProfileWorker] = field(default_factory=dict)
    ignored: int = 0  # runs up to this sequence do not start
    _seen: set[int] = field(default_factory=set)  # sequences of runs

    def start(self, slot: Slot, sequence: int, now: float) -> None:
        """Begin the run `sequence` in `slot`; a sequence that is known already is ignored."""
        if sequence not in self._seen and sequence > self.ignored:
            self._seen.add(sequence)
            self._start_worker(slot, sequence, NOTHING_PROFILED, now)

    def give_up(self, sequence: int) -> bool:
        """End a run; return whether it has a worker, which is gone later."""
        self._seen.add(sequence)
        found = [worker for worker in self.workers.values() if worker.sequence == sequence]
        for worker in found:
            self._end(worker)
        return bool(found)

    def end_all(self) -> None:
        for worker in self.workers.values():
            self._end(worker)

    def event(self, worker: ProfileWorker, event: Event | WorkerEvent, now: float) -> Slot | None:
        """Take an event of a worker; return the slot that is free since."""
        match event:
            case Started():
                worker.started(event, self.timeouts, now)
            case Ready():
                self._on_ready(worker, event, now)
            case Trying():
                worker.trying = event.local_bsz
            case Profiled():
                worker.trying = None
                worker.progress = worker.progress.with_asked(event.asked_samples)
                if event.row is not None:
                    worker.progress = worker.progress.with_row(event.row)
            case ProfiledInput():
                worker.progress = replace(worker.progress, input=event.input)
            case Left() | Finished() | Crashed():
                worker.ended_script(event, self.timeouts, now)
            case Exited():
                self._on_exited(worker, event)
            case Gone():
                return self._on_gone(worker, event, now)
        return None

    def expire(self, now: float) -> None:
        """Kill whatever takes too long; what it found until then counts."""
        for worker in self.workers.values():
            if worker.is_due(now):
                worker.kill(self.effects, retire=False)

    @property
    def slots(self) -> set[Slot]:
        return {worker.slot for worker in self.workers.values()}

    @property
    def next_deadline_s(self) -> float:
        return min((worker.deadline_s for worker in self.workers.values() if worker.lives), default=float("inf"))

    def _start_worker(self, slot: Slot, sequence: int, progress: ProfileProgress, now: float) -> None:
        worker = ProfileWorker(next(self.names), slot, sequence=sequence, progress=progress)
        self.workers[worker.id] = worker
        worker.requested(self.timeouts, now)
        self.effects.add(StartWorker(worker.id, slot, profile=True, rank=0, world_size=1, progress=progress))

    def _end(self, worker: ProfileWorker) -> None:
        worker.replaced = False
        worker.kill(self.effects)

    def _on_ready(self, worker: ProfileWorker, event: Ready, now: float) -> None:
        if worker.retired or not worker.lives:
            return
        worker.stage, worker.initial_batch_size = Stage.MEASURING, event.initial_batch_size
        limit_s = self.timeouts.profile_s
        worker.due(now + limit_s, f"did not end its profile in {limit_s:g} s")

    def _on_exited(self, worker: ProfileWorker, ending: Exited | Gone) -> None:
        if not worker.lives:
            return
        worker.stage = Stage.EXITED
        worker.not_due()
        if not (worker.killed and worker.retired):
            self._on_end(worker, ending)

    def _on_gone(self, worker: ProfileWorker, event: Gone, now: float) -> Slot | None:
        self._on_exited(worker, event)
        del self.workers[worker.id]
        if not worker.replaced:
            return worker.slot
        self._start_worker(worker.slot, worker.sequence, worker.progress, now)
        return None

    def _on_end(self, worker: ProfileWorker, ending: Exited | Gone) -> None:
        """Let another process go on where memory ran out or the batch was too small; else the run is over."""
        error = script_error(worker, ending, self.script)
        # A kill of ours (it took too long) says nothing about memory.
        by_memory_killer = ending.killed if isinstance(ending, Exited) else ending.out_of_memory
        no_memory = error.out_of_memory if error is not None else by_memory_killer and not worker.killed
        why = error.summary if error is not None else reason_of(ending)
        if no_memory and worker.trying is not None:
            worker.progress = worker.progress.out_of_memory(worker.trying)
            spent = len(worker.progress.failed) > PROFILE_RESTARTS
            worker.replaced = not spent and not self.is_done(worker.slot, worker.progress)
            why = f"memory runs out at the smallest local batch size, {worker.trying} (min_local_batch_size)"
        elif error is not None and worker.trying is not None and worker.tries_less_than_the_script:
            # As with statistics over a batch of one: larger batches may do.
            worker.progress = worker.progress.too_small(worker.trying)
            worker.replaced = not self.is_done(worker.slot, worker.progress)
        if not worker.killed and isinstance(ending, Exited) and ending.code != 0 and _goes_on(worker.progress):
            worker.replaced = True  # it ended while it measured its input
        if not worker.replaced:
            self._report(worker, ending, why, error, no_memory=no_memory)

    def _report(
        self, worker: ProfileWorker, ending: Exited | Gone, why: str, error: Crashed | None, *, no_memory: bool
    ) -> None:
        """Hand in what the run found, and say why where that is nothing."""
        gpu_type, ok = worker.slot.gpu_type, bool(worker.progress.rows)
        self.effects.add(KeepProfile(gpu_type, worker.progress))
        if ok:
            self.effects.tell(ProfileFinished(gpu_type, ok=True, sequence=worker.sequence))
            return
        lost = isinstance(ending, Gone) and not (no_memory or ending.setup_failed or worker.killed)
        fault = error is not None and not (no_memory or worker.tries_less_than_the_script)
        traceback = error.traceback if error is not None else ""
        sequence = worker.sequence
        self.effects.tell(
            ProfileFinished(
                gpu_type, ok=False, reason=why, lost=lost, sequence=sequence, fault=fault, traceback=traceback
            )
        )


def _goes_on(progress: ProfileProgress) -> bool:
    """Return whether sizes are measured, and the input is not yet; a few processes may die of that."""
    measured = progress.input
    if measured is None or measured.done or not progress.rows:
        return False
    return measured.processes < MOST_PROCESSES
