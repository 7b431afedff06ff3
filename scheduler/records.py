"""Applies changes to the records of jobs: each is written first, and acted on when it is on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from ..core.job import Phase
from ..core.settings import Settings
from ..executor.protocol.job_events import ExecutorEvent
from .changes.commands import Command, EndAll, EndProfile, KeepTrials, LeaveGpus, RetireExecutor, SaveNow
from .changes.reactions import Reaction
from .changes.rest import with_rest
from .changes.retries import is_retried, retried, without_end
from .changes.upkeep import due_s, is_news
from .executors.executor_backend import ExecutorBackend
from .jobs.record import JobRecord
from .jobs.trained_time import with_ran
from .observers.hooks import Change, Hooks
from .store.store import Store


class Records:
    """Applies reactions, and remembers which jobs to look at and whether a round was asked for."""

    def __init__(self, store: Store, executors: ExecutorBackend, hooks: Hooks, settings: Settings) -> None:
        self.store = store
        self._executors = executors
        self._hooks = hooks
        self._settings = settings
        self._due: dict[str, float] = {}  # job id -> wall time from which time alone may change it
        self._unsent: list[Callable[[], None]] | None = None  # commands of the transaction under way
        self.changed: set[str] = set()  # since the last upkeep
        self.to_measure: set[str] = set()  # jobs with a profile run that may start
        self.round_asked = False
        self._awaited: dict[str, set[str]] = {}  # job id -> jobs that wait for its end
        for job in store.unretired.values():
            self.note(job)

    def note(self, job: JobRecord) -> None:
        """Have the job looked at in the next cycle, and again when its time comes (`due_s`)."""
        self.changed.add(job.id)
        if job.active and any(run.startable for run in job.profiles):
            self.to_measure.add(job.id)
        else:
            self.to_measure.discard(job.id)
        if job.phase is Phase.SUBMITTED and job.spec.after is not None:
            for awaited in job.spec.after.all:
                self._awaited.setdefault(awaited, set()).add(job.id)
        due = due_s(job, self._settings)
        if due < float("inf"):
            self._due[job.id] = due
        else:
            self._due.pop(job.id, None)

    def due(self, now: float) -> set[str]:
        """Return the jobs whose time has come."""
        return {job_id for job_id, due in self._due.items() if due <= now}

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write all that is applied within as one transaction, then send its commands, in order.

        If the transaction fails, nothing is written and nothing is sent. A command that raises keeps no other from
        being sent. The caller holds the lock of the cycle.
        """
        if self._unsent is not None:
            yield
            return
        self._unsent = unsent = list[Callable[[], None]]()
        try:
            with self.store.together():
                yield
        finally:
            self._unsent = None
        with ExitStack() as sending:
            for send in reversed(unsent):
                sending.callback(send)

    def send(self, command: Callable[[], None]) -> None:
        """Send a command as soon as everything applied before it is on disk."""
        if self._unsent is None:
            command()
        else:
            self._unsent.append(command)

    def apply(self, reaction: Reaction, now: float, cause: ExecutorEvent | None = None) -> JobRecord:
        """Write a reaction and what hooks make of it, then send its commands. Return the record.

        Raises: IllegalTransition; KeyError for an unknown job.
        """
        with self.together():
            return self._apply(reaction, now, cause)

    def _apply(self, reaction: Reaction, now: float, cause: ExecutorEvent | None) -> JobRecord:
        before = self.store.get(reaction.job.id)
        is_again = is_retried(before, reaction.job)
        reaction = without_end(reaction) if is_again else reaction
        job = with_ran(before, with_rest(before, reaction.job, now), now)
        if job != before or reaction.events:
            self.store.save(job, *reaction.events, now=now)
            if is_news(before, job):
                self.note(job)
            self.round_asked |= reaction.round
        if before.active and not job.active:
            self.changed |= self._awaited.pop(job.id, set())
        if job != before or cause is not None:
            self._hooks.changed(Change(before, job, now, cause))
        for command in reaction.commands:
            self.send(partial(self._command, job, command))
        if is_again:
            return self._apply(retried(job, now), now, None)
        if not before.retired and (job.retired or job.life > before.life):
            self.send(lambda: self._executors.retire(before))
            self.send(lambda: self._hooks.retired(before))
        return job

    def _command(self, job: JobRecord, command: Command) -> None:
        if isinstance(command, EndProfile):
            self._executors.end_profile(job, command.slot, command.sequence)
        elif isinstance(command, LeaveGpus):
            self._executors.assign(job, (), job.sequence)
        elif isinstance(command, EndAll):
            self._executors.cancel(job)
        elif isinstance(command, SaveNow):
            self._executors.save(job)
        elif isinstance(command, KeepTrials):
            self._executors.keep(job, command.with_state)
        elif isinstance(command, RetireExecutor):
            self._executors.retire(job)
        else:
            self._executors.restart(job)
