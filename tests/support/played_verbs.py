"""The verbs of a cluster on which a study's jobs train, an epoch a tick, as the scheduler would answer them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coadapt.core.job import JobSpec
from coadapt.core.phase import Phase
from coadapt.core.reports import TrialRow
from coadapt.core.trials import Trial, kept
from coadapt.scheduler.changes.trial_rows import of_row

TICK_S = 10.0


def accuracy(values: Mapping[str, Any], shrink: int, epoch: int) -> float:
    """Return a metric that is the best at lr 0.1, grows with epochs, and is worse for narrow models."""
    return round(1 - 0.2 * abs(math.log10(values["lr"]) + 1) - 0.3 / (epoch + 1) - 0.02 * (shrink - 1), 9)


class Refused(ValueError):
    """The cluster says no."""


@dataclass
class PlayedJob:
    """A job as the cluster has it.

    left: trials whose states it keeps; at: the epoch of those that train; ticks: in the next epoch so far.
    """

    id: str
    spec: JobSpec
    phase: str = "queued"
    reason: str = ""
    trials: list[Trial] = field(default_factory=list)
    at: int = 0
    ticks: int = 0
    began_at: int = 0
    leaves: list[int] = field(default_factory=list)
    left: set[int] = field(default_factory=set)
    events: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class PlayedCluster:
    """GPUs that train jobs in their order.

    fails: says of a job why it fails in its first epoch, or "". away: whether nobody answers now.
    epoch_ticks: how long an epoch of a job is. notes: what a group tells as it begins.
    """

    gpus: int = 2
    epochs: int = 9
    metric: str = "accuracy"
    fails: Any = lambda spec: ""
    epoch_ticks: Any = lambda spec: 1
    notes: Any = lambda spec: ()
    others: list[dict[str, Any]] = field(default_factory=list)  # rows of other people's jobs that are queued
    jobs_by_id: dict[str, PlayedJob] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    now_s: float = 1000.0
    asked: list[tuple[str, str]] = field(default_factory=list)

    # --- verbs ----------------------------------------------------------------------------------------------

    def submit_told(self, told: Mapping[str, Any], idempotency_key: str) -> str:
        if idempotency_key in self.keys:
            return self.keys[idempotency_key]
        spec = JobSpec.model_validate(told["spec"])
        job = PlayedJob(f"{spec.name}-{len(self.jobs_by_id) + 1}", spec, trials=list(spec.trials))
        for trial in spec.trials:
            if trial.from_job is not None:
                self._check_source(trial)
                source = self.jobs_by_id[trial.from_job]
                job.at = job.began_at = trial.from_epoch or source.at
        self.jobs_by_id[job.id] = job
        self.keys[idempotency_key] = job.id
        self.asked.append(("submit", job.id))
        return job.id

    def _check_source(self, trial: Trial) -> None:
        source = self.jobs_by_id[str(trial.from_job)]
        if trial.from_epoch is not None:
            assert trial.from_epoch in source.spec.kept_epochs
            assert trial.from_epoch <= source.at
        else:
            still = {one.number for one in source.trials}
            assert trial.source in source.left or (trial.source in still and source.phase != "running")

    def keep_trials(self, job_id: str, trials: Sequence[int], *, with_state: bool = False) -> bool:
        job = self._running(job_id)
        self.asked.append(("keep", job_id))
        gone = [one.number for one in job.trials if one.number not in set(trials)]
        kept(job.trials, trials)
        if with_state:
            job.leaves = gone
        else:
            job.trials = kept(job.trials, trials)
        return True

    def set_weight(self, job_id: str, weight: float) -> bool:
        job = self._running(job_id)
        job.spec = job.spec.model_copy(update={"weight": weight})
        return True

    def cancel(self, job_id: str, *, now: bool = False) -> bool:
        self._running(job_id).phase = "cancelled"
        self.asked.append(("cancel", job_id))
        return True

    def _running(self, job_id: str) -> PlayedJob:
        job = self.jobs_by_id[job_id]
        if job.phase not in ("queued", "running"):
            raise Refused(f"{job_id} has ended")
        return job

    def jobs(self, *, ids: Sequence[str] = (), phases: Sequence[Phase] = ()) -> Sequence[dict[str, Any]]:
        if phases:
            rows = [self._row(job) for job in self.jobs_by_id.values()]
            return [*self.others, *(row for row in rows if row["phase"] in phases)]
        return [self._row(self.jobs_by_id[id]) for id in ids]

    def _row(self, job: PlayedJob) -> dict[str, Any]:
        elastic = not job.spec.is_group
        done = elastic and job.at > 0
        value = accuracy(job.trials[0].values, 1, job.at) if done else None
        return {
            "id": job.id,
            "phase": job.phase,
            "wait_reason": "no_room" if job.phase == "queued" else None,
            "reason": job.reason,
            "gpus": int(job.phase == "running"),
            "fraction": (job.at + job.ticks / self.epoch_ticks(job.spec)) / self._until(job),
            "weight": job.spec.weight,
            "metrics": {self.metric: value} if done else {},
            "measured_at": {self.metric: {"epoch": job.at, "samples": 1}} if done else {},
        }

    def events(
        self,
        job_id: str | None = None,
        *,
        last: int = 200,
        kinds: Sequence[str] = (),
        since_s: float | None = None,
    ) -> Sequence[dict[str, Any]]:
        found = self.jobs_by_id[str(job_id)].events
        return [one for one in found if since_s is None or one["time_s"] >= since_s][-last:]

    def cluster(self) -> Any:
        held = sum(job.phase == "running" for job in self.jobs_by_id.values())
        node = {"gpu_type": "t4", "pool": "", "closed": "", "emulated": False, "free_gpus": self.gpus - held}
        return {"nodes": [node]}

    # --- time -----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Let every running job train an epoch, and start what waits where GPUs are idle."""
        self.now_s += TICK_S
        for job in self.jobs_by_id.values():
            held = sum(one.phase == "running" for one in self.jobs_by_id.values())
            if job.phase == "queued" and held < self.gpus:
                job.phase = "running"
        for job in self.jobs_by_id.values():
            if job.phase == "running":
                self._train(job)

    def _train(self, job: PlayedJob) -> None:
        if reason := self.fails(job.spec):
            job.phase, job.reason = "failed", reason
            return
        if job.spec.is_group and job.at + job.ticks == job.began_at and (notes := self.notes(job.spec)):
            self._tell(job, TrialRow(0, tuple(one.number for one in job.trials), notes=notes))
        job.ticks += 1
        if job.ticks < self.epoch_ticks(job.spec):
            return
        job.at, job.ticks = job.at + 1, 0
        if job.spec.is_group:
            numbers = tuple(one.number for one in job.trials)
            values = [accuracy(one.values, job.spec.shrink, job.at) for one in job.trials]
            self._tell(job, TrialRow(job.at, numbers, {self.metric: values}, tuple(sorted(job.left))))
            if job.leaves:
                job.left |= set(job.leaves)
                job.trials = [one for one in job.trials if one.number not in job.left]
                job.leaves = []
                stayed = tuple(one.number for one in job.trials)
                self._tell(job, TrialRow(job.at, stayed, {}, tuple(sorted(job.left))))
        if job.at >= self._until(job):
            job.phase = "succeeded"

    def _until(self, job: PlayedJob) -> int:
        return job.spec.until_epoch or self.epochs

    def _tell(self, job: PlayedJob, row: TrialRow) -> None:
        job.events.append({"time_s": self.now_s, "kind": "trials", **of_row(row)})
