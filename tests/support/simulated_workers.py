"""Workers that follow the protocol in simulated time, to walk `Reconciler` through whole histories.

A worker takes 1 s to start and 3 s to reach `prepare`. A group forms 0.1 s after its last member was told to join.
The world also accounts, like the scheduler service, for the slots that the job was granted and gave back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from itertools import count

from coadapt.core.job import RestartPolicy
from coadapt.core.reports import ProfileProgress, StepRow
from coadapt.core.slot import Slot
from coadapt.estimators.profile_plan import ProfilePlan
from coadapt.executor.protocol.job_events import ExecutorEvent, JobFailed, JobFinished, Released
from coadapt.executor.protocol.messages import (
    Abort,
    Broken,
    Crashed,
    Finished,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    Profiled,
    Ready,
    Stop,
    Trying,
)
from coadapt.executor.protocol.ranks import Rendezvous
from coadapt.executor.protocol.worker_events import Exited, Gone, Started
from coadapt.executor.reconciler import Reconciler
from coadapt.executor.reconciling.effects import Effects, KeepProfile, KillWorker, Send, StartWorker, Tell
from coadapt.executor.reconciling.failures import FailureBudget
from coadapt.executor.reconciling.timeouts import Timeouts
from coadapt.executor.reconciling.training_run import TrainingRun


def slot(node: str, index: int = 0, gpu_type: str = "a100") -> Slot:
    return Slot(node, "", (index,), gpu_type, emulated=True)


def training_run(
    *slots: Slot,
    max_failures: int = 3,
    timeouts: Timeouts | None = None,
    measured: Callable[[], Set[Slot]] = frozenset,
    hands_over: bool = False,
) -> TrainingRun:
    """Return the run of a job that is wanted in these slots, and of which nothing is started."""
    return TrainingRun(
        store=Rendezvous("host", 1),
        batch_for=lambda slots: None,
        measured=measured,
        names=map(str, count(1)),
        effects=Effects(),
        budget=FailureBudget(max_failures),
        timeouts=timeouts or Timeouts(),
        script="train.py",
        hands_over=hands_over,
        desired=slots,
    )


@dataclass
class Process:
    """What a training process would do."""

    slot: Slot
    profile: bool
    alive: bool = True
    hung: bool = False
    joined: int = 0
    waiting: Join | None = None
    steps: int = 0
    aborted: int = 0


class World:
    def __init__(
        self,
        max_failures: int = 3,
        timeouts: Timeouts | None = None,
        *,
        hands_over: bool = False,
        restarts: RestartPolicy = RestartPolicy.ON_FAILURE,
    ) -> None:
        self.now = 0.0
        self.machine = Reconciler(
            store=Rendezvous("host", 1),
            batch_for=lambda slots: None,
            profiled=lambda slot, progress: self._plan(progress).done,
            budget=FailureBudget(max_failures, restarts),
            timeouts=timeouts or Timeouts(hang_s=20.0),
            script="train.py",
            hands_over=hands_over,
        )
        self.processes: dict[str, Process] = {}
        self.progress: dict[str, ProfileProgress] = {}  # of profile processes
        self.sent: list[tuple[str, object]] = []
        self.told: list[ExecutorEvent] = []
        self.granted: set[Slot] = set()
        self.target: tuple[Slot, ...] = ()
        self.sequence = 0
        self.assigned = 0  # sequence of the newest assignment
        self.broken_starts: set[Slot] = set()  # workers here die at once
        self.unfit: set[Slot] = set()  # newcomers here cannot take over the state
        self.deaf_to_abort = False
        self.leaving_s = 0.0  # until outputs of a leaver are sent
        self.silent = False  # nobody makes a step
        self.fits: int | None = None  # largest local batch size that fits in profile runs; None: they hang
        self.own_batch_size = 4  # of the script
        self.dies_silently = False  # the kernel kills the process when memory runs out
        self.kept: list[KeepProfile] = []
        self.exit_known_s = 0.01  # after a death; survivors notice it after 0.02 s
        self._queue: list[tuple[float, int, str, object]] = []
        self._count = 0

    # --- what a test does -----------------------------------------------------------------------------------

    def assign(self, *slots: Slot, overtaken: Sequence[Slot] | None = None) -> None:
        """Assign slots. `overtaken`: slots of an assignment that is sent before but arrives later."""
        if overtaken is not None:
            self.sequence += 1
            self.granted |= set(overtaken)
        self.sequence += 1
        self.granted |= set(slots)
        self.assigned, self.target = self.sequence, slots
        self.deliver(slots, self.sequence)
        if overtaken is not None:
            self.deliver(overtaken, self.sequence - 1)

    def deliver(self, slots: Sequence[Slot], sequence: int) -> None:
        """Let a command reach the executor."""
        self._apply(self.machine.assign(slots, sequence, self.now))

    def profile(self, where: Slot) -> int:
        """Order a profile run. Return its sequence number."""
        self.sequence += 1
        self._apply(self.machine.profile(where, self.sequence, self.now))
        return self.sequence

    def end_profile(self, where: Slot, sequence: int | None = None) -> None:
        """Give up a profile run, by default the newest."""
        self._apply(self.machine.end_profile(where, sequence or self.sequence, self.now))

    def processes_in(self, where: Slot) -> int:
        """Return how many processes were started in a slot so far."""
        return sum(process.slot == where for process in self.processes.values())

    def cancel(self) -> None:
        self._apply(self.machine.cancel(self.now))

    def live(self) -> list[str]:
        return [id for id, process in self.processes.items() if process.alive]

    def worker_in(self, where: Slot) -> str:
        return next(id for id in self.live() if self.processes[id].slot == where)

    def die(self, worker: str, code: int | None = -9, outcome: object | None = None) -> None:
        """End a process. With `code` None its node goes with it."""
        process = self.processes[worker]
        if not process.alive:
            return
        process.alive = False
        told_s = self.leaving_s if isinstance(outcome, Left) else 0.0
        if outcome is not None:
            self._later(told_s, worker, outcome)
        if code is not None:
            self._later(told_s + self.exit_known_s, worker, Exited(code))
        self._later(told_s + 0.05, worker, Gone("node lost" if code is None else ""))
        if process.joined and not isinstance(outcome, Left | Finished):
            for id, peer in self._peers(process):
                self._break(id, peer)

    def crash(self, worker: str, summary: str = "ValueError: no") -> None:
        self.die(worker, 1, Crashed(summary, "Traceback …"))

    def finish(self) -> None:
        for worker in self.live():
            self.die(worker, 0, Finished(self.processes[worker].steps, metrics={"loss": 0.5}))

    def run(self, seconds: float) -> None:
        """Let time pass: events, heartbeats every second, deadlines."""
        end = self.now + seconds
        beat = self.now + 1.0
        while True:
            event_s = self._queue[0][0] if self._queue else float("inf")
            due = min(event_s, max(self.machine.next_deadline_s, self.now), beat)
            if due > end:
                self.now = end
                return
            self.now = due
            if due == beat:
                beat += 1.0
                self._heartbeats()
            elif event_s <= due:
                _, _, worker, event = heapq.heappop(self._queue)
                self._deliver(worker, event)
            else:
                self._apply(self.machine.tick(self.now))

    def of(self, kind: type) -> list:
        return [event for event in self.told if isinstance(event, kind)]

    def commands(self, kind: type) -> list:
        return [command for _, command in self.sent if isinstance(command, kind)]

    @property
    def state(self) -> str:
        return self.machine.state.name

    @property
    def training_on(self) -> set[Slot]:
        return {self.machine.workers[id].slot for id in self.machine.group}

    # --- the workers' side ------------------------------------------------------------------------------------

    def _later(self, delay_s: float, worker: str, event: object) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay_s, self._count, worker, event))

    def _deliver(self, worker: str, event: object) -> None:
        process = self.processes[worker]
        if isinstance(event, Started | Ready | Joined | Broken | Trying | Profiled) and not process.alive:
            return
        if isinstance(event, Joined):
            if process.waiting is None or process.waiting.generation != event.generation:
                return
            process.joined, process.waiting = event.generation, None
        self._apply(self.machine.event(worker, event, self.now))
        if isinstance(event, Trying):
            self._measure(worker, event.local_bsz)

    def _heartbeats(self) -> None:
        for worker, process in list(self.processes.items()):
            group = [p for _, p in self._peers(process)]
            if (
                not self.silent
                and process.alive
                and process.joined
                and not process.hung
                and not any(p.hung for p in group)
            ):
                process.steps += 1
                self._apply(self.machine.event(worker, Heartbeat(process.joined, process.steps), self.now))

    def _peers(self, process: Process) -> list[tuple[str, Process]]:
        return [
            (id, peer)
            for id, peer in self.processes.items()
            if peer is not process and peer.alive and peer.joined == process.joined and peer.joined
        ]

    def _break(self, worker: str, process: Process) -> None:
        if process.hung:
            return
        generation, process.joined = process.joined, 0
        self._later(0.02, worker, Broken(generation, process.steps))

    def _apply(self, effects: Sequence[object]) -> None:
        for effect in effects:
            match effect:
                case StartWorker():
                    self._start(effect)
                case Send():
                    assert effect.worker in self.machine.workers, "a command to a worker that is gone"
                    self.sent.append((effect.worker, effect.command))
                    self._command(effect.worker, effect.command)
                case KillWorker():
                    process = self.processes[effect.worker]
                    if process.alive:
                        process.alive = False
                        self._later(0.05, effect.worker, Gone("killed"))
                case KeepProfile():
                    self.kept.append(effect)
                case Tell():
                    self._book(effect.event)

    def _start(self, start: StartWorker) -> None:
        known = self.machine.workers.values()
        assert sum(worker.slot == start.slot for worker in known) == 1, "two workers in one slot"
        self.processes[start.worker] = Process(start.slot, start.profile)
        self._later(1.0, start.worker, Started(1, "host"))
        if start.slot in self.broken_starts:
            self._later(2.0, start.worker, Exited(-11))
            self._later(2.1, start.worker, Gone())
            self.processes[start.worker].alive = False
            return
        self._later(3.0, start.worker, Ready("f", self.own_batch_size, 10, None, "SGD", False))
        if start.profile and self.fits is None:
            self._later(4.0, start.worker, Profiled(StepRow(1, 1, 8, 0, 0.1, 0.0, 5)))
        elif start.profile:
            self._later(4.0, start.worker, Trying(self._next_size(start.progress)))
            self.progress[start.worker] = start.progress

    # --- profiling ------------------------------------------------------------------------------------------

    def _plan(self, progress: ProfileProgress) -> ProfilePlan:
        return ProfilePlan(max(4, progress.floor), 4096, progress.rows, progress.failed)

    def _next_size(self, progress: ProfileProgress) -> int:
        wanted = self._plan(progress).next()
        assert wanted is not None, "a process was started with nothing to measure"
        return wanted.local_bsz

    def _measure(self, worker: str, local_bsz: int) -> None:
        """Try a batch size: it fits and the next follows, or it ends the process."""
        assert self.fits is not None
        if local_bsz > self.fits:
            crashed = Crashed("OutOfMemoryError: no", "", out_of_memory=True)
            self.die(worker, *((-9, None) if self.dies_silently else (1, crashed)))
            return
        row = StepRow(1, 1, local_bsz, 0, 1e-6 * local_bsz, 0.0, 5)
        progress = self.progress[worker] = self.progress[worker].with_row(row)
        self._later(0.1, worker, Profiled(row))
        if self._plan(progress).done:
            self._later(0.2, worker, Profiled(None, done=True))
            self._later(0.3, worker, Exited(0))
            self._later(0.4, worker, Gone())
        else:
            self._later(0.2, worker, Trying(self._next_size(progress)))

    def _command(self, worker: str, command: object) -> None:
        process = self.processes[worker]
        if not process.alive or process.hung:
            return
        match command:
            case Join():
                if command.generation <= process.aborted:
                    self._later(0.02, worker, Broken(command.generation, process.steps))
                    return
                process.waiting = command
                together = [
                    (id, p)
                    for id, p in self.processes.items()
                    if p.alive and p.waiting is not None and p.waiting.generation == command.generation
                ]
                if len(together) == command.world_size:
                    ranks = sorted(p.waiting.rank for _, p in together if p.waiting is not None)
                    assert ranks == list(range(command.world_size))
                    furthest = max(p.steps for _, p in together)
                    unfit = [id for id, p in together if p.slot in self.unfit and p.steps < furthest]
                    for id, p in together:
                        if unfit:
                            p.waiting = None
                            if id in unfit:
                                self.die(id, 1, Crashed("the job cannot grow: no", "", unfit=True))
                            else:
                                self._later(0.02, id, Broken(command.generation, p.steps))
                            continue
                        p.steps = furthest
                        self._later(0.1, id, Joined(command.generation, furthest, "peer"))
            case Abort():
                if self.deaf_to_abort:
                    return
                process.aborted = max(process.aborted, command.generation)
                if process.waiting is not None and process.waiting.generation == command.generation:
                    process.waiting = None
                    self._later(0.02, worker, Broken(command.generation, process.steps))
                elif process.joined == command.generation:
                    self._break(worker, process)
            case Leave() | Stop():
                self.die(worker, 0, Left(process.steps))

    def _book(self, event: ExecutorEvent) -> None:
        self.told.append(event)
        if isinstance(event, Released):
            for released in event.slots:
                assert released not in {w.slot for w in self.machine.workers.values()}, "released too early"
                self.granted.discard(released)
            if event.sequence < self.assigned:  # says nothing about slots that were granted since
                self.granted |= set(self.target)
        if isinstance(event, JobFinished | JobFailed):
            assert len(self.of(JobFinished) + self.of(JobFailed)) == 1, "ended twice"


def trained(world: World, *slots: Slot) -> World:
    """Let a job train on these slots."""
    world.assign(*slots)
    world.run(5)
    assert world.state == "training"
    assert world.training_on == set(slots)
    return world
