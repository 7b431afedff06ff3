"""The truth of live jobs in one world, and what their policy is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...core.expected import UNKNOWN, Expected
from ...core.job import JobSpec
from ...core.placement import Placement
from ...estimators.goodput import GoodputModel, JobModel, best_batch
from ...forecasts.state import LiveJob, Part
from ..jobs.shapes import joins, shape_of
from ..jobs.told import ToldNoInput, upper_ends
from ..jobs.world import ProgressRate
from ..traces.tables import Floats
from ..traces.workload import Ints, TraceJob, Workload
from .truth import Truth


@dataclass(frozen=True)
class InWorld:
    """A job as one world has it. `asked_per_s`: its model's samples/s on the GPUs it asks for; 0: no model."""

    job: LiveJob
    truth: Truth
    asked_per_s: float = 0.0


@dataclass(frozen=True)
class Habit:
    """What starts and moves take where a job's own are not known, s."""

    start_s: float
    move_s: float


class Speeds:
    """Goodput of jobs on placements; worlds of one forecast share what was worked out."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str, int, int], float] = {}
        self._models: list[JobModel] = []  # kept, so that ids stay theirs

    def of(self, model: JobModel, placement: Placement) -> float:
        """Return samples/s at the initial batch size; 0: it cannot run there."""
        key = id(model), placement.gpu_type, placement.nodes, placement.gpus
        if (found := self._known.get(key)) is None:
            each = model.gpus_per_replica.get(placement.gpu_type)
            best = None
            if each is not None and placement.gpus >= each:
                best = best_batch(model, placement.gpu_type, placement.nodes, placement.gpus // each)
            found = self._known[key] = 0.0 if best is None else best.goodput
            self._models.append(model)
        return found


class LiveWorld:
    """Jobs that train as their models say, times a factor of their own. Progress counts from what they have done.

    Args:
        jobs: in order of submission.
        habit: of starts and moves that are not known.
    """

    learns = False

    def __init__(self, jobs: Sequence[InWorld], speeds: Speeds, habit: Habit) -> None:
        self._jobs, self._speeds, self._habit = jobs, speeds, habit
        self.workload = Workload.of([_row(one.job) for one in jobs])
        self._ends = np.array([one.job.progress + one.truth.left for one in jobs], float)
        self.told = LiveTold(jobs)

    def spec(self, job: int) -> JobSpec:
        """Return what the job's user wrote."""
        return self._jobs[job].job.spec

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        """Return what a start takes, or a move. A job trains where it is until its processes have started."""
        one = self._jobs[job].job
        if one.part is not Part.JOB:
            return 0.0
        if old is not None and old.gpu_type == new.gpu_type and shape_of(old) == shape_of(new):
            return left_s
        start_s = self._habit.start_s if one.start_s is None else one.start_s
        move_s = self._habit.move_s if one.move_s is None else one.move_s
        if old is None or left_s > 0:
            return start_s if old is None or joins(old, new) else left_s
        if not joins(old, new):
            return move_s
        before, after = self._per_s(job, old), self._per_s(job, new)
        return move_s + start_s * max(1 - before / after, 0.0)

    def keeps_s(self, job: int) -> float | None:
        """Return None: GPUs change hands at once."""
        return None

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        """Return the rate on a placement, until the end."""
        return ProgressRate(self._per_s(job, placement), float(self._ends[job]))

    def _per_s(self, job: int, placement: Placement) -> float:
        one = self._jobs[job]
        if one.truth.in_seconds or one.job.model is None:
            return 1.0
        found = self._speeds.of(one.job.model, placement) * one.truth.factor
        return found if found > 0 else 1e-9  # its model does not know these GPUs

    def crosses(self, jobs: Ints, placements: Sequence[Placement], progress: Floats) -> tuple[Floats, Floats]:
        """Return rate nan, as every job ends at its only boundary."""
        return np.full(len(jobs), np.nan), progress

    def ends(self, jobs: Ints) -> Floats:
        """Return (jobs,) the progress with which each ends."""
        return self._ends[jobs]

    def trained(self, job: int, placement: Placement) -> None:
        """Do nothing: models stay as they are."""


class LiveTold(ToldNoInput):
    """What policies are told: as live, with less left the further a job is. The truth of the world is not told."""

    def __init__(self, jobs: Sequence[InWorld]) -> None:
        self._jobs = jobs
        mean_s = [np.nan if one.job.mean_s is None else one.job.mean_s for one in jobs]
        per_s = [one.asked_per_s if one.asked_per_s > 0 and not one.truth.in_seconds else 1.0 for one in jobs]
        self._mean_s, self._per_s = np.array(mean_s, float), np.array(per_s, float)
        self._from = np.array([one.job.progress for one in jobs], float)

    def learn(self, now: float, finished_s: Floats, held_s: Floats) -> None:
        """Do nothing."""

    def restart_cost_s(self, job: int, restarts: int = 0) -> float:
        """Return what the live policy is told."""
        return self._jobs[job].job.restart_cost_s

    def model(self, job: int) -> GoodputModel | None:
        """Return the fitted model."""
        return self._jobs[job].job.model

    def rates(self, job: int) -> Mapping[str, float] | None:
        """Return None, because the model says it."""
        return None

    def remaining(self, job: int, progress: float) -> float | None:
        """Return the samples left, as far as its script has told."""
        one = self._jobs[job]
        if one.job.remaining is None:
            return None
        if one.truth.in_seconds:
            return one.job.remaining
        return max(one.job.remaining - (progress - one.job.progress), 0.02 * one.job.remaining)

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the means of `expected`; nan: nobody knows."""
        left_s = self._mean_s[jobs] - (progress - self._from[jobs]) / self._per_s[jobs]
        return np.maximum(left_s, 0.02 * self._mean_s[jobs])

    def high_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the upper ends of the bands of `expected`; nan: nobody knows."""
        return upper_ends(self, jobs, progress)

    def expected(self, job: int, progress: float) -> Expected:
        """Return what is expected, less what it has done since."""
        known = self._jobs[job].job.expected
        if not known.known or known.mean_s <= 0:
            return UNKNOWN if not known.known else known
        done_s = (progress - self._jobs[job].job.progress) / float(self._per_s[job])
        left = max(1.0 - done_s / known.mean_s, 0.02)
        return Expected(known.mean_s * left, known.low_s * left, known.high_s * left, known.source)


def _row(job: LiveJob) -> TraceJob:
    return TraceJob(
        id=job.id,
        submit_s=max(job.submitted_s, 0.0),
        gpus=job.spec.asked_gpus,
        duration_s=1.0,  # its world knows
        ready_after_s=max(job.ready_s - job.submitted_s, 0.0),
        user=job.owner,
        preemptible=job.spec.preemptible,
        rewards=job.rewards,
    )
