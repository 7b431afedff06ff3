"""Tells what is known of jobs: lists and details, why they wait, who held which GPUs, and metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from ...core.array_rows import summed
from ...core.cluster import Cluster
from ...core.deadline_view import deadline_view
from ...core.decisions import WaitReason
from ...core.identity import Reader
from ...core.job_arrays import MOST_ELEMENTS
from ...core.schemas import Prediction
from ...core.settings import Settings
from ...executor.files.job_folder import work_folder
from ...policies.contract.policy import Policy
from ..access.others_jobs import OthersJobs
from ..changes.status import Status, status_of
from ..cycle import SchedulingCycle
from ..forecasts.deadline_answers import DeadlineAnswers
from ..jobs.record import JobRecord
from ..nodes.node_source import NodeSource
from ..nodes.node_view import NodesSnapshot
from ..rounds.readiness import Readiness
from ..store import tables
from ..store.metrics import MetricsHistory
from ..store.store import Store
from ..store.training_curves import GOODPUT, divided
from ..views import closed_views
from ..views.explaining import expected_of, explain, told_of_its_deadline, told_of_its_length, told_of_its_target
from ..views.job_views import job_details, job_row, jobs_beside
from ..views.recording import trace_lines
from ..views.waiting import wait_reason
from .moments import Moments

MOST_QUEUED, MOST_ASIDE = 10, 3  # rows of a board


class JobViewsDesk:
    """Answers questions on jobs. It changes nothing.

    Args:
        policy: returns the policy that plans now.
        predicted: returns when a job starts and ends, by its id; None: nothing is foretold of it.
        answers: what jobs are told of their deadlines.
    """

    def __init__(
        self,
        store: Store,
        cycle: SchedulingCycle,
        nodes: NodeSource,
        settings: Settings,
        moments: Moments,
        readiness: Readiness,
        policy: Callable[[], Policy],
        history: MetricsHistory,
        predicted: Callable[[str], Prediction | None],
        answers: DeadlineAnswers,
    ) -> None:
        self._predicted, self._answers = predicted, answers
        self._store, self._cycle, self._nodes, self._settings = store, cycle, nodes, settings
        self._moments, self._readiness, self._policy, self._history = moments, readiness, policy, history
        self._work = str(work_folder(settings.state_dir))

    def page(
        self,
        before: int | None,
        most: int,
        phases: Sequence[str] = (),
        owner: str | None = None,
        name: str | None = None,
        ids: Sequence[str] = (),
        reader: Reader | None = None,
        team: str | None = None,
        array: str | None = None,
    ) -> tuple[Sequence[dict[str, Any]], int | None]:
        """Return rows of jobs with numbers below `before`, newest first, and the `before` of the next page.

        Args:
            phases, owner, name, ids, team, array: only those jobs; empty or None: all.
            reader: only jobs that this user may read; None: all.
        """
        found = self._store.page(before, most + 1, tables.chosen(phases, owner, name, ids, reader, team, array))
        shown_jobs = found[:most]
        return self._rows(shown_jobs), shown_jobs[-1].number if len(found) > most else None

    def listed(
        self,
        before: int | None,
        most: int,
        phases: Sequence[str] = (),
        owner: str | None = None,
        name: str | None = None,
        reader: Reader | None = None,
        team: str | None = None,
    ) -> tuple[Sequence[dict[str, Any]], int | None]:
        """Return what `page` does, with one row for each array, in which `elements` is how many jobs it has."""
        where = tables.chosen(phases, owner, name, (), reader, team)
        one = tables.one_of_each_array(where)
        found = self._store.page(before, most + 1, one if where is None else where & one)
        shown_jobs = found[:most]
        rows = [
            row | self._summed(job, reader) if job.array else row
            for job, row in zip(shown_jobs, self._rows(shown_jobs), strict=True)
        ]
        return rows, shown_jobs[-1].number if len(found) > most else None

    def _summed(self, job: JobRecord, reader: Reader | None) -> dict[str, Any]:
        """Return the row of all jobs of a job's array. What is foretold is of one job only."""
        jobs = self._store.page(None, MOST_ELEMENTS, tables.chosen((), None, None, (), reader, array=job.array))
        rows: Any = self._rows(jobs)
        return {**summed(rows), "elements": len(rows), "predicted": None, "deadline": None}

    def board(self, reader: Reader | None = None) -> dict[str, Any]:
        """Return what the first page tells of jobs; `reader`: of those that this user may read.

        `names`: of those that hold GPUs, by id. `waiting`, `aside`: rows of some that wait, and of some in
        quarantine, the oldest first. `asides`: how many are in quarantine.
        """
        jobs = [
            job
            for job in self._store.unretired.values()
            if reader is None or reader.may_read(job.owner, job.spec.team or "")
        ]
        statuses = [(job, status_of(job)) for job in jobs if job.active]
        waiting = [job for job, status in statuses if status in (Status.WAITING, Status.EVICTED)]
        aside = [job for job, status in statuses if status is Status.QUARANTINED]
        return {
            "names": {job.id: job.spec.name for job in jobs if job.occupied},
            "waiting": self._rows(waiting[:MOST_QUEUED]),
            "aside": self._rows(aside[:MOST_ASIDE]),
            "asides": len(aside),
        }

    def _rows(self, jobs: Sequence[JobRecord]) -> Sequence[dict[str, Any]]:
        nodes = self._nodes.snapshot
        cluster, beside = _cluster(nodes), jobs_beside(self._store.holding.values())
        return self._moments.shown(
            [
                dict(job_row(job, self._waits(job, nodes), cluster, nodes.asleep, beside.get(job.id, ())))
                | self._why_waits(job, nodes)
                | self._foretold(job)
                for job in jobs
            ]
        )

    def whose(self, job_id: str) -> tuple[str, str]:
        """Return the owner and the team of a job. Raises: KeyError."""
        job = self._store.get(job_id)
        return job.owner, job.spec.team or ""

    def most_ranks(self, job_id: str) -> int:
        """Return how many ranks a job can have at most. Raises: KeyError."""
        return self._store.get(job_id).spec.most_gpus

    def how_it_ended(self, job_id: str) -> dict[str, Any]:
        """Return the phase of a job, and the reason. Raises: KeyError."""
        job = self._store.get(job_id)
        return {"id": job_id, "phase": job.phase.value, "reason": job.state.reason}

    def describe(self, job_id: str) -> dict[str, Any]:
        """Return `core.schemas.JobDetails`. Raises: KeyError."""
        job = self._store.get(job_id)
        events = self._store.events(job_id, last=200)
        nodes = self._nodes.snapshot
        outputs = self._settings.outputs_url(job.id, job.spec.training.checkpoint.url)
        waits, cluster = self._waits(job, nodes), _cluster(nodes)
        closed = closed_views.closed_under(job, nodes, self._moments.ahead_s)
        beside = jobs_beside(self._store.holding.values()).get(job_id, ())
        expected = expected_of(job, self._cycle.last_round)
        found = job_details(
            job,
            events,
            self._work,
            outputs,
            waits,
            cluster,
            nodes.asleep,
            closed=closed,
            beside=beside,
            expected=expected,
        )
        return self._moments.shown(dict(found) | self._why_waits(job, nodes) | self._foretold(job))

    def explain(self, job_id: str, reader: Reader | None = None) -> dict[str, Any]:
        """Explain what the last round decided on a job, or why it took no part. Raises: KeyError.

        Args:
            reader: without names of jobs that this user may not read.
        """
        job = self._store.get(job_id)
        cycle, nodes, others = self._cycle, self._nodes.snapshot, OthersJobs(self._store)
        with cycle.lock:  # the last round and the policy that planned it
            last, policy, unplanned = cycle.last_round, self._policy(), cycle.unplanned
        found = explain(
            job,
            last,
            policy,
            _cluster(nodes),
            unplanned if unplanned is None or reader is None else others.error(unplanned, reader),
            compiling=self._readiness.compiling,
            asleep=nodes.asleep,
        )
        lines = closed_views.explained(job, nodes, self._moments.ahead_s)
        now = self._moments.now_s
        told = told_of_its_deadline(self._answers.of(job, last, now), now)
        lines = [*(lines or found["lines"]), *told, *told_of_its_length(job)]
        found = found | {"lines": [*lines, *told_of_its_target(job, last, lines)]}
        return found if reader is None else dict(others.hidden(found, reader))

    def timeline(self, job_id: str | None = None, reader: Reader | None = None) -> Sequence[dict[str, Any]]:
        """Return `core.schemas.TimelineRow`s, oldest first; `reader`: only of jobs that this user may read."""
        rows = [
            {key: value for key, value in asdict(interval).items() if key != "nodes"}
            for interval in self._store.intervals(job_id, reader)
        ]
        return self._moments.shown(rows)

    def trace(self) -> Sequence[str]:
        """Return the trace of all jobs, as `recording.trace_lines` does."""
        return tuple(trace_lines(self._store.every(), self._store.intervals(), self._settings.restart_cost_s))

    def metrics(self, job_id: str) -> dict[str, Any]:
        """Return `core.schemas.MetricsView`. Raises: KeyError."""
        found = divided(self._history.read(self._store.get(job_id).id))
        metrics, training = (
            {name: [asdict(point) for point in points] for name, points in some.items()} for some in found
        )
        return {"id": job_id, "metrics": self._moments.shown(metrics), "training": self._moments.shown(training)}

    def goodputs(self, job_ids: Sequence[str]) -> dict[str, list[float]]:
        """Return the newest goodputs of jobs, oldest first; jobs that told none are absent."""
        found = {job_id: self._history.newest(job_id, GOODPUT) for job_id in job_ids}
        return {job_id: values for job_id, values in found.items() if values}

    def _why_waits(self, job: JobRecord, nodes: NodesSnapshot) -> dict[str, str]:
        """Return the reason of a job that waits for closed nodes, as a field."""
        why = closed_views.why_closed_to(job, nodes, self._moments.ahead_s)
        return {"reason": why} if why else {}

    def _foretold(self, job: JobRecord) -> dict[str, Any]:
        """Return when a job starts and ends, and whether its deadline will hold, as fields.

        One that has ended or is held has no such moments.
        """
        told = self._answers.of(job, self._cycle.last_round, self._moments.now_s)
        return {
            "predicted": self._predicted(job.id) if job.active and not job.paused else None,
            "deadline": None if told is None else deadline_view(told),
        }

    def _waits(self, job: JobRecord, nodes: NodesSnapshot) -> WaitReason | None:
        return wait_reason(
            job,
            self._cycle.last_round,
            _cluster(nodes),
            compiling=self._readiness.compiling,
            asleep=nodes.asleep,
        )


def _cluster(nodes: NodesSnapshot) -> Cluster | None:
    """Return the nodes; None until Ray has named them, as no job waits for GPU types then."""
    return nodes.cluster if nodes.ready else None
