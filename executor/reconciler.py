"""From where a job's workers are to where they should be: the pure heart of an `AdaptiveExecutor`.

`Reconciler` holds the desired slots and what is known of each worker. Every input (a new assignment, an event of a
worker, the passing of time) may change the phase and yields effects for a thin shell to carry out. It knows no
clock, no Ray and no thread, so that each path can be tested by itself.

Paths, by what is left of the old group (docs/architecture.md, "Regroup", "Recovery", "Cold"):
    warm       some slot stays: newcomers get ready while the old group trains, then one `Join`/`Leave` to all
    migration  no slot stays: newcomers get ready, the old group saves and stops, they join from its checkpoint
    recovery   a worker died: survivors report `Broken` and form the next generation; a replacement joins warm
    cold       nothing is left, or something did not settle in time: end all, start again from the checkpoint

Beside them stands profiling: one worker at a time in a slot of its own, replaced where it ran out of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ..core.batch_plan import BatchPlan
from ..core.reports import NOTHING_PROFILED, ProfileProgress, Report
from ..core.slot import Slot
from ..estimators.profile_plan import BISECTIONS
from .failures import FailureBudget, fault_of
from .protocol.job_events import (
    ExecutorEvent,
    Failing,
    JobFailed,
    JobFinished,
    ProfileFinished,
    Released,
    Running,
    WorkerLost,
)
from .protocol.messages import (
    Abort,
    Broken,
    Command,
    Crashed,
    Event,
    Finished,
    Heartbeat,
    Joined,
    Leave,
    Left,
    Profiled,
    Ready,
    Save,
    SetBatch,
    Stop,
    Trying,
)
from .protocol.ranks import Rendezvous, joins, rank_order
from .protocol.worker_events import Exited, Gone, Started, WorkerEvent

PROFILE_RESTARTS = BISECTIONS + 1  # processes after the first of a profile run


class Phase(StrEnum):
    """What the training group is doing."""

    IDLE = "idle"  # no group, nothing to run
    STARTING = "starting"  # workers start, nothing trains
    REGROUPING = "regrouping"  # `Join` is sent, not everyone has joined
    TRAINING = "training"
    RECOVERING = "recovering"  # a member is lost, survivors are undoing their step
    STOPPING = "stopping"  # the group saves and ends
    FINISHING = "finishing"  # a member reached the end of the script
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in (Phase.FINISHED, Phase.FAILED, Phase.CANCELLED)


class Stage(StrEnum):
    """How far one worker is."""

    REQUESTED = "requested"  # its actor is asked for
    STARTING = "starting"  # its process runs, the script has not reached `prepare`
    READY = "ready"
    MEMBER = "member"  # was sent a `Join`
    EXITED = "exited"  # its process is gone, its actor not yet


@dataclass(frozen=True)
class Limits:
    """How long each wait may last, in seconds; whatever does not settle is killed and goes the cold way."""

    spawn_s: float = 600.0  # actor and its runtime environment
    start_s: float = 300.0  # from process start to `prepare`
    gather_s: float = 30.0  # ready workers wait for the others so long, then go ahead without them
    regroup_s: float = 60.0
    broken_s: float = 15.0  # survivors notice a lost member
    abort_s: float = 15.0  # whoever only waited for a hung rank answers, once the group is aborted
    stop_s: float = 120.0  # write a checkpoint and end
    exit_s: float = 15.0  # a leaver ends
    finish_s: float = 600.0  # what the script does after its last epoch
    last_s: float = 30.0  # others end so long after rank 0 has
    hang_s: float = 300.0
    profile_s: float = 900.0
    backoff_s: float = 1.0  # doubled for each failed start, at most 30 s
    slot_tries: int = 3  # failed starts until a slot is given back


# --- effects: what the shell has to do, in order ----------------------------------------------------------


@dataclass(frozen=True)
class StartWorker:
    worker: str
    slot: Slot
    profile: bool
    rank: int  # expected; the truth comes with `Join`
    world_size: int
    progress: ProfileProgress = NOTHING_PROFILED  # of the earlier processes of its profile run


@dataclass(frozen=True)
class Send:
    worker: str
    command: Command


@dataclass(frozen=True)
class KillWorker:
    """End the worker's process and actor at once; `Gone` follows."""

    worker: str


@dataclass(frozen=True)
class KeepProfile:
    """A profile run is over: what it found out belongs to the job's measurements from now on, and not before."""

    gpu_type: str
    progress: ProfileProgress


@dataclass(frozen=True)
class Tell:
    """An event for the scheduler service."""

    event: ExecutorEvent


Effect = StartWorker | Send | KillWorker | KeepProfile | Tell


@dataclass
class Worker:
    """What is known of one worker actor and its process."""

    id: str
    slot: Slot
    profile: bool
    stage: Stage = Stage.REQUESTED
    pid: int | None = None
    host: str = ""
    ready: Ready | None = None
    rank: int = -1
    sent: int = 0  # generation of the last `Join`
    joined: int = 0  # generation of the last `Joined`
    broken: int = 0  # generation of the last `Broken`
    joined_steps: int = 0
    steps: int = 0
    stride: int = 0  # most steps between two signs of progress
    heard_s: float = 0.0  # last sign of progress
    ready_s: float = 0.0
    retired: bool = False  # asked to go, or ended by us: its exit is no news
    killed: bool = False
    deadline_s: float = float("inf")
    overdue: str = ""  # what it failed to do when the deadline passes
    outcome: Left | Finished | Crashed | None = None
    # Of a profile run:
    sequence: int = 0
    progress: ProfileProgress = NOTHING_PROFILED  # earlier processes included
    trying: int | None = None  # local batch size being measured
    replaced: bool = False  # another process goes on with the run

    @property
    def lives(self) -> bool:
        return self.stage is not Stage.EXITED


@dataclass
class _SlotHistory:
    failed_starts: int = 0
    not_before_s: float = 0.0


@dataclass
class Reconciler:
    """Desired slots against live workers, one input at a time.

    `batch_for(slots)` gives the batch plan of a group on these slots (None: the session's own choice);
    `profiled(slot, progress)` tells whether a profile run in a slot has no size left to measure; `store` is where
    groups meet; `worker_id(n)` names the n-th worker. With `hands_over` a process goes on as rank 0 when the one
    before it has told that it left: what that has written is in the store then.
    """

    store: Rendezvous
    batch_for: Callable[[Sequence[Slot]], BatchPlan | None]
    profiled: Callable[[Slot, ProfileProgress], bool]
    budget: FailureBudget
    limits: Limits = field(default_factory=Limits)
    worker_id: Callable[[int], str] = str
    script: str = "the script"
    hands_over: bool = False

    def __post_init__(self) -> None:
        self.phase = Phase.IDLE
        self.sequence = 0
        self.desired: tuple[Slot, ...] = ()
        self.workers: dict[str, Worker] = {}
        self.group: list[str] = []  # by rank; members of `generation`
        self.generation = 0
        self.batch: BatchPlan | None = None
        self.last_error = ""
        self._first = ""  # the worker that trained as rank 0 last
        self._held: Send | None = None  # the `Join` of the next one, which waits for it
        self._given_up: set[Slot] = set()
        self._unfit = False  # a newcomer could not take over the state
        self._history: dict[Slot, _SlotHistory] = {}
        self._profiles_seen: set[int] = set()
        self._generations = 0
        self._started = 0
        self._deadline_s = float("inf")
        self._not_before_s = 0.0  # back-off after a user error
        self._paused_s: float | None = None
        self._lost_one = False  # a member of the current group was lost
        self._recovering = False  # the group now forming replaces one that lost a member
        self._retrying = False  # it follows an error of the script
        self._warm = False  # some process of it was in an earlier group
        self._formed = 0  # the sequence whose slots the current group has, or had at last
        self._told: int = -1  # the one last reported as running
        self._finished: Finished | None = None
        self._now_s = 0.0
        self._effects: list[Effect] = []

    # --- inputs ---------------------------------------------------------------------------------------------

    def assign(self, slots: Sequence[Slot], sequence: int, now: float) -> list[Effect]:
        """Train on exactly these slots; none: save, stop and release.

        Of an older sequence, or after the end, only what it would have brought is released, at once: whoever sent
        it counts those slots as held.
        """
        held = {worker.slot for worker in self.workers.values()}
        if sequence <= self.sequence or self.phase.is_terminal:
            self.sequence = max(self.sequence, sequence)
            if left := tuple(slot for slot in slots if slot not in self.desired and slot not in held):
                self._tell(Released(self.sequence, left))
            return self._drain(now)
        dropped = tuple(slot for slot in self.desired if slot not in slots and slot not in held)
        self.sequence = sequence
        self.desired = tuple(sorted(set(slots)))
        self._given_up = self._beyond_growth()
        self._history = {slot: history for slot, history in self._history.items() if slot in self.desired}
        for history in self._history.values():
            history.failed_starts, history.not_before_s = 0, 0.0
        if dropped := (*dropped, *(slot for slot in self.desired if slot in self._given_up and slot not in held)):
            self._tell(Released(sequence, dropped))
        return self._drain(now)

    def _beyond_growth(self) -> set[Slot]:
        """Slots that a job which no newcomer can join cannot use, while it trains."""
        members = {member.slot for member in self._members()}
        return set(self.desired) - members if self._unfit and members else set()

    def profile(self, slot: Slot, sequence: int, now: float) -> list[Effect]:
        """Measure one replica in `slot`, beside whatever trains. A sequence already seen is ignored."""
        if self.phase.is_terminal:
            self._tell(Released(self.sequence, (slot,)))
        elif sequence not in self._profiles_seen:
            self._profiles_seen.add(sequence)
            self._start(slot, now, profile=True, sequence=sequence)
        return self._drain(now)

    def end_profile(self, slot: Slot, sequence: int, now: float) -> list[Effect]:
        """Give up a profile run that takes too long, and nothing else; its slot is released."""
        self._profiles_seen.add(sequence)
        found = [worker for worker in self.workers.values() if worker.profile and worker.sequence == sequence]
        for worker in found:
            worker.replaced = False
            self._kill(worker)
        if not found:
            self._tell(Released(self.sequence, (slot,)))
        return self._drain(now)

    def cancel(self, now: float) -> list[Effect]:
        """End everything at once; nothing is saved."""
        if not self.phase.is_terminal:
            self._end(Phase.CANCELLED)
        return self._drain(now)

    def set_batch(self, batch: BatchPlan, now: float) -> list[Effect]:
        """Change the batch of the group that trains; ignored while it re-forms (`Join` brings a plan)."""
        if self.phase is Phase.TRAINING and batch != self.batch:
            self.batch = batch
            self._send(self.group[0], SetBatch(batch))
        return self._drain(now)

    def save(self, now: float) -> list[Effect]:
        """Ask the group that trains for a checkpoint."""
        if self.phase is Phase.TRAINING:
            self._send(self.group[0], Save())
        return self._drain(now)

    def tick(self, now: float) -> list[Effect]:
        """Act on everything that is due."""
        self._expire_workers(now)
        self._expire_phase(now)
        self._find_the_hung(now)
        return self._drain(now)

    def event(self, worker_id: str, event: Event | WorkerEvent, now: float) -> list[Effect]:
        """Something a worker or its process said. Unknown workers are ignored."""
        worker = self.workers.get(worker_id)
        if worker is None:
            return self._drain(now)
        match event:
            case Started():
                worker.stage, worker.pid, worker.host = Stage.STARTING, event.pid, event.host
                self._due(
                    worker,
                    now + self.limits.start_s,
                    f"did not reach coadapt.prepare in {self.limits.start_s:g} s",
                )
            case Ready():
                self._on_ready(worker, event, now)
            case Joined():
                self._on_joined(worker, event, now)
            case Heartbeat() | Report():
                self._on_progress(worker, event, now)
            case Trying():
                worker.trying, worker.heard_s = event.local_bsz, now
            case Profiled():
                worker.trying, worker.heard_s = None, now
                worker.progress = worker.progress.with_asked(event.asked_samples)
                if event.row is not None:
                    worker.progress = worker.progress.with_row(event.row)
            case Broken():
                self._on_broken(worker, event, now)
            case Left() | Finished() | Crashed():
                self._on_outcome(worker, event, now)
            case Exited():
                self._on_exited(worker, event, now)
            case Gone():
                self._on_gone(worker, event, now)
        return self._drain(now)

    @property
    def next_deadline_s(self) -> float:
        """When `tick` should be called next, on the clock of `now`."""
        due = [self._deadline_s]
        due += [worker.deadline_s for worker in self.workers.values() if worker.lives]
        if self.phase is Phase.TRAINING:
            due += [worker.heard_s + self.limits.hang_s for worker in self._members()]
        if self.phase in (Phase.STARTING, Phase.TRAINING):
            # What every input looks at, not only a tick: once it has passed it is done with.
            waits = [self._history[slot].not_before_s for slot in self._vacant() if slot in self._history]
            waits += [worker.ready_s + self.limits.gather_s for worker in self._standby()]
            due += [wait for wait in [*waits, self._not_before_s] if wait > self._now_s]
        return min(due)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Every slot with something of this job in it."""
        return tuple(sorted({worker.slot for worker in self.workers.values()}))

    @property
    def steps(self) -> int:
        return max((worker.steps for worker in self._members()), default=0)

    # --- views ----------------------------------------------------------------------------------------------

    def _training_workers(self) -> list[Worker]:
        return [worker for worker in self.workers.values() if not worker.profile]

    def _members(self) -> list[Worker]:
        """Live workers of the current group, by rank."""
        members = [self.workers[id] for id in self.group if id in self.workers]
        return [member for member in members if member.lives and not member.killed]

    def _targets(self) -> set[Slot]:
        return set(self.desired) - self._given_up

    def _standby(self) -> list[Worker]:
        """Ready for their first `Join`, in a slot that is wanted."""
        targets = self._targets()
        return [
            worker
            for worker in self._training_workers()
            if worker.stage is Stage.READY and not worker.retired and worker.slot in targets
        ]

    def _vacant(self) -> list[Slot]:
        taken = {worker.slot for worker in self.workers.values()}
        return sorted(slot for slot in self._targets() if slot not in taken)

    # --- worker events --------------------------------------------------------------------------------------

    def _on_ready(self, worker: Worker, event: Ready, now: float) -> None:
        if worker.retired or not worker.lives:
            return
        worker.stage, worker.ready, worker.ready_s, worker.heard_s = Stage.READY, event, now, now
        self._undue(worker)
        self._history.pop(worker.slot, None)
        if worker.profile:  # it measures by itself, without a group
            worker.stage = Stage.MEMBER
            self._due(
                worker, now + self.limits.profile_s, f"did not end its profile in {self.limits.profile_s:g} s"
            )

    def _on_joined(self, worker: Worker, event: Joined, now: float) -> None:
        worker.joined = max(worker.joined, event.generation)
        worker.joined_steps = worker.steps = event.steps
        worker.heard_s = now
        if worker.rank == 0 and event.generation == self.generation:
            self._first = worker.id
        if self.phase is not Phase.REGROUPING or event.generation != self.generation:
            return
        members = self._members()
        if len(members) == len(self.group) and all(member.joined == self.generation for member in members):
            self._settle(now)

    def _on_progress(self, worker: Worker, event: Heartbeat | Report, now: float) -> None:
        steps = event.steps if isinstance(event, Heartbeat) else event.progress.steps
        worker.heard_s = now  # both are sent between steps by the thread that trains
        worker.stride = max(worker.stride, steps - worker.steps)
        worker.steps = max(worker.steps, steps)

    def _on_broken(self, worker: Worker, event: Broken, now: float) -> None:
        worker.broken = max(worker.broken, event.generation)
        worker.steps, worker.heard_s = event.steps, now
        if event.generation != self.generation or worker.id not in self.group:
            return
        if self.phase in (Phase.REGROUPING, Phase.TRAINING, Phase.STOPPING):
            self._start_recovery(now)

    def _on_outcome(self, worker: Worker, event: Left | Finished | Crashed, now: float) -> None:
        if worker.outcome is None:
            worker.outcome = event
        self._due(worker, now + self.limits.exit_s, "did not exit")
        in_group = worker.id in self.group and not worker.retired
        if not isinstance(event, Finished) or not in_group or self.phase.is_terminal:
            return
        if self._finished is None or worker.rank == 0:
            self._finished = event
        # While survivors undo a step only rank 0's end counts: others may have left before a step to repeat.
        if self.phase is not Phase.FINISHING and (self.phase is not Phase.RECOVERING or worker.rank == 0):
            self.phase, self._deadline_s = Phase.FINISHING, now + self.limits.finish_s

    def _on_exited(self, worker: Worker, ending: Exited | Gone, now: float) -> None:
        """The process is gone; its worker actor perhaps with it."""
        reason = ending.reason or "was lost with its worker"
        code = ending.code if isinstance(ending, Exited) else None
        if not worker.lives:
            return
        worker.stage = Stage.EXITED
        if worker.killed and worker.retired:
            self._undue(worker)
            return
        self._undue(worker)
        self._abort_peers(worker)
        if worker.profile:
            self._profile_exited(worker, ending, reason)
        elif worker.id in self.group:
            self._member_exited(worker, reason, code, now)
        elif not worker.retired and not self.phase.is_terminal:
            self._newcomer_exited(worker, reason, code, now)

    def _on_gone(self, worker: Worker, event: Gone, now: float) -> None:
        if event.setup_failed and not worker.retired and not worker.profile and not self._members():
            worker.retired = True
            self._user_failed(Crashed(event.reason, ""), now, repeats=False)
        self._on_exited(worker, event, now)
        del self.workers[worker.id]
        if worker.replaced and not self.phase.is_terminal:
            self._start(worker.slot, now, profile=True, sequence=worker.sequence, progress=worker.progress)
        elif worker.profile or worker.slot not in self._targets() or self.phase.is_terminal:
            self._tell(Released(self.sequence, (worker.slot,)))

    # --- exits ----------------------------------------------------------------------------------------------

    def _member_exited(self, worker: Worker, reason: str, code: int | None, now: float) -> None:
        if self.phase is Phase.FINISHING and not (worker.rank == 0 and not isinstance(worker.outcome, Finished)):
            if not any(member.joined for member in self._members()):  # newcomers wait for a group in vain
                self._succeed()
            elif worker.rank == 0:  # the result is there
                self._deadline_s = min(self._deadline_s, now + self.limits.last_s)
            return
        if self.phase is Phase.STOPPING and isinstance(worker.outcome, Left):
            return
        if worker.retired or self.phase.is_terminal or self.phase in (Phase.IDLE, Phase.STARTING):
            return
        error = self._user_error(worker, reason, code)
        if error is not None and error.unfit:
            self._unfit = True
            self._given_up.add(worker.slot)
            self._tell(WorkerLost(error.summary, worker.slot))
            self._start_recovery(now)
            return
        if error is not None and not self._lost_one:  # else it may follow from what the group lost
            self._user_failed(error, now, worker)
            return
        if error is None and not isinstance(worker.outcome, Left | Finished):
            self._lost(worker, reason, now)
        if not self.phase.is_terminal:
            self._start_recovery(now)

    def _newcomer_exited(self, worker: Worker, reason: str, code: int | None, now: float) -> None:
        """A worker that never trained: its slot's failure while others train, the job's where none does."""
        error = self._user_error(worker, reason, code)
        if error is not None and not self._members():
            self._user_failed(error, now)
            return
        summary = error.summary if error is not None else f"a worker on node {worker.slot.node_id[:8]} {reason}"
        self._slot_failed(worker.slot, summary, now)
        if code is not None and error is None and not self._members():
            self._count_loss(worker, summary)

    def _user_error(self, worker: Worker, reason: str, code: int | None) -> Crashed | None:
        """What the script itself is at fault for; None: nothing."""
        if isinstance(worker.outcome, Crashed):
            return worker.outcome
        if isinstance(worker.outcome, Left | Finished) or code is None or code < 0:
            return None
        if code == 0:
            return Crashed(f"{self.script} ended early, with status 0", "")
        return Crashed(f"{self.script} {reason}", "")

    def _user_failed(
        self, error: Crashed, now: float, worker: Worker | None = None, *, repeats: bool = True
    ) -> None:
        """`worker`: which trained until then. `repeats`: the same error again would say that it stays."""
        summary, traceback = error.summary, error.traceback
        self.last_error = summary
        # Where memory ran out the next try has a smaller batch.
        fault = fault_of(summary, traceback) if repeats and not error.out_of_memory else None
        steps, stride = (max(worker.steps, self.steps), worker.stride) if worker is not None else (0, 0)
        if why := self.budget.user_error(summary, fault, steps, stride):
            self._tell(JobFailed(summary, traceback, self.budget.failures, why))
            self._end(Phase.FAILED)
            return
        self._tell(Failing(summary, self.budget.failures, traceback))
        self._retrying = True
        self._not_before_s = now + self._backoff_s(self.budget.failures)
        self._go_cold(now)

    def _lost(self, worker: Worker, reason: str, now: float) -> None:
        summary = f"the worker of rank {worker.rank} on node {worker.slot.node_id[:8]} {reason}"
        self._tell(WorkerLost(summary, worker.slot))
        # A node takes all its replicas with it: whatever a group loses counts once.
        if not self._lost_one:
            self._lost_one = True
            self._count_loss(worker, summary)

    def _count_loss(self, worker: Worker, summary: str) -> None:
        self.last_error = summary
        steps = max(worker.steps, self.steps)
        if self.budget.loss(steps, steps - worker.joined_steps if worker.joined else 0):
            self._tell(JobFailed(f"lost again and again without progress: {summary}", "", self.budget.failures))
            self._end(Phase.FAILED)

    def _slot_failed(self, slot: Slot, summary: str, now: float) -> None:
        self.last_error = summary
        history = self._history.setdefault(slot, _SlotHistory())
        history.failed_starts += 1
        history.not_before_s = now + self._backoff_s(history.failed_starts)
        if history.failed_starts >= self.limits.slot_tries:
            self._given_up.add(slot)
            self._tell(WorkerLost(f"gave up a slot after {history.failed_starts} failed starts: {summary}", slot))

    def _backoff_s(self, failures: int) -> float:
        return float(min(30.0, self.limits.backoff_s * 2 ** min(failures - 1, 10)))

    def _abort_peers(self, worker: Worker) -> None:
        """Whoever waits for the dead one in a collective, or in a group that is forming, must stop waiting."""
        clean = isinstance(worker.outcome, Left | Finished)
        if clean or worker.profile:
            return
        for peer in self._training_workers():
            if peer is worker or not peer.lives or peer.retired:
                continue
            if worker.sent > worker.joined and peer.sent == worker.sent:
                self._send(peer.id, Abort(worker.sent))
            elif worker.joined and peer.joined == worker.joined and peer.broken < worker.joined:
                self._send(peer.id, Abort(worker.joined))

    # --- profiling ------------------------------------------------------------------------------------------

    def _profile_exited(self, worker: Worker, ending: Exited | Gone, reason: str) -> None:
        """Where it ran out of memory another process goes on with the plan; else the run is over."""
        if self.phase.is_terminal:
            return
        code = ending.code if isinstance(ending, Exited) else None
        error = self._user_error(worker, reason, code)
        # A kill of ours (it took too long) says nothing about memory.
        by_memory_killer = ending.killed if isinstance(ending, Exited) else ending.out_of_memory
        no_memory = error.out_of_memory if error is not None else by_memory_killer and not worker.killed
        gpu_type, why = worker.slot.gpu_type, error.summary if error is not None else reason
        if no_memory and worker.trying is not None:
            worker.progress = worker.progress.out_of_memory(worker.trying)
            spent = len(worker.progress.failed) > PROFILE_RESTARTS
            worker.replaced = not spent and not self.profiled(worker.slot, worker.progress)
            why = f"memory runs out at the smallest local batch size, {worker.trying} (min_local_batch_size)"
        elif error is not None and worker.trying is not None and self._tries_less_than_the_script(worker):
            # As with statistics over a batch of one: larger batches may do.
            worker.progress = worker.progress.too_small(worker.trying)
            worker.replaced = not self.profiled(worker.slot, worker.progress)
        if not worker.replaced:
            ok = bool(worker.progress.rows)
            self._effects.append(KeepProfile(gpu_type, worker.progress))
            lost = isinstance(ending, Gone) and not (ok or no_memory or ending.setup_failed or worker.killed)
            fault = error is not None and not (ok or no_memory or self._tries_less_than_the_script(worker))
            traceback = error.traceback if error is not None and not ok else ""
            self._tell(
                ProfileFinished(
                    gpu_type,
                    ok,
                    "" if ok else why,
                    lost=lost,
                    sequence=worker.sequence,
                    fault=fault,
                    traceback=traceback,
                )
            )

    @staticmethod
    def _tries_less_than_the_script(worker: Worker) -> bool:
        """An error at a smaller batch than the script's own says nothing of how it trains."""
        if worker.trying is None or worker.ready is None:
            return False
        return worker.trying < worker.ready.initial_batch_size

    # --- time -----------------------------------------------------------------------------------------------

    def _expire_workers(self, now: float) -> None:
        for worker in list(self.workers.values()):
            if not worker.lives or now < worker.deadline_s:
                continue
            overdue = worker.overdue
            if worker.retired or worker.profile or worker.outcome is not None:
                self._kill(worker, retire=worker.retired)
                continue
            self._kill(worker)
            if worker.stage is Stage.STARTING and not self._members():
                self._user_failed(Crashed(f"{self.script} {overdue}", ""), now)
            else:
                self._slot_failed(worker.slot, f"a worker on node {worker.slot.node_id[:8]} {overdue}", now)

    def _expire_phase(self, now: float) -> None:
        if now < self._deadline_s:
            return
        self._deadline_s = float("inf")
        match self.phase:
            case Phase.REGROUPING if self._held is not None:
                self._let_join(now)
            case Phase.REGROUPING:
                self._drop_the_silent("did not join in time", now, lambda member: member.joined == self.generation)
            case Phase.RECOVERING:
                self._drop_the_silent("hangs", now, lambda member: member.broken == self.generation)
            case Phase.STOPPING:
                for member in self._members():
                    self._kill(member)
                self.last_error = f"the group did not stop in {self.limits.stop_s:g} s and was killed"
            case Phase.FINISHING:
                first = self.workers.get(self.group[0])
                if first is not None and not isinstance(first.outcome, Finished):
                    summary = f"{self.script} did not end within {self.limits.finish_s:g} s of its last step"
                    self._user_failed(Crashed(summary, ""), now, first)
                else:
                    self._succeed()

    def _drop_the_silent(self, did_not: str, now: float, answered: Callable[[Worker], bool]) -> None:
        for member in self._members():
            if not answered(member) and not self.phase.is_terminal:
                self._lost(member, did_not, now)
                self._abort_peers(member)
                self._kill(member)
        if not self.phase.is_terminal:
            self._start_recovery(now)

    def _find_the_hung(self, now: float) -> None:
        """When nobody makes steps, break the group: whoever only waited for the hung rank answers, it does not."""
        if self.phase is not Phase.TRAINING:
            return
        silent = [member for member in self._members() if now >= member.heard_s + self.limits.hang_s]
        if not silent:
            return
        self._count_loss(silent[0], f"the group made no step for {self.limits.hang_s:g} s")
        if not self.phase.is_terminal:
            for member in self._members():
                self._send(member.id, Abort(self.generation))
            self._start_recovery(now, self.limits.abort_s)

    # --- reconciling ----------------------------------------------------------------------------------------

    def _drain(self, now: float) -> list[Effect]:
        self._now_s = now
        self._reconcile(now)
        effects, self._effects = self._effects, []
        return effects

    def _reconcile(self, now: float) -> None:
        if self._held is not None and not (self.phase is Phase.REGROUPING and self._first_is_leaving()):
            self._let_join(now)
        if self.phase is Phase.RECOVERING:
            self._recover(now)
        if self.phase is Phase.STOPPING and not self._members():
            self.group, self.phase, self._deadline_s = [], Phase.IDLE, float("inf")
        if self.phase in (Phase.IDLE, Phase.STARTING):
            self._reconcile_without_group(now)
        elif self.phase is Phase.TRAINING:
            self._reconcile_training(now)

    def _reconcile_without_group(self, now: float) -> None:
        targets = self._targets()
        self._dismiss_unwanted(targets)
        if not targets:
            self.phase, self._retrying = Phase.IDLE, False
            return
        self.phase = Phase.STARTING
        if now >= self._not_before_s:
            self._start_vacant(now)
        ready = self._standby()
        if ready and (len(ready) == len(targets) or self._gathered(now)):
            self._form(ready, [], now)

    def _reconcile_training(self, now: float) -> None:
        targets = self._targets()
        self._dismiss_unwanted(targets)
        members = self._members()
        if not targets:
            self._stop(now)
            return
        self._start_vacant(now)
        staying = [member for member in members if member.slot in targets]
        leaving = [member for member in members if member.slot not in targets]
        ready = self._standby()
        complete = len(staying) + len(ready) == len(targets) or (bool(ready) and self._gathered(now))
        if staying and (leaving or ready) and complete:
            self._form(staying + ready, leaving, now)
        elif not staying and ready and complete:
            self._stop(now)
        elif not leaving and not ready and len(staying) == len(targets) and self._told != self.sequence:
            self._formed = self.sequence
            self._tell_running(None)

    def _gathered(self, now: float) -> bool:
        return any(now >= worker.ready_s + self.limits.gather_s for worker in self._standby())

    def _dismiss_unwanted(self, targets: set[Slot]) -> None:
        """End workers that train nowhere and are not wanted (any more)."""
        for worker in self._training_workers():
            if worker.id not in self.group and worker.slot not in targets and not worker.retired:
                self._kill(worker)

    def _start_vacant(self, now: float) -> None:
        for slot in self._vacant():
            history = self._history.get(slot)
            if history is None or now >= history.not_before_s:
                self._start(slot, now, profile=False)

    def _start(
        self,
        slot: Slot,
        now: float,
        *,
        profile: bool,
        sequence: int = 0,
        progress: ProfileProgress = NOTHING_PROFILED,
    ) -> None:
        self._started += 1
        worker = Worker(
            self.worker_id(self._started), slot, profile, heard_s=now, sequence=sequence, progress=progress
        )
        self.workers[worker.id] = worker
        self._due(worker, now + self.limits.spawn_s, f"could not be started in {self.limits.spawn_s:g} s")
        world_size = 1 if profile else len(self._targets())
        rank = 0 if profile else sorted(self._targets()).index(slot)
        self._effects.append(StartWorker(worker.id, slot, profile, rank, world_size, progress))

    def _form(self, members: Sequence[Worker], leavers: Sequence[Worker], now: float) -> None:
        """`Join` to every member, `Leave` to every leaver, of the next generation."""
        self._pause(now)
        self.generation = self._next_generation()
        self._lost_one = False
        slots = {member.id: member.slot for member in members}
        if set(slots.values()) == self._targets():  # else the rest of them is still to come
            self._formed = self.sequence
        self.group = rank_order(slots, self.group)
        self.batch = self.batch_for([slots[id] for id in self.group])
        self._held = None
        for leaver in leavers:
            leaver.retired = True
            self._due(leaver, now + self.limits.regroup_s + self.limits.exit_s, "did not leave")
            self._send(leaver.id, Leave(self.generation))
        for id, command in joins(self.group, slots, self.generation, self.store, self.batch).items():
            worker = self.workers[id]
            worker.rank, worker.sent, worker.stage = command.rank, self.generation, Stage.MEMBER
            if command.rank == 0 and self._first_is_leaving():
                self._held = Send(id, command)
            else:
                self._send(id, command)
        self.phase = Phase.REGROUPING
        self._deadline_s = now + self.limits.regroup_s
        self._warm = any(member.joined for member in members)

    def _first_is_leaving(self) -> bool:
        """Whether outputs of the last rank 0 are still to come."""
        first = self.workers.get(self._first)
        if not self.hands_over or first is None or not first.retired:
            return False
        return first.lives and not first.killed and first.outcome is None

    def _let_join(self, now: float) -> None:
        """The next rank 0 waits no longer: the last one has left, or takes too long, or all is different now."""
        held, self._held = self._held, None
        if held is not None and held.worker in self.workers:
            self._effects.append(held)
        if self.phase is Phase.REGROUPING:
            self._deadline_s = now + self.limits.regroup_s

    def _settle(self, now: float) -> None:
        """Everyone has joined."""
        pause_s = None if self._paused_s is None else now - self._paused_s
        self.phase, self._deadline_s, self._paused_s = Phase.TRAINING, float("inf"), None
        for member in self._members():
            member.heard_s = now
        self._tell_running(pause_s)
        self._recovering = self._retrying = False

    def _tell_running(self, pause_s: float | None) -> None:
        slots = tuple(self.workers[id].slot for id in self.group)
        self._told = self._formed
        retried = self._retrying and pause_s is not None
        self._tell(Running(self._formed, slots, self._warm, pause_s, self._recovering, self.generation, retried))

    def _start_recovery(self, now: float, wait_s: float | None = None) -> None:
        """A member is lost, or its group broke: wait until every survivor has undone its step."""
        if self.phase is Phase.RECOVERING:
            return
        self._pause(now)
        self._recovering = True
        self.phase = Phase.RECOVERING
        self._deadline_s = now + (self.limits.broken_s if wait_s is None else wait_s)

    def _recover(self, now: float) -> None:
        members = self._members()
        if not members:
            self._go_cold(now)
        elif all(member.broken == self.generation for member in members):
            targets = self._targets()
            # Where no survivor's slot is wanted any more they re-form all the same: they hold the state to save.
            staying = [member for member in members if member.slot in targets] or members
            leaving = [member for member in members if member not in staying]
            self._form(staying + self._standby(), leaving, now)

    def _stop(self, now: float) -> None:
        """The group saves and ends; what follows is decided when it is gone."""
        self._pause(now)
        self.phase, self._deadline_s = Phase.STOPPING, now + self.limits.stop_s
        for member in self._members():
            self._send(member.id, Stop(save=True))

    def _go_cold(self, now: float) -> None:
        """End every training worker; new ones start from the newest checkpoint as their slots become free."""
        self._pause(now)
        for worker in self._training_workers():
            self._kill(worker)
        self.group, self._finished, self._held = [], None, None
        self.phase, self._deadline_s = Phase.STARTING, float("inf")

    def _succeed(self) -> None:
        finished = self._finished or Finished(self.steps)
        self._tell(JobFinished(finished.metrics, finished.target_reached, finished.ended_early))
        self._end(Phase.FINISHED)

    def _end(self, phase: Phase) -> None:
        held = {worker.slot for worker in self.workers.values()}
        vacant = tuple(slot for slot in self.desired if slot not in held)
        self.phase, self._deadline_s, self.desired, self.group = phase, float("inf"), (), []
        self._held = None
        for worker in self.workers.values():
            self._kill(worker)
        if vacant:
            self._tell(Released(self.sequence, vacant))

    def _pause(self, now: float) -> None:
        if self._paused_s is None and self.group:
            self._paused_s = now

    # --- small effects --------------------------------------------------------------------------------------

    def _next_generation(self) -> int:
        self._generations += 1
        return self._generations

    def _send(self, worker_id: str, command: Command) -> None:
        self._effects.append(Send(worker_id, command))

    def _tell(self, event: ExecutorEvent) -> None:
        self._effects.append(Tell(event))

    def _kill(self, worker: Worker, retire: bool = True) -> None:
        worker.retired = worker.retired or retire
        self._undue(worker)
        if worker.lives and not worker.killed:
            worker.killed = True
            self._effects.append(KillWorker(worker.id))

    @staticmethod
    def _due(worker: Worker, deadline_s: float, overdue: str) -> None:
        worker.deadline_s, worker.overdue = deadline_s, overdue

    @staticmethod
    def _undue(worker: Worker) -> None:
        worker.deadline_s, worker.overdue = float("inf"), ""
