"""What jobs with deadlines are told: from the newest forecast, and from the plan where it says nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ...core.cluster import Cluster
from ...core.deadline_answer import NOT_PLANNED, Answer, DeadlineAnswer, End, Planned, answer_of
from ...core.job import JobSpec, Phase
from ...core.rewards import OnMissed
from ...core.schemas import Prediction
from ..jobs.due import is_in_rounds, rewards_of
from ..jobs.fitting_types import allowed_types
from ..jobs.record import JobRecord
from ..observers.hooks import RoundDone
from .live_state import LEAST_MEASURING_S, MEASURED_IN, measuring_s

SILENT_S = 120.0  # after which a job that has not reported counts as it was seen last
FIRST_REPORT_S = 60.0  # from its start until a job that is not measured has told how fast it is


class DeadlineAnswers:
    """Answers for the jobs of a store.

    Args:
        records: returns the jobs that have not ended.
        predicted: returns when a job starts and ends, by its id; None: nothing is foretold of it.
        began_s: when the service began. What running jobs did meanwhile is not known until they report again.
    """

    def __init__(
        self,
        records: Callable[[], Iterable[JobRecord]],
        predicted: Callable[[str], Prediction | None],
        began_s: float = 0.0,
    ) -> None:
        self._records, self._predicted, self._began_s = records, predicted, began_s
        self._round: int | None = None  # of which these are: whether it knew how long jobs take
        self._lengths: Mapping[str, bool] = {}

    def of(self, job: JobRecord, last: RoundDone | None, now: float) -> DeadlineAnswer | None:
        """Return what a job is told now; None: it has no deadline, is held back, or nothing is known yet."""
        return self._told([job], last, now).get(job.id)

    def news(self, last: RoundDone | None, now: float) -> Mapping[str, DeadlineAnswer]:
        """Return what jobs are told now, by id, where it is another answer than they were told last."""
        jobs = {job.id: job for job in self._records()}
        told = self._told(jobs.values(), last, now)
        return {job: one for job, one in told.items() if one.answer is not jobs[job].answer}

    def _has_reported(self, job: JobRecord, now: float) -> bool:
        """Return whether a job that was told something and runs has reported since the service began."""
        if job.answer is None or not job.target or now > self._began_s + SILENT_S:
            return True
        return bool(job.reached) and job.reached[-1][0] >= self._began_s

    def _told(self, jobs: Iterable[JobRecord], last: RoundDone | None, now: float) -> dict[str, DeadlineAnswer]:
        asked = [job for job in jobs if is_in_rounds(job)]
        if not asked:
            return {}
        usual_s = measuring_s(self._records()) if any(job.phase in MEASURED_IN for job in asked) else 0.0
        if last is not None and last.number != self._round:
            self._round = last.number
            self._lengths = {view.id: view.expected.known for view in last.round.jobs}
        found = {}
        for job in asked:
            is_known, planned = self._lengths.get(job.id), NOT_PLANNED
            if last is not None:
                planned = last.plan.deadlines.get(job.id, planned)
                if not job.target and not _fits(job.spec, last.round.cluster):
                    planned = Planned(given_up=True)
            told = answered(job, planned, is_known, self._predicted(job.id), now, usual_s)
            if told is None:
                continue
            if job.answer is not None and told.answer is not Answer.MISSED and not self._has_reported(job, now):
                told = replace(told, answer=job.answer)
            found[job.id] = told
        return found


def answered(
    job: JobRecord,
    planned: Planned,
    is_known: bool | None,
    predicted: Prediction | None,
    now: float,
    measured_s: float,
) -> DeadlineAnswer | None:
    """Return what a job is told.

    Args:
        is_known: whether the last round knew how long it takes; None: it took no part.
        measured_s: what jobs take from submission until they are measured.
    """
    rewards = rewards_of(job, job.state.submitted_s)
    if rewards is None:  # its instant had passed as it was submitted
        return None
    return answer_of(
        rewards,
        job.state.submitted_s,
        now,
        end=end_of(predicted),
        planned=planned,
        is_known=job.phase not in MEASURED_IN if is_known is None else is_known,
        known_s=_known_s(job, predicted, now, measured_s),
        before=job.answer,
        on_missed=job.spec.on_missed or OnMissed.BEST_EFFORT,
    )


def _fits(spec: JobSpec, cluster: Cluster) -> bool:
    """Return whether there are as many GPUs of a type as a job needs at least."""
    least, there = spec.resources.gpus or spec.resources.min_gpus, cluster.of_pool(spec.pool or "").capacity()
    return any(there[gpu_type] >= least for gpu_type in allowed_types(spec, cluster))


def end_of(predicted: Prediction | None) -> End | None:
    """Return when a job ends, as it is predicted; None: it is not."""
    if predicted is None or (at_s := predicted["end_s"]) is None:
        return None
    low_s, high_s = predicted["end_low_s"], predicted["end_high_s"]
    return End(at_s, at_s if low_s is None else low_s, at_s if high_s is None else high_s)


def _known_s(job: JobRecord, predicted: Prediction | None, now: float, measured_s: float) -> float | None:
    """Return when it is likely to be known how long a job takes; None: nobody can tell."""
    if job.phase in MEASURED_IN:
        if not job.spec.is_measured_first or (job.phase is Phase.SUBMITTED and job.spec.after is not None):
            return None
        begins_s = max(job.state.submitted_s, job.not_before_s or 0.0)
        return max(begins_s + measured_s, now + LEAST_MEASURING_S)
    if job.target or predicted is None or predicted["start_s"] is None:
        return None
    return max(predicted["start_s"], now) + FIRST_REPORT_S
