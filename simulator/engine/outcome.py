"""The outcome of a simulated trace, and the figures by which policies are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.cluster import Cluster
from ..traces.workload import Workload


@dataclass(frozen=True)
class AllocationChange:
    """From `time_s` on a job holds so many GPUs of a type; 0: none. `job`: its position in the workload.

    Of a GPU that two jobs share, each holds a part.
    """

    job: int
    time_s: float
    gpu_type: str
    gpus: float


# Columns with one value per job.
_COLUMNS = ("started_s", "finished_s", "held_s", "attained_gpu_s", "restarts", "preemptions", "failures",
            "measuring_wait_s")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of each job, as columns in the workload's order; times are seconds of the trace."""

    workload: Workload
    cluster: Cluster
    started_s: np.ndarray
    finished_s: np.ndarray
    held_s: np.ndarray  # seconds with GPUs
    attained_gpu_s: np.ndarray
    restarts: np.ndarray
    preemptions: np.ndarray
    failures: np.ndarray  # times a node failed under the job
    measuring_wait_s: np.ndarray  # from submission until a job was measured; nan: it was known
    policy_s: np.ndarray  # per round
    contention: np.ndarray  # (rounds, 2) time and active jobs
    holdings: tuple[AllocationChange, ...]
    # The virtual clusters by name; each has its own nodes. None: all jobs share one cluster.
    parts: Mapping[str, Cluster] | None = None

    def by_part(self) -> Iterator[tuple[np.ndarray, Cluster]]:
        """Yield the positions of the jobs of each virtual cluster, and its nodes."""
        if self.parts is None:
            yield np.arange(len(self.workload)), self.cluster
            return
        names = np.array(self.workload.virtual_clusters)
        for name, cluster in sorted(self.parts.items()):
            if len(jobs := np.flatnonzero(names == name)):
                yield jobs, cluster

    @property
    def jct_s(self) -> np.ndarray:
        """Seconds from submission to end."""
        return self.finished_s - self.workload.submit_s

    @property
    def queueing_s(self) -> np.ndarray:
        """Seconds for which a job was active without GPUs."""
        return np.maximum(self.jct_s - self.held_s, 0.0)  # a difference of equal times may round below 0

    @property
    def makespan_s(self) -> float:
        """Seconds from the first submission to the last end."""
        return float(self.finished_s.max() - self.workload.submit_s.min())

    def select(self, shown: np.ndarray) -> Outcome:
        """Return the outcome of the jobs for which a mask (jobs,) holds, in the same run."""
        place = np.cumsum(shown) - 1
        workload = self.workload.select(shown)
        taken = {name: getattr(self, name)[shown] for name in _COLUMNS}
        arrived_s = workload.submit_s + workload.ready_after_s
        active = [
            (t, np.count_nonzero((arrived_s <= t) & (taken["finished_s"] > t))) for t in self.contention[:, 0]
        ]
        return replace(
            self,
            workload=workload,
            contention=np.array(active, float).reshape(-1, 2),
            holdings=tuple(replace(h, job=int(place[h.job])) for h in self.holdings if shown[h.job]),
            **taken,
        )

    def summary(self) -> dict[str, float]:
        """Return the figures of a run: hours, GPU-hours, counts per job, and milliseconds of the policy."""
        jct_h = np.sort(self.jct_s) / 3600
        policy_ms = self.policy_s * 1e3 if len(self.policy_s) else np.zeros(1)
        return {
            "jobs": float(len(jct_h)),
            "mean_jct_h": float(jct_h.mean()),
            **{f"p{q}_jct_h": float(np.percentile(jct_h, q)) for q in (50, 90, 99)},
            "makespan_h": self.makespan_s / 3600,
            "gpu_hours_per_job": float(self.attained_gpu_s.mean() / 3600),
            "mean_queueing_h": float(self.queueing_s.mean() / 3600),
            "restarts_per_job": float(self.restarts.mean()),
            "preemptions": float(self.preemptions.sum()),
            "failures": float(self.failures.sum()),
            "mean_contention": float(self.contention[:, 1].mean()) if len(self.contention) else 0.0,
            "policy_median_ms": float(np.median(policy_ms)),
            "policy_p95_ms": float(np.percentile(policy_ms, 95)),
            "policy_p99_ms": float(np.percentile(policy_ms, 99)),
        }


def together(outcomes: Sequence[Outcome], workload: Workload, parts: Mapping[str, Cluster]) -> Outcome:
    """Return runs of disjoint parts of one workload on disjoint clusters as one run.

    `parts`: the clusters by name.
    """
    place = {id: i for i, id in enumerate(workload.ids)}
    at = np.concatenate([[place[id] for id in o.workload.ids] for o in outcomes]).astype(np.int64)
    back = np.argsort(at)
    columns: Mapping[str, np.ndarray] = {
        name: np.concatenate([getattr(o, name) for o in outcomes])[back] for name in _COLUMNS
    }
    holdings = [
        AllocationChange(place[o.workload.ids[h.job]], h.time_s, h.gpu_type, h.gpus)
        for o in outcomes
        for h in o.holdings
    ]
    # A policy of fixed sizes made the jobs of each part rigid.
    ran_as = [adaptivity for o in outcomes for adaptivity in o.workload.adaptivity]
    return Outcome(
        workload=replace(workload, adaptivity=tuple(ran_as[i] for i in back)),
        cluster=Cluster(tuple(node for o in outcomes for node in o.cluster.nodes)),
        policy_s=np.concatenate([o.policy_s for o in outcomes]),
        contention=np.concatenate([o.contention for o in outcomes]),
        holdings=tuple(sorted(holdings, key=lambda h: h.time_s)),
        parts=parts,
        **columns,
    )
