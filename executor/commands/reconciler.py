"""Start a command's processes where they should be, watch them, and end them: the pure heart of its executor.

A program is never resized while it runs. Other slots mean SIGTERM, a grace time, and a start at the new size.
Every input yields effects for a thin shell; nothing here knows a clock, Ray or a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ...core.doors import Processes
from ...core.slot import Slot
from ..protocol.command_events import Begin, Begun, Ended, Located, Terminate
from ..protocol.job_events import (
    ExecutorEvent,
    Failing,
    JobFailed,
    JobFinished,
    Killed,
    Released,
    Running,
    WorkerLost,
)
from ..protocol.worker_events import Exited, Gone
from ..reconciling.failures import POLICY, FailureBudget, fault_of
from ..reconciling.slot_tries import backoff_s
from .crews import CrewPlan, crew_plans
from .effects import Effect, KillCrew, SendCrew, StartCrew, TellService

ABORT_S = 5.0  # SIGTERM to SIGKILL for processes whose peer failed or whose job was cancelled
OUTPUTS_S = 60.0  # a worker keeps outputs before it says that its last process has ended
EXIT_S = 15.0  # a worker goes after its processes have
LOCATE_S = 600.0  # actor and its runtime environment
BEGIN_S = 600.0  # from the order to begin until all processes exist; outputs are fetched before
AT_ONCE_S = 1.0
A_WHILE_S = 60.0  # a run of this length counts as progress where the program reports none


class Phase(StrEnum):
    """What an executor of a command does."""

    IDLE = "idle"  # it has no slots
    STARTING = "starting"  # workers start, and meet when all are there
    RUNNING = "running"
    STOPPING = "stopping"  # processes were told to end
    ENDED = "ended"


class Stage(StrEnum):
    """How far one worker is."""

    REQUESTED = "requested"
    LOCATED = "located"
    BEGUN = "begun"


@dataclass(frozen=True)
class Rules:
    """What follows from a stop, an error and a loss, as the job's file says.

    grace_s: seconds from SIGTERM to SIGKILL where the program is to go on later.
    retries_errors: whether an error of the program is tried again, up to max_failures.
    retries_losses: whether it is started again after a worker, node or executor was lost.
    why_not: why an error is not tried again.
    """

    grace_s: float = 30.0
    retries_errors: bool = True
    retries_losses: bool = True
    why_not: str = POLICY


@dataclass
class Crew:
    """One worker: its slots, how far it is, and which of its processes have ended."""

    id: str
    plan: CrewPlan
    stage: Stage = Stage.REQUESTED
    at: Located | None = None
    first_rank: int = 0
    ended: set[int] = field(default_factory=set)
    pids: tuple[int, ...] = ()
    leaving: bool = False  # its processes were told to end
    told_s: float = 0.0  # when they were first told so
    kill_s: float = float("inf")  # when those that go on are killed
    killed: bool = False
    late: bool = False  # it was killed since it did not do in time what it was told
    deadline_s: float = float("inf")


class CommandReconciler:
    """Move a command's processes to where they should be, one input at a time.

    Args:
        processes: how many processes a node has.
        worker_id: names the n-th worker.
        program: what sentences call it.
    """

    def __init__(
        self,
        processes: Processes,
        rules: Rules,
        budget: FailureBudget,
        *,
        worker_id: Callable[[int], str] = str,
        program: str = "the program",
    ) -> None:
        self.rules, self.budget, self.program = rules, budget, program
        self.sequence = 0  # the highest `assign` seen
        self.desired: tuple[Slot, ...] = ()
        self.crews: dict[str, Crew] = {}
        self.phase = Phase.IDLE
        self.generation = 0
        self.steps = 0  # the most that the program has reported
        self.last_error = ""
        self._processes, self._worker_id, self._workers = processes, worker_id, 0
        self._carried_out = 0  # the `assign` that the processes were begun for
        self._group: tuple[Slot, ...] = ()  # the slots of this generation, by rank
        self._to_end = 0  # processes of this generation that have not ended with status 0
        self._begun_s: float | None = None  # of this generation
        self._steps_before = 0  # reported until this generation began
        self._long_runs = 0  # that ended with an error
        self._stopped_s: float | None = None  # when processes were last told to end, or did
        self._recovered = self._retried = False
        self._not_before_s = 0.0
        self._effects: list[Effect] = []

    # --- inputs ---------------------------------------------------------------------------------------------

    def assign(self, slots: Sequence[Slot], sequence: int, now: float) -> list[Effect]:
        """Run on exactly these slots; none: stop and release. An older sequence changes nothing."""
        if sequence <= self.sequence or self.phase is Phase.ENDED:
            self.sequence = max(self.sequence, sequence)
            self._release(slot for slot in slots if slot not in self.desired)
        else:
            dropped = [slot for slot in self.desired if slot not in slots]
            self.sequence, self.desired = sequence, tuple(sorted(set(slots)))
            self._release(dropped)
        return self._drain(now)

    def ignore(self, sequence: int) -> None:
        """Take every assignment up to this sequence as known."""
        self.sequence = max(self.sequence, sequence)

    def cancel(self, now: float) -> list[Effect]:
        """End the job: processes get SIGTERM and a short time."""
        if self.phase is not Phase.ENDED:
            self._end(now)
        return self._drain(now)

    def event(self, worker: str, event: Located | Begun | Ended | Exited | Gone, now: float) -> list[Effect]:
        """Take what a worker said, or that it is gone. Unknown workers are ignored."""
        crew = self.crews.get(worker)
        match event:
            case _ if crew is None:
                pass
            case Located():
                crew.stage, crew.at, crew.deadline_s = Stage.LOCATED, event, float("inf")
            case Begun():
                self._on_begun(crew, event, now)
            case Ended():
                self._on_ended(crew, event, now)
            case Exited():
                crew.deadline_s = now + EXIT_S
            case Gone():
                self._on_gone(crew, event, now)
        return self._drain(now)

    def progressed(self, steps: int) -> None:
        """Note how many steps the program says that it has made."""
        self.steps = max(self.steps, steps)

    def tick(self, now: float) -> list[Effect]:
        """Act on everything that is due: kill workers that do not do in time what they were told."""
        for crew in self.crews.values():
            if now >= crew.deadline_s and not crew.killed:
                crew.late = True
                self._kill(crew)
        return self._drain(now)

    # --- what outlives an executor that holds nothing ---------------------------------------------------------

    def kept(self, now: float) -> dict[str, Any]:
        """Return what the next executor goes on from, as JSON's own values."""
        return {
            "budget": self.budget.to_row(),
            "generation": self.generation,
            "steps": self.steps,
            "long_runs": self._long_runs,
            "last_error": self.last_error,
            "paused_s": None if self._stopped_s is None else now - self._stopped_s,
            "recovered": self._recovered,
            "retried": self._retried,
        }

    def go_on(self, kept: Mapping[str, Any], now: float) -> None:
        """Go on from what the last executor has kept; what is missing counts as never known."""
        self.budget.go_on(kept.get("budget", {}))
        self.generation, self.steps = kept.get("generation", 0), kept.get("steps", 0)
        self._long_runs, self.last_error = kept.get("long_runs", 0), kept.get("last_error", "")
        if (paused_s := kept.get("paused_s")) is not None:
            self._stopped_s = now - paused_s
            self._recovered, self._retried = kept.get("recovered", False), kept.get("retried", False)

    # --- views ----------------------------------------------------------------------------------------------

    @property
    def next_deadline_s(self) -> float:
        """Return when `tick` should be called next."""
        due = [crew.deadline_s for crew in self.crews.values() if not crew.killed]
        if self.phase in (Phase.STARTING, Phase.STOPPING) and self._startable():
            due.append(self._not_before_s)
        return min(due, default=float("inf"))

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Return every slot with something of this job in it."""
        return tuple(sorted({slot for crew in self.crews.values() for slot in crew.plan.slots}))

    @property
    def group(self) -> tuple[Slot, ...]:
        """Return the slots that the program runs on, by rank."""
        if self.phase is not Phase.RUNNING:
            return ()
        return self._group

    @property
    def last_group(self) -> tuple[Slot, ...]:
        """Return the slots of the newest start, by rank, also after its end."""
        return self._group

    # --- events ---------------------------------------------------------------------------------------------

    def _on_begun(self, crew: Crew, event: Begun, now: float) -> None:
        crew.stage, crew.pids = Stage.BEGUN, event.pids
        if self.phase is Phase.RUNNING:
            crew.deadline_s = float("inf")
        if self.phase is not Phase.RUNNING or any(crew.stage is not Stage.BEGUN for crew in self.crews.values()):
            return
        pause_s = None if self._stopped_s is None else now - self._stopped_s
        self._begun_s, self._stopped_s, self._steps_before = now, None, self.steps
        retried = self._retried and pause_s is not None
        self._tell(
            Running(
                self._carried_out,
                self.group,
                warm=False,
                pause_s=pause_s,
                recovered=self._recovered,
                generation=self.generation,
                retried=retried,
            )
        )
        self._recovered = self._retried = False

    def _on_ended(self, crew: Crew, event: Ended, now: float) -> None:
        crew.ended.add(event.rank)
        if event.overdue:
            who, were = f"rank {event.rank}", "was"
            if event.code != -9:  # it ended in time itself
                who, were = f"processes that rank {event.rank} had started", "were"
            after_s = round(crew.kill_s - crew.told_s, 1)
            self._tell(Killed(f"{who} went on {after_s:g} s after SIGTERM and {were} killed"))
        elif event.left:
            rest = "1 process" if event.left == 1 else f"{event.left} processes"
            were = "was" if event.left == 1 else "were"
            self._tell(Killed(f"rank {event.rank} ended and left {rest} in the background, which {were} killed"))
        if len(crew.ended) == crew.plan.processes:
            crew.deadline_s = now + EXIT_S
        if self.phase is not Phase.RUNNING:
            return
        if event.code == 0:
            self._to_end -= 1
            if self._to_end == 0:
                self._tell(JobFinished(ended_early=self._at_once(now)))
                self._end(now)
        else:
            self._failed(event.summary or f"{self.program} {Exited(event.code).reason}", event.traceback, now)

    def _at_once(self, now: float) -> str:
        """Return how early the program ended if it has hardly run; its user may have expected more."""
        ran_s = 0.0 if self._begun_s is None else now - self._begun_s
        return f"{ran_s:.1f} s" if ran_s < AT_ONCE_S and not self.steps else ""

    def _on_gone(self, crew: Crew, event: Gone, now: float) -> None:
        del self.crews[crew.id]
        self._release_slots(crew.plan.slots)
        if not self._is_missed(crew):
            return
        if event.setup_failed:
            self._give_up(event.reason, "", "", now)
        else:
            self._lost(crew, _why_late(crew) if crew.late else event.reason, now)

    def _is_missed(self, crew: Crew) -> bool:
        """Return whether a worker that is gone had something left to do."""
        if crew.leaving or len(crew.ended) == crew.plan.processes:
            return False
        return self._is_desired(crew) and (crew.late or not crew.killed)

    def _failed(self, summary: str, traceback: str, now: float) -> None:
        """Try the program again after a while, or give the job up."""
        self.last_error = summary
        self._long_runs += self._ran_a_while(now)
        why = self.budget.user_error(summary, fault_of(summary, traceback), self.steps or self._long_runs)
        if not self.rules.retries_errors:
            why = why or self.rules.why_not
        if why:
            self._give_up(summary, traceback, why, now)
            return
        self._tell(Failing(summary, self.budget.failures, traceback))
        self._retried = True
        self._not_before_s = now + backoff_s(self.budget.failures)
        self._stop(ABORT_S, now)

    def _lost(self, crew: Crew, reason: str, now: float) -> None:
        """Start again without what was lost, or give the job up."""
        summary = f"the worker on node {crew.plan.node_id[:8]} {reason}"
        self.last_error = summary
        self._tell(WorkerLost(summary, crew.plan.slots[0]))
        made = self.steps > self._steps_before or self._ran_a_while(now)
        if self.budget.loss(self.generation, int(made)):
            self._give_up(f"lost again and again without progress: {summary}", "", "", now)
        elif not self.rules.retries_losses and self.phase is Phase.RUNNING:  # a part of it may have begun
            self._give_up(summary, "", POLICY, now)
        else:
            self._not_before_s = now + backoff_s(self.budget.recoveries)
            if self.phase is Phase.RUNNING:
                self._recovered = True
                self._stop(ABORT_S, now)

    def _ran_a_while(self, now: float) -> bool:
        return self._begun_s is not None and now - self._begun_s >= A_WHILE_S

    # --- transitions ----------------------------------------------------------------------------------------

    def _stop(self, grace_s: float, now: float) -> None:
        """Tell all processes to end. What follows is decided when they are gone."""
        self.phase = Phase.STOPPING
        self._stopped_s = now if self._stopped_s is None and self.generation else self._stopped_s
        self._begun_s = None
        self._terminate(grace_s, now)

    def _terminate(self, grace_s: float, now: float) -> None:
        for crew in self.crews.values():
            crew.told_s = crew.told_s if crew.leaving else now
            crew.kill_s = min(crew.kill_s, now + grace_s)
            crew.leaving = True
            if crew.first_rank >= 0:  # it was told to begin
                self._effects.append(SendCrew(crew.id, Terminate(grace_s)))
                crew.deadline_s = crew.kill_s + OUTPUTS_S + EXIT_S
            elif not crew.killed:
                self._kill(crew)

    def _give_up(self, summary: str, traceback: str, why: str, now: float) -> None:
        self._tell(JobFailed(summary, traceback, self.budget.failures, why))
        self._end(now)

    def _end(self, now: float) -> None:
        vacant = tuple(slot for slot in self.desired if slot not in self.slots)
        self.phase, self.desired = Phase.ENDED, ()
        self._terminate(ABORT_S, now)
        if vacant:
            self._tell(Released(self.sequence, vacant))

    def _kill(self, crew: Crew) -> None:
        crew.killed = True
        self._effects.append(KillCrew(crew.id))

    # --- after every input ----------------------------------------------------------------------------------

    def _drain(self, now: float) -> list[Effect]:
        self._step(now)
        effects, self._effects = self._effects, []
        return effects

    def _step(self, now: float) -> None:
        if self.phase is Phase.RUNNING and set(self.group) != set(self.desired):
            self._stop(self.rules.grace_s, now)
        begun = all(crew.stage is Stage.BEGUN for crew in self.crews.values())
        if self.phase is Phase.RUNNING and begun and self._carried_out != self.sequence:
            self._carried_out = self.sequence  # the same slots, as where a partner on their GPUs comes or goes
            self._tell(Running(self.sequence, self.group, warm=True, generation=self.generation))
        if self.phase not in (Phase.RUNNING, Phase.ENDED):
            self._start(now)

    def _start(self, now: float) -> None:
        """Start missing workers, and begin when all are there and nobody else is.

        Workers start while processes of before still save: they wait for the GPUs by themselves.
        """
        for crew in self.crews.values():
            if not (crew.leaving or crew.killed) and self._is_unwanted(crew):
                self._kill(crew)
        leaving = any(crew.leaving for crew in self.crews.values())
        self.phase = Phase.STOPPING if leaving else Phase.STARTING if self.desired else Phase.IDLE
        missing = self._missing()
        if now >= self._not_before_s:
            for plan in self._startable():
                self._start_crew(plan, now)
        ready = all(crew.stage is Stage.LOCATED and not self._is_unwanted(crew) for crew in self.crews.values())
        if self.phase is Phase.STARTING and not missing and ready:
            self._begin(now)

    def _missing(self) -> list[CrewPlan]:
        known = [crew.plan for crew in self.crews.values() if not crew.leaving]
        return [plan for plan in crew_plans(self.desired, self._processes) if plan not in known]

    def _startable(self) -> list[CrewPlan]:
        """Return the missing plans whose slots hold no worker but those that leave."""
        occupied = {slot for crew in self.crews.values() if not crew.leaving for slot in crew.plan.slots}
        return [plan for plan in self._missing() if not occupied & set(plan.slots)]

    def _is_unwanted(self, crew: Crew) -> bool:
        return crew.leaving or crew.killed or not self._is_desired(crew)

    def _is_desired(self, crew: Crew) -> bool:
        return crew.plan in crew_plans(self.desired, self._processes)

    def _start_crew(self, plan: CrewPlan, now: float) -> None:
        self._workers += 1
        last_s = max((crew.deadline_s for crew in self.crews.values() if crew.leaving), default=now)
        deadline_s = max(now, last_s) + LOCATE_S  # it waits until those that leave have left the GPUs
        crew = Crew(self._worker_id(self._workers), plan, first_rank=-1, deadline_s=deadline_s)
        self.crews[crew.id] = crew
        self._effects.append(StartCrew(crew.id, plan))

    def _begin(self, now: float) -> None:
        self.generation += 1
        self.phase, self._carried_out = Phase.RUNNING, self.sequence
        crews = sorted(self.crews.values(), key=lambda crew: crew.plan.node_id)
        at = crews[0].at
        assert at is not None
        world_size, rank = sum(crew.plan.processes for crew in crews), 0
        self._to_end = world_size
        self._group = tuple(slot for crew in crews for slot in crew.plan.slots)
        for node_rank, crew in enumerate(crews):
            crew.first_rank, crew.deadline_s = rank, now + BEGIN_S
            order = Begin(self.generation, rank, world_size, node_rank, len(crews), at.host, at.port)
            self._effects.append(SendCrew(crew.id, order))
            rank += crew.plan.processes

    def _release(self, slots: Iterable[Slot]) -> None:
        """Release those slots of an assignment that nothing is in."""
        if vacant := tuple(slot for slot in slots if slot not in self.slots):
            self._tell(Released(self.sequence, vacant))

    def _release_slots(self, slots: Iterable[Slot]) -> None:
        """Release slots that a worker has left, that are not wanted any more and that nothing else is in."""
        taken = {*self.desired, *self.slots}
        if gone := tuple(slot for slot in slots if slot not in taken):
            self._tell(Released(self.sequence, gone))

    def _tell(self, event: ExecutorEvent) -> None:
        self._effects.append(TellService(event))


def _why_late(crew: Crew) -> str:
    return f"did not {'start in time' if crew.stage is Stage.REQUESTED else 'answer'} and was killed"
