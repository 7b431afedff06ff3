"""Does what users ask of jobs, between rounds: each order is stored before anyone acts on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

from ..core.errors import JobStateError, KeyReusedError
from ..core.events import EventKind
from ..core.job import JobSpec
from ..core.job_arrays import ArrayElement
from ..core.job_limits import JobLimitError
from ..core.teams import Teams
from .changes.reactions import Reaction
from .changes.verbs import Verb, cancel
from .jobs.limits import queue_refusal
from .jobs.record import JobRecord, Origin, TrialSource
from .observers.tallies import Tallies
from .records import Records
from .rounds.transition import Wanted
from .runtime.clock import Clock
from .runtime.degraded import StoreWatch
from .store import tables
from .store.events import Event
from .store.store import Store


class JobOrders:
    """Takes the orders for the jobs of one cycle.

    Args:
        lock: that of the cycle.
        wanted: returns what the last plan wants; what it wants for a job is void once somebody orders otherwise.
        ask_round: has a round soon.
    """

    def __init__(
        self,
        store: Store,
        records: Records,
        clock: Clock,
        watch: StoreWatch,
        tallies: Tallies,
        lock: threading.RLock,
        wanted: Callable[[], Wanted | None],
        ask_round: Callable[[], None],
    ) -> None:
        self._store, self._records, self._clock, self._watch = store, records, clock, watch
        self._tallies, self._lock, self._wanted, self._ask_round = tallies, lock, wanted, ask_round

    def submit(
        self,
        spec: JobSpec,
        *,
        idempotency_key: str,
        package: str | None = None,
        script_key: str = "",
        origin: Origin | None = None,
        trial_sources: tuple[TrialSource, ...] = (),
        owner: str = "",
        teams: Teams | None = None,
    ) -> JobRecord:
        """Store a job and return it; the same key again returns the same job.

        Args:
            teams: whose limits count; None: there are none.

        Raises: KeyReusedError where the key came before with another job; JobLimitError where one more is too
        many; StateError.
        """
        with self._watch.storing(), self._lock:
            if teams is not None and self._store.submitted(idempotency_key) is None:
                check_queue(owner, spec.team, self._store.unretired.values(), teams)
            job, new = self._store.submit(
                spec,
                self._clock.steady_s(),
                idempotency_key=idempotency_key,
                package=package,
                script_key=script_key,
                origin=origin,
                trial_sources=trial_sources,
                owner=owner,
            )
            if new:
                self._tallies.submitted += 1
                self._records.note(job)
                self._ask_round()
            elif origin is None and job.life == 0:
                _check_same(job, spec, package, owner)
        return job

    def submit_array(
        self,
        spec: JobSpec,
        *,
        idempotency_key: str,
        package: str | None,
        script_key: str,
        origin: Origin | None,
        trial_sources: tuple[TrialSource, ...],
        owner: str,
        teams: Teams | None,
    ) -> list[JobRecord]:
        """Store a job of each element of an array, all of them or none; the same key again returns the same jobs.

        Raises: JobLimitError where these are too many; StateError.
        """
        with self._watch.storing(), self._lock:
            if (known := self._store.submitted(idempotency_key)) is not None:
                return list(self._store.every(tables.chosen((), owner, None, array=known.array)))
            elements = spec.elements()
            check_queue(owner, spec.team, self._store.unretired.values(), teams, len(elements))
            jobs: list[JobRecord] = []
            with self._store.together():
                for index, (values, one) in enumerate(elements):
                    job, _ = self._store.submit(
                        one,
                        self._clock.steady_s(),
                        idempotency_key=f"{idempotency_key}#{index}" if index else idempotency_key,
                        package=package,
                        script_key=script_key,
                        origin=origin,
                        trial_sources=trial_sources,
                        owner=owner,
                        element=ArrayElement(jobs[0].array if jobs else "", index, values),
                    )
                    jobs.append(job)
            for job in jobs:
                self._tallies.submitted += 1
                self._records.note(job)
            self._ask_round()
        return jobs

    def cancel(self, job_id: str, *, save: bool = False) -> bool:
        """End a job; False if it had ended before, or saves already. Raises: KeyError; StateError.

        Args:
            save: whether a job that trains saves first.
        """
        with self._watch.storing(), self._lock:
            job, now = self._store.get(job_id), self._clock.steady_s()
            reaction = cancel(job, now, save=save)
            if reaction.job is job:
                return False
            self._records.apply(reaction, now)
            if (wanted := self._wanted()) is not None:
                wanted.slots.pop(job_id, None)
        self._ask_round()
        return True

    def do(self, job_id: str, verb: Verb, key: str = "", *, keeps: bool = False) -> bool:
        """Change a job as its user asks, once for the same key; False if there is nothing to do.

        Only a new round gives it GPUs after that.

        Args:
            keeps: whether a job that has GPUs keeps them until that round.

        Raises: KeyError; JobStateError where the verb does not fit;
        StateError where nothing can be stored now.
        """
        with self._watch.storing(), self._lock:
            job, now = self._store.get(job_id), self._clock.steady_s()
            if key and job.asked == key:
                return True
            if job_id in self._store.unreadable:
                self._read_again(job_id, now)
                return True
            reaction = verb(job, now)
            if reaction.job is job:
                return False
            self._records.apply(replace(reaction, job=replace(reaction.job, asked=key or job.asked)), now)
            if (wanted := self._wanted()) is not None and not (keeps and job.target):
                wanted.slots.pop(job_id, None)
                if job.quarantine and job.target:  # it keeps what it has until the next round
                    wanted.slots[job_id] = job.target
        self._ask_round()
        return True

    def _read_again(self, job_id: str, now: float) -> None:
        """Let a job back whose record could not be read. Raises: JobStateError where it still cannot be."""
        job = self._store.read_again(job_id)
        if job.quarantine:
            raise JobStateError(f"{job_id} stays in quarantine, as {job.quarantine}")
        event = Event(EventKind.REQUEUE, now, job_id, {"text": "its record can be read again"})
        self._records.apply(Reaction(job, (event,), round=True), now)
        self._records.note(job)
        if (wanted := self._wanted()) is not None and job.target:
            wanted.slots[job_id] = job.target
        self._ask_round()


def check_queue(
    owner: str, team: str | None, jobs: Iterable[JobRecord], teams: Teams | None, more: int = 1
) -> None:
    """Raise JobLimitError where more jobs of a user are too many to be queued."""
    if refused := queue_refusal(owner, team, jobs, teams, more):
        raise JobLimitError([refused])


def _check_same(job: JobRecord, spec: JobSpec, package: str | None, owner: str) -> None:
    """Raise KeyReusedError unless a job is the one that is submitted again."""
    before, now = job.spec.model_dump(), spec.model_dump()
    differing = [name for name in before if before[name] != now[name]]
    differing += ["package"] if job.package != package else []
    differing += ["owner"] if job.owner != owner else []
    if differing:
        raise KeyReusedError(
            f"Idempotency-Key: {job.id} was submitted with it, and this job differs in {', '.join(differing)}"
        )
