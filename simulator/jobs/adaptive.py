"""Jobs that train a measured model. Their progress follows from their placement and their batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from pydantic import ValidationError

from ...core.cluster import Cluster
from ...core.job import JobSpec, ResourceRequest
from ...core.placement import Placement
from ...core.training_config import Adaptivity, TrainingConfig
from ...estimators.goodput import JobModel
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .applications import Application
from .inputs import Inputs
from .shapes import joins, shape_of
from .step_times import Shape, StepTime
from .told_models import ToldModels
from .world import BadJob, ProgressRate


@dataclass(frozen=True)
class Batch:
    """Samples per replica and pass, and passes beyond the first."""

    local_bsz: int
    accumulation: int

    def total(self, replicas: int) -> int:
        """Return the samples of one optimizer step of all replicas."""
        return replicas * self.local_bsz * (self.accumulation + 1)


@dataclass(frozen=True)
class Observation:
    """What a job learns while it trains: the step time of one placement, and the gradients of an epoch."""

    gpu_type: str
    shape: Shape
    batch: Batch
    time: StepTime
    grad_sqr: float
    grad_var: float


class Knowledge(Protocol):
    """What a job's executor and the policy conclude from observations."""

    def observe(self, job: int, seen: Observation) -> None: ...

    def model(self, job: int) -> JobModel | None: ...

    def choose(self, job: int, gpu_type: str, shape: Shape) -> Batch:
        """Return the batch with which the job trains on a placement."""


class AdaptiveWorld:
    """Jobs that progress epoch by epoch, in steps at the initial batch size. A larger step is worth its gain.

    `slowdown`: factor by which a model trains slower than its measured steps say, by name; `*`: all others.
    `cluster`: where the jobs run; with it, policies are told how long rigid jobs need.

    Where the workload tells of a job's input, the slower of it and the GPU step decides; raise as `Inputs` does.
    """

    learns = True

    def __init__(
        self,
        workload: Workload,
        applications: Sequence[Application],
        knowledge: Knowledge,
        slowdown: Mapping[str, float] | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self.workload = workload
        self.applications = applications  # one per job
        self.knowledge = knowledge
        self._slow = [
            1.0 if slowdown is None else slowdown.get(a.name, slowdown.get("*", 1.0)) for a in applications
        ]
        self._inputs = Inputs(workload, cluster)
        self.told = ToldModels(workload, applications, knowledge, cluster)
        self._epoch = [0] * len(workload)
        self._batch: list[Batch | None] = [None] * len(workload)
        self._specs: dict[tuple[Application, Adaptivity, int, int, int, bool], JobSpec] = {}

    def spec(self, job: int) -> JobSpec:
        """Return what the job's user wrote. Raise BadJob for a job that cannot be."""
        application, adaptivity = self.applications[job], self.workload.adaptivity[job]
        adapts = adaptivity is Adaptivity.ADAPTIVE
        asked = 0 if adapts else int(self.workload.gpus[job])
        batch_size = application.initial_batch_size if adapts else int(self.workload.batch_size[job])
        most, preemptible = int(self.workload.max_gpus[job]), bool(self.workload.preemptible[job])
        key = application, adaptivity, asked, most, batch_size, preemptible
        if key not in self._specs:
            try:
                self._specs[key] = _spec(*key)
            except ValidationError as error:
                told = error.errors()[0]["msg"].removeprefix("Value error, ")
                raise BadJob(f"trace: job {self.workload.ids[job]}: {told}") from None
        return self._specs[key]

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        """Return a whole restart for another shape or GPU type, and after a stop. Other nodes alone cost
        nothing.

        If the time of a start is known, the job trains where it is until its processes on new GPUs have
        started, as live. It then loses a pause, and what it would have trained more on the new GPUs.
        """
        if old is not None and old.gpu_type == new.gpu_type and shape_of(old) == shape_of(new):
            return left_s
        application = self.applications[job]
        if application.start_s is None:
            return application.restart_s
        if old is None or left_s > 0:
            return application.start_s if old is None or joins(old, new) else left_s
        if not joins(old, new):
            return application.pause_s
        before, after = self._rate_on(job, old)[0].per_s, self._rate_on(job, new)[0].per_s
        return application.pause_s + application.start_s * max(1 - before / after, 0.0)

    def keeps_s(self, job: int) -> float | None:
        """Return how long the job keeps the GPUs that it leaves, s; None: not at all."""
        return self.applications[job].start_s

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        """Return the rate from here, and train with the batch that fits the placement."""
        rate, self._batch[job] = self._rate_on(job, placement)
        return rate

    def _rate_on(self, job: int, placement: Placement) -> tuple[ProgressRate, Batch]:
        application, shape = self.applications[job], self._shape(job, placement)
        batch = self.knowledge.choose(job, placement.gpu_type, shape)
        time = application.step_times[placement.gpu_type].at(shape, batch.local_bsz)
        step_s = time.step_s + batch.accumulation * time.pass_s
        step_s = max(step_s, batch.total(sum(shape)) / self._inputs.samples_per_s(job, placement))
        gain = application.statistics.gain(batch.total(sum(shape)), self._epoch[job])
        boundary = float(application.statistics.boundaries[self._epoch[job]])
        return ProgressRate(gain / step_s / self._slow[job], boundary), batch

    def _shape(self, job: int, placement: Placement) -> Shape:
        return shape_of(placement, self.applications[job].per_replica(placement.gpu_type))

    def crosses(self, jobs: Ints, placements: Sequence[Placement], progress: Floats) -> tuple[Floats, Floats]:
        """Begin the next epoch of each job. Return rates and boundaries; rate nan: it has ended."""
        rates, boundaries = np.full(len(jobs), np.nan), progress.copy()
        for i, (job, placement) in enumerate(zip(jobs.tolist(), placements, strict=True)):
            self.trained(job, placement)
            self._epoch[job] += 1
            if self._epoch[job] < self.applications[job].epochs:
                rate = self.moves(job, placement, float(progress[i]))
                rates[i], boundaries[i] = rate.per_s, rate.boundary
        return rates, boundaries

    def trained(self, job: int, placement: Placement) -> None:
        """Let the job learn its step time and gradients on this placement."""
        application, shape, batch = self.applications[job], self._shape(job, placement), self._batch[job]
        if batch is None:
            return
        time = application.step_times[placement.gpu_type].at(shape, batch.local_bsz)
        gradients = application.statistics.gradients(batch.total(sum(shape)), self._epoch[job])
        self.knowledge.observe(job, Observation(placement.gpu_type, shape, batch, time, *gradients))

    def ends(self, jobs: Ints) -> Floats:
        """Return (jobs,) the progress at the end of the last epoch."""
        of = [self.applications[job] for job in jobs.tolist()]
        return np.array([a.statistics.boundaries[a.epochs - 1] for a in of], float)


def _spec(
    application: Application, adaptivity: Adaptivity, gpus: int, most: int, batch_size: int, preemptible: bool
) -> JobSpec:
    rigid = adaptivity is Adaptivity.RIGID
    adapts = adaptivity is Adaptivity.ADAPTIVE
    return JobSpec(
        name="trace-job",
        script="trace",
        preemptible=preemptible,
        resources=ResourceRequest(
            gpus=gpus if rigid else None,
            max_gpus=max(most, gpus),
            gpu_types=sorted(application.step_times),
            gpus_per_replica=dict(application.gpus_per_replica) or 1,
            cpus_per_gpu=0.0,
        ),
        training=TrainingConfig(
            adaptivity=adaptivity,
            initial_batch_size=batch_size,
            max_batch_size=application.max_batch_size if adapts else None,
            min_local_batch_size=min(least for least, _ in application.local_bsz.values()),
        ),
    )
