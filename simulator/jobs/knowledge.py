"""The knowledge that simulated jobs have of themselves, from the estimators of the live service."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ...core.training_config import Adaptivity
from ...estimators.efficiency import noise_scale
from ...estimators.goodput import BatchLimits, JobModel, best_batch
from ...estimators.profile import Profile
from ...estimators.throughput import ThroughputModel, fit, spread_of, step_time_s
from ..traces.workload import Workload
from .adaptive import Batch, Observation
from .applications import Application
from .step_times import Shape, StepTime

# No new fit is needed if a step time on a known placement is this near to its prediction (relative).
FORETOLD = 0.01
PROFILED_SIZES = 10  # local batch sizes of a profile run (Sia, section 3.3.2)
_Key = tuple[int, int, int, int, int]  # nodes, replicas, densest, local batch size, accumulation
_Rows = dict[str, dict[_Key, StepTime]]  # by GPU type


class Knows(StrEnum):
    """What a job knows before it has run."""

    ORACLE = "oracle"  # every measured placement of every GPU type, and its gradient noise
    BOOTSTRAP = "bootstrap"  # one replica on each GPU type, as profile runs of a live job measure
    PROFILE_CACHE = "profile-cache"  # what earlier jobs of its application measured; the first have profile runs
    NO_PROFILE = "no-profile"  # nothing


@dataclass(eq=False)
class _Known:
    rows: _Rows = field(default_factory=dict)
    throughput: dict[str, ThroughputModel] = field(default_factory=dict)
    noise_scale: float | None = None
    model: JobModel | None = None  # None: it must be built again


class LearningKnowledge:
    """Step times by placement, fitted as the live service fits them, and the last gradients.

    `noise`: relative standard deviation of what is measured. With 0, measurements are exact, and jobs that have
    seen the same share their fits. What an earlier job told is not measured again.

    Raise ValueError if `noise` is negative or not finite.
    """

    def __init__(
        self,
        workload: Workload,
        applications: Sequence[Application],
        knows: Knows = Knows.BOOTSTRAP,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        if not (math.isfinite(noise) and noise >= 0):
            raise ValueError(f"noise: {noise} must be a relative deviation of 0 or more")
        self._workload, self._applications, self._knows = workload, applications, knows
        self._noise, self._random = noise, np.random.default_rng(seed)
        self._of: list[_Known | None] = [None] * len(workload)
        self._fits: dict[tuple[Application, str, frozenset[_Key]], ThroughputModel] = {}
        self._remembered: dict[Application, _Rows] = {}  # what all jobs of an application have measured

    def observe(self, job: int, seen: Observation) -> None:
        """Take in a step time and the gradients. A step time that was predicted well needs no new fit."""
        known, replicas = self._job(job), sum(seen.shape)
        key = len(seen.shape), replicas, max(seen.shape), seen.batch.local_bsz, 0
        rows = known.rows.setdefault(seen.gpu_type, {})
        if key not in rows:
            placement_known = any(other[:3] == key[:3] for other in rows)
            rows[key] = self._measured(seen.time)
            self._remember(job, {seen.gpu_type: {key: rows[key]}})
            if not (placement_known and _foretold(known.throughput.get(seen.gpu_type), key, rows[key])):
                known.throughput.pop(seen.gpu_type, None)
                known.model = None
        self.observe_gradients(job, seen)

    def observe_gradients(self, job: int, seen: Observation) -> None:
        """Take in the gradients alone."""
        known = self._job(job)
        found = noise_scale(seen.grad_sqr, seen.grad_var)
        if found is not None:
            phi = found * self._applications[job].initial_batch_size * self._blur()
            if phi != known.noise_scale:
                known.noise_scale = phi
                known.model = None if known.model is None else known.model.with_noise_scale(phi)

    def model(self, job: int) -> JobModel | None:
        """Return the job's goodput model; None: nothing was measured yet."""
        known = self._job(job)
        if not known.rows:
            return None
        if known.model is None:
            for gpu_type in known.rows:
                if gpu_type not in known.throughput:
                    known.throughput[gpu_type] = self._fit(job, gpu_type, known.rows[gpu_type])
            application = self._applications[job]
            known.model = JobModel(
                throughput=dict(known.throughput),
                noise_scale=known.noise_scale,
                limits=self._limits(job),
                gpus_per_replica={t: application.per_replica(t) for t in application.step_times},
            )
        return known.model

    def choose(self, job: int, gpu_type: str, shape: Shape) -> Batch:
        """Return the best batch by the job's model, or else its initial batch size."""
        application, replicas = self._applications[job], sum(shape)
        low, high = (int(size) for size in application.step_times[gpu_type].sizes(shape))
        model = self.model(job)
        best = best_batch(model, gpu_type, len(shape), replicas) if model is not None else None
        if best is not None:
            m, s = best.local_bsz, best.accumulation
        else:
            first = self._limits(job).initial_batch_size
            s = max(math.ceil(first / (replicas * high)) - 1, 0)
            m = math.ceil(first / (replicas * (s + 1)))
        return Batch(min(max(m, low), high), s)

    def _job(self, job: int) -> _Known:
        known = self._of[job]
        if known is None:
            known = self._of[job] = _Known(self._recalled(job))
            if self._knows is not Knows.NO_PROFILE:
                self._profile(job, known)
        return known

    def _recalled(self, job: int) -> _Rows:
        rows = self._remembered.get(self._applications[job], {})
        return {gpu_type: dict(of_type) for gpu_type, of_type in rows.items()}

    def _remember(self, job: int, measured: _Rows) -> None:
        if self._knows is not Knows.PROFILE_CACHE:
            return
        rows = self._remembered.setdefault(self._applications[job], {})
        for gpu_type, of_type in measured.items():
            of_all = rows.setdefault(gpu_type, {})
            of_all.update((key, time) for key, time in of_type.items() if key not in of_all)

    def _profile(self, job: int, known: _Known) -> None:
        """Add what is known before the first run, on GPU types that no earlier job has told of."""
        application = self._applications[job]
        measured: _Rows = {}
        for gpu_type, times in application.step_times.items():
            if gpu_type in known.rows:
                continue
            rows = measured.setdefault(gpu_type, {})
            if self._knows is Knows.ORACLE:
                for shape, size in times.samples():
                    rows[len(shape), sum(shape), max(shape), size, 0] = self._measured(times.at(shape, size))
                continue
            low, high = times.sizes((1,))
            for size in np.unique(np.geomspace(low, high, PROFILED_SIZES).round()).tolist():
                rows[1, 1, 1, int(size), 0] = self._measured(times.at((1,), size))
        known.rows.update(measured)
        self._remember(job, measured)
        if self._knows is Knows.ORACLE:
            known.noise_scale = application.statistics.noise_scale(application.initial_batch_size, 0)

    def _fit(self, job: int, gpu_type: str, rows: dict[_Key, StepTime]) -> ThroughputModel:
        of = self._applications[job], gpu_type, frozenset(rows)
        if not self._noise and of in self._fits:
            return self._fits[of]
        keys = sorted(rows)
        nodes, replicas, densest, local_bsz, accumulation = np.array(keys, np.int64).T
        step_s = np.array([rows[key].step_s for key in keys])
        sync_s = np.clip([rows[key].sync_s for key in keys], 0.0, step_s)
        profile = Profile(
            nodes, replicas, local_bsz, accumulation, step_s, sync_s, np.ones(len(keys), np.int64), densest
        )
        most = self._applications[job].local_bsz[gpu_type][1]
        params = fit(profile)
        found = ThroughputModel(params, most, int(replicas.max()), spread_of(params, profile))
        self._fits[of] = found
        return found

    def _limits(self, job: int) -> BatchLimits:
        application = self._applications[job]
        least = min(low for low, _ in application.local_bsz.values())
        if self._workload.adaptivity[job] is Adaptivity.ADAPTIVE:
            return BatchLimits(application.initial_batch_size, application.max_batch_size, least)
        size = int(self._workload.batch_size[job])
        return BatchLimits(size, size, least, fixed=True)

    def _measured(self, time: StepTime) -> StepTime:
        if not self._noise:
            return time
        blur = self._blur()
        return StepTime(time.step_s * blur, time.sync_s * blur)

    def _blur(self) -> float:
        return float(np.exp(self._noise * self._random.normal())) if self._noise else 1.0


def _foretold(model: ThroughputModel | None, key: _Key, measured: StepTime) -> bool:
    """Return whether a model predicts a step time within `FORETOLD`."""
    if model is None:
        return False
    nodes, replicas, densest, local_bsz, accumulation = key
    said = float(step_time_s(model.params, nodes, replicas, local_bsz, accumulation, densest))
    return abs(said - measured.step_s) <= FORETOLD * measured.step_s
