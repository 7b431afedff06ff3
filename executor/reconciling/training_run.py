"""The training side of one job: the slots it should have, its workers, and the state of its group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from ...core.batch_plan import BatchPlan
from ...core.slot import Slot
from ..protocol.job_events import WorkerLost
from ..protocol.ranks import Rendezvous
from .effects import Effects, StartWorker
from .failures import FailureBudget
from .slot_tries import TRIES, SlotTries
from .states import Ended, Group, Grouped, Idle, Pause, Starting, State, Training
from .timeouts import Timeouts
from .worker_state import Stage, TrainingWorker


@dataclass
class TrainingRun:
    """What transitions read and change.

    store: where groups meet.
    batch_for: returns the batch plan of a group on some slots; None for the session's own choice.
    measured: returns the slots that profile runs are in.
    names: ids of new workers.
    hands_over: whether a new rank 0 waits until the outputs of the last one are kept.
    """

    store: Rendezvous
    batch_for: Callable[[Sequence[Slot]], BatchPlan | None]
    measured: Callable[[], Set[Slot]]
    names: Iterator[str]
    effects: Effects
    budget: FailureBudget
    timeouts: Timeouts
    script: str
    hands_over: bool
    state: State = field(default_factory=Idle)
    sequence: int = 0  # the highest `assign` seen
    desired: tuple[Slot, ...] = ()
    workers: dict[str, TrainingWorker] = field(default_factory=dict)
    tries: SlotTries = field(default_factory=SlotTries)
    carried_out: int = 0  # the last `assign` whose slots a group has had, all of them
    generation: int = 0  # of the last group
    batch: BatchPlan | None = None  # of the last group
    rank_0: str = ""  # the worker that trained as rank 0 last
    not_before_s: float = 0.0  # the next start of a worker: after an error of the script, or of storage
    cannot_grow: bool = False  # a newcomer could not take over the state
    last_error: str = ""

    # --- views ----------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        return isinstance(self.state, Ended)

    @property
    def group(self) -> Group | None:
        """Return the group that forms, trains or ends; None between groups."""
        return self.state.group if isinstance(self.state, Grouped) else None

    @property
    def ranks(self) -> tuple[str, ...]:
        return self.group.ranks if self.group is not None else ()

    @property
    def members(self) -> list[TrainingWorker]:
        """Return live workers of the group, by rank."""
        members = [self.workers[id] for id in self.ranks if id in self.workers]
        return [member for member in members if member.lives and not member.killed]

    @property
    def targets(self) -> set[Slot]:
        """Return slots where workers should be."""
        return set(self.desired) - self.tries.given_up

    @property
    def slots(self) -> set[Slot]:
        return {worker.slot for worker in self.workers.values()}

    @property
    def occupied(self) -> set[Slot]:
        """Return slots with any worker of this job."""
        return self.slots | self.measured()

    @property
    def vacant(self) -> list[Slot]:
        return sorted(self.targets - self.occupied)

    @property
    def standby(self) -> list[TrainingWorker]:
        """Return workers that wait for their first `Join`, in a slot that is wanted."""
        targets = self.targets
        return [
            worker
            for worker in self.workers.values()
            if worker.stage is Stage.READY and not worker.retired and worker.slot in targets
        ]

    @property
    def steps(self) -> int:
        return max((member.steps for member in self.members), default=0)

    def has_gathered(self, now: float) -> bool:
        """Return whether somebody is ready and has waited long enough for the others."""
        return any(now >= worker.ready_s + self.timeouts.gather_s for worker in self.standby)

    def pause(self, now: float) -> Pause:
        """Return the pause in which nothing trains, which begins now where a group has trained until now."""
        return self.state.pause.begun(now) if self.group is not None else self.state.pause

    def next_deadline_s(self, now: float) -> float:
        """Return when something is due; waits that every input looks at count only while they last."""
        due = [worker.deadline_s for worker in self.workers.values() if worker.lives]
        due.append(self.state.deadline_s)
        if isinstance(self.state, Training):
            due += [member.heard_s + self.timeouts.hang_s for member in self.members]
        if isinstance(self.state, Starting | Training):
            waits = [max(self.not_before_s, self.tries.not_before_s(slot)) for slot in self.vacant]
            waits += [worker.ready_s + self.timeouts.gather_s for worker in self.standby]
            due += [wait for wait in waits if wait > now]
        return min(due)

    @property
    def beyond_growth(self) -> set[Slot]:
        """Return desired slots that no worker can use, since no newcomer can join the job while it trains."""
        members = {member.slot for member in self.members}
        return set(self.desired) - members if self.cannot_grow and members else set()

    # --- small changes --------------------------------------------------------------------------------------

    def start(self, slot: Slot, now: float) -> None:
        """Ask for a worker in a slot; its rank is a guess until it is sent a `Join`."""
        worker = TrainingWorker(next(self.names), slot, heard_s=now)
        self.workers[worker.id] = worker
        worker.requested(self.timeouts, now)
        rank = sorted(self.targets).index(slot)
        self.effects.add(StartWorker(worker.id, slot, profile=False, rank=rank, world_size=len(self.targets)))

    def start_vacant(self, now: float) -> None:
        for slot in self.vacant:
            if now >= max(self.not_before_s, self.tries.not_before_s(slot)):
                self.start(slot, now)

    def dismiss_unwanted(self) -> None:
        """End workers that train nowhere and are not wanted (any more)."""
        targets, ranks = self.targets, self.ranks
        for worker in self.workers.values():
            if worker.id not in ranks and worker.slot not in targets and not worker.retired:
                worker.kill(self.effects)

    def slot_failed(self, slot: Slot, summary: str, now: float) -> None:
        """Count a failed start in a slot, and say so when the slot is given up."""
        self.last_error = summary
        count = self.tries.failed(slot, now)
        if count >= TRIES:
            self.effects.tell(WorkerLost(f"gave up a slot after {count} failed starts: {summary}", slot))
