"""The state of all jobs of a run, and the log of its rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...core.cluster import Cluster
from ...core.placement import Placement
from ..traces.workload import Workload
from .outcome import AllocationChange, Outcome


@dataclass(frozen=True)
class Begun:
    """How far a job is when a run takes it up.

    placement: what it holds; None: nothing.
    pause_s: seconds until it trains there.
    progress, attained_gpu_s, restarts, largest: as of `JobStates`.
    """

    placement: Placement | None = None
    pause_s: float = 0.0
    progress: float = 0.0
    attained_gpu_s: float = 0.0
    restarts: int = 0
    largest: Mapping[str, int] = field(default_factory=dict)


@dataclass
class JobStates:
    """All jobs of the workload as columns. The last eight say what a running job is doing."""

    progress: np.ndarray
    pause_s: np.ndarray
    attained_gpu_s: np.ndarray
    held_s: np.ndarray
    started_s: np.ndarray
    finished_s: np.ndarray
    restarts: np.ndarray
    preemptions: np.ndarray
    failures: np.ndarray
    measuring_wait_s: np.ndarray
    rate: np.ndarray
    boundary: np.ndarray
    saved: np.ndarray  # progress at the last end of an epoch, or start
    saved_s: np.ndarray  # when that was
    gpus: np.ndarray  # held; 0: none
    weight: np.ndarray  # GPUs by the part of each that is held, of a job that holds some
    placements: np.ndarray  # of Placement, None where it has none
    largest: list[dict[str, int]]  # most GPUs ever held, per GPU type
    borrows: np.ndarray  # whether it runs on what other teams leave idle

    @classmethod
    def of(cls, count: int) -> JobStates:
        """Return the states of jobs that nothing has happened to yet."""
        return cls(
            progress=np.zeros(count),
            pause_s=np.zeros(count),
            attained_gpu_s=np.zeros(count),
            held_s=np.zeros(count),
            started_s=np.full(count, np.nan),
            finished_s=np.full(count, np.nan),
            restarts=np.zeros(count, np.int64),
            preemptions=np.zeros(count, np.int64),
            failures=np.zeros(count, np.int64),
            measuring_wait_s=np.full(count, np.nan),
            rate=np.zeros(count),
            boundary=np.zeros(count),
            saved=np.zeros(count),
            saved_s=np.zeros(count),
            gpus=np.zeros(count, np.int64),
            weight=np.zeros(count),
            placements=np.full(count, None, object),
            largest=[{} for _ in range(count)],
            borrows=np.zeros(count, np.bool_),
        )

    def begin(self, job: int, begun: Begun) -> None:
        """Take over how far a job is, all but its placement."""
        self.progress[job] = self.saved[job] = begun.progress
        self.attained_gpu_s[job], self.restarts[job] = begun.attained_gpu_s, begun.restarts
        self.largest[job] = dict(begun.largest)

    def hold(self, job: int, placement: Placement, trains_s: float) -> None:
        """Give a job its GPUs; it trains there from `trains_s` on, for the first time if it never did."""
        if np.isnan(self.started_s[job]):
            self.started_s[job] = trains_s
        self.saved[job], self.saved_s[job] = self.progress[job], trains_s
        self.placements[job], self.gpus[job], self.weight[job] = placement, placement.gpus, placement.weight
        most = self.largest[job]
        most[placement.gpu_type] = max(most.get(placement.gpu_type, 0), placement.gpus)


@dataclass
class RunLog:
    """What a run shows afterwards: who held what when, and what each round took.

    `contention`: (time, active jobs) of each round.
    """

    holdings: list[AllocationChange] = field(default_factory=list)
    policy_s: list[float] = field(default_factory=list)
    contention: list[tuple[float, int]] = field(default_factory=list)

    def holds(self, job: int, placement: Placement | None, now_s: float) -> None:
        """Note that the GPUs of a job change; None: it holds none from now on."""
        gpu_type, gpus = ("", 0) if placement is None else (placement.gpu_type, placement.weight)
        self.holdings.append(AllocationChange(job, now_s, gpu_type, gpus))

    def outcome(self, workload: Workload, cluster: Cluster, jobs: JobStates) -> Outcome:
        """Return what came of a run that is at its end."""
        return Outcome(
            workload=workload,
            cluster=cluster,
            started_s=jobs.started_s,
            finished_s=jobs.finished_s,
            held_s=jobs.held_s,
            attained_gpu_s=jobs.attained_gpu_s,
            restarts=jobs.restarts,
            preemptions=jobs.preemptions,
            failures=jobs.failures,
            measuring_wait_s=jobs.measuring_wait_s,
            policy_s=np.array(self.policy_s),
            contention=np.array(self.contention).reshape(-1, 2),
            holdings=tuple(self.holdings),
        )
