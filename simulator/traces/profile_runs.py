"""The profile runs that a live cluster made of its jobs. They hold GPUs that other jobs then do not have."""

from __future__ import annotations

from ...core.training_config import Adaptivity
from .cluster_file import WHOLE, SimulatedCluster
from .recorded import RecordedModel, RecordedThroughput
from .workload import TraceJob, Workload

_AT_ONCE_S = 1e-3  # 0 would say that a job must be profiled first
_ONE_STEP_A_SECOND = {"alpha_c": 0.5, "beta_c": 0.5}


def with_profile_runs(workload: Workload, cluster: SimulatedCluster) -> Workload:
    """Return the jobs, and each of their profile runs as a job that takes as long and may not be stopped.

    Runs for which no node has room are left out.
    """
    if not any(workload.profiles):
        return workload
    room = {
        name: {t: max(node.gpus for node in part.of_type(t)) for t in part.gpu_types}
        for name, part in cluster.parts.items()
    }
    pool = workload.virtual_clusters if cluster.pools else [WHOLE] * len(workload)
    runs = [
        _job(workload, job, number)
        for job, mine in enumerate(workload.profiles)
        for number, run in enumerate(mine)
        if run.gpus <= room.get(pool[job], {}).get(run.gpu_type, 0)
    ]
    return workload.and_also(Workload.of(runs))


def _job(workload: Workload, job: int, number: int) -> TraceJob:
    run = workload.profiles[job][number]
    return TraceJob(
        id=f"{workload.ids[job]}/profile/{number}",
        submit_s=float(workload.submit_s[job]),
        ready_after_s=max(run.after_s, _AT_ONCE_S),
        gpus=run.gpus,
        max_gpus=run.gpus,
        batch_size=1,
        adaptivity=Adaptivity.RIGID,
        virtual_cluster=workload.virtual_clusters[job],
        preemptible=False,
        model=RecordedModel(
            throughput={run.gpu_type: RecordedThroughput(_ONE_STEP_A_SECOND, 1, run.gpus)},
            initial_batch_size=1,
            max_batch_size=1,
            samples=run.for_s,
        ),
    )
