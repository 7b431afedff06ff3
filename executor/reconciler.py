"""Move a job's workers from where they are to where they should be: the pure heart of an `AdaptiveExecutor`.

Every input may change the state: a new assignment, an event of a worker, the passing of time. It yields effects
for a thin shell to carry out. Nothing here knows a clock, Ray or a thread, so each path can be tested by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from ..core.batch_plan import BatchPlan
from ..core.reports import ProfileProgress
from ..core.slot import Slot
from .protocol.job_events import Released
from .protocol.messages import Event, Keep, Save, SetBatch
from .protocol.ranks import Rendezvous
from .protocol.worker_events import WorkerEvent
from .reconciling.effects import Effect, Effects
from .reconciling.failures import FailureBudget
from .reconciling.overdue import expire_state, expire_workers, find_the_hung
from .reconciling.profile_runs import ProfileRuns
from .reconciling.states import Idle, JobEnd, Pause, State, Training
from .reconciling.timeouts import Timeouts
from .reconciling.toward_targets import step
from .reconciling.training_events import training_event
from .reconciling.training_run import TrainingRun
from .reconciling.transitions import end
from .reconciling.worker_state import WorkerState

USUAL = Timeouts()


class Reconciler:
    """Move one job's workers to where they should be, one input at a time.

    Args:
        store: where groups meet.
        batch_for: returns the batch plan of a group on some slots; None for the session's own choice.
        profiled: returns whether a profile run in a slot has no size left to measure.
        worker_id: names the n-th worker.
        hands_over: whether a new rank 0 joins only after the last one has said that it left. What the last one has
            written is in the store then.
    """

    def __init__(
        self,
        store: Rendezvous,
        batch_for: Callable[[Sequence[Slot]], BatchPlan | None],
        profiled: Callable[[Slot, ProfileProgress], bool],
        budget: FailureBudget,
        *,
        timeouts: Timeouts = USUAL,
        worker_id: Callable[[int], str] = str,
        script: str = "the script",
        hands_over: bool = False,
    ) -> None:
        names = map(worker_id, count(1))
        self._effects = effects = Effects()
        self.profiles = ProfileRuns(profiled, names, effects, timeouts, script)
        self.training = TrainingRun(
            store=store,
            batch_for=batch_for,
            measured=lambda: self.profiles.slots,
            names=names,
            effects=effects,
            budget=budget,
            timeouts=timeouts,
            script=script,
            hands_over=hands_over,
        )
        self._now_s = 0.0

    # --- inputs ---------------------------------------------------------------------------------------------

    def assign(self, slots: Sequence[Slot], sequence: int, now: float) -> list[Effect]:
        """Train on exactly these slots; none: save, stop and release.

        An older sequence, or one after the end, changes nothing. Its other slots are released at once, since
        whoever sent it counts them as held.
        """
        run = self.training
        if sequence <= run.sequence or run.ended:
            run.sequence = max(run.sequence, sequence)
            self._release(slot for slot in slots if slot not in run.desired)
        else:
            dropped = [slot for slot in run.desired if slot not in slots]
            run.sequence, run.desired = sequence, tuple(sorted(set(slots)))
            run.tries.assigned(beyond_growth := run.beyond_growth)
            self._release([*dropped, *(slot for slot in run.desired if slot in beyond_growth)])
        return self._drain(now)

    def ignore(self, sequence: int, profile_sequence: int) -> None:
        """Take every assignment and profile run up to these sequences as known."""
        self.training.sequence = max(self.training.sequence, sequence)
        self.profiles.ignored = profile_sequence

    def profile(self, slot: Slot, sequence: int, now: float) -> list[Effect]:
        """Measure one replica in `slot`, beside whatever trains. A sequence already seen is ignored."""
        if self.training.ended:
            self._effects.tell(Released(self.training.sequence, (slot,)))
        else:
            self.profiles.start(slot, sequence, now)
        return self._drain(now)

    def end_profile(self, slot: Slot, sequence: int, now: float) -> list[Effect]:
        """Give up a profile run that takes too long, and nothing else; its slot is released."""
        if not self.profiles.give_up(sequence):
            self._effects.tell(Released(self.training.sequence, (slot,)))
        return self._drain(now)

    def cancel(self, now: float) -> list[Effect]:
        """End everything at once; nothing is saved."""
        if not self.training.ended:
            end(self.training, JobEnd.CANCELLED)
        return self._drain(now)

    def set_batch(self, batch: BatchPlan, now: float) -> list[Effect]:
        """Change the batch of the group that trains; ignored while it re-forms (`Join` brings a plan)."""
        if isinstance(self.state, Training) and batch != self.batch:
            self.training.batch = batch
            self._effects.send(self.state.group.ranks[0], SetBatch(batch))
        return self._drain(now)

    def save(self, now: float) -> list[Effect]:
        """Ask the group that trains for a checkpoint."""
        if isinstance(self.state, Training):
            self._effects.send(self.state.group.ranks[0], Save())
        return self._drain(now)

    def keep(self, trials: Sequence[int], with_state: bool, now: float) -> list[Effect]:
        """Have a group train only these of its trials on."""
        if isinstance(self.state, Training):
            self._effects.send(self.state.group.ranks[0], Keep(tuple(trials), with_state))
        return self._drain(now)

    def tick(self, now: float) -> list[Effect]:
        """Act on everything that is due."""
        self.profiles.expire(now)
        expire_workers(self.training, now)
        expire_state(self.training, now)
        find_the_hung(self.training, now)
        return self._drain(now)

    def event(self, worker_id: str, event: Event | WorkerEvent, now: float) -> list[Effect]:
        """Take what a worker or its process said. Unknown workers are ignored."""
        if (profiling := self.profiles.workers.get(worker_id)) is not None:
            if (free := self.profiles.event(profiling, event, now)) is not None:
                self._effects.tell(Released(self.training.sequence, (free,)))
        elif (worker := self.training.workers.get(worker_id)) is not None:
            training_event(self.training, worker, event, now)
        return self._drain(now)

    # --- what outlives an executor that holds nothing ---------------------------------------------------------

    def kept(self, now: float) -> dict[str, Any]:
        """Return what the next executor goes on from, as JSON's own values."""
        run, pause = self.training, self.training.pause(now)
        return {
            "budget": run.budget.to_row(),
            "cannot_grow": run.cannot_grow,
            "last_error": run.last_error,
            "paused_s": None if pause.since_s is None else now - pause.since_s,
            "recovered": pause.recovered,
            "retried": pause.retried,
        }

    def go_on(self, kept: Mapping[str, Any], now: float) -> None:
        """Go on from what the last executor has kept; what is missing counts as never known."""
        run = self.training
        run.budget.go_on(kept.get("budget", {}))
        run.cannot_grow, run.last_error = kept.get("cannot_grow", False), kept.get("last_error", "")
        if (paused_s := kept.get("paused_s")) is not None:
            run.state = Idle(Pause(now - paused_s, kept.get("recovered", False), kept.get("retried", False)))

    # --- views ----------------------------------------------------------------------------------------------

    @property
    def next_deadline_s(self) -> float:
        """Return when `tick` should be called next, on the clock of `now`."""
        return min(self.profiles.next_deadline_s, self.training.next_deadline_s(self._now_s))

    @property
    def state(self) -> State:
        return self.training.state

    @property
    def sequence(self) -> int:
        """Return the highest sequence of an `assign`."""
        return self.training.sequence

    @property
    def workers(self) -> Mapping[str, WorkerState]:
        """Return every worker by id, of training and of profile runs."""
        return {**self.training.workers, **self.profiles.workers}

    @property
    def group(self) -> list[str]:
        """Return worker ids of the group by rank; empty where there is none."""
        return list(self.training.ranks)

    @property
    def generation(self) -> int:
        return self.training.generation

    @property
    def batch(self) -> BatchPlan | None:
        return self.training.batch

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Return every slot with something of this job in it."""
        return tuple(sorted(self.training.occupied))

    @property
    def steps(self) -> int:
        return self.training.steps

    @property
    def budget(self) -> FailureBudget:
        return self.training.budget

    @property
    def ended(self) -> bool:
        """Whether the job has ended, so that no other executor follows."""
        return self.training.ended

    @property
    def last_error(self) -> str:
        return self.training.last_error

    # --- after every input ----------------------------------------------------------------------------------

    def _release(self, slots: Iterable[Slot]) -> None:
        """Release those slots of an assignment that nothing is in."""
        if vacant := tuple(slot for slot in slots if slot not in self.training.occupied):
            self._effects.tell(Released(self.training.sequence, vacant))

    def _drain(self, now: float) -> list[Effect]:
        self._now_s = now
        step(self.training, now)
        if self.training.ended:
            self.profiles.end_all()
        return self._effects.take()
