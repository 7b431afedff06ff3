"""Small traces to study, with as much or as little as a trace may know."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from coadapt.simulator.study.capacity import Capacity
from coadapt.simulator.study.jobs import StudiedJobs
from coadapt.simulator.study.study import Study, study
from coadapt.simulator.traces.final_state import FinalState
from coadapt.simulator.traces.tables import instant
from coadapt.simulator.traces.workload import TraceJob, Workload

BEGAN = "2020-09-01 00:00:00"
HOUR_S, DAY_S = 3600.0, 86_400.0


def workload(jobs: Sequence[TraceJob], began: str | None = BEGAN) -> Workload:
    return Workload.of(jobs, began_s=0.0 if began is None else instant(began))


def studied(jobs: Sequence[TraceJob], began: str | None = BEGAN) -> StudiedJobs:
    return StudiedJobs.of_trace(workload(jobs, began))


def a_month(days: int = 40, waits: bool = True, seed: int = 0) -> list[TraceJob]:
    """Return jobs of two virtual clusters and 40 users; most come by day, and one user waits for nearly all."""
    rng = np.random.default_rng(seed)
    jobs = []
    for day in range(days):
        for i in range(40):
            hour = rng.normal(14, 3) % 24
            large = i % 4 == 0
            waiting = 7200.0 if i == 0 else 10.0
            length = 90.0 if i % 3 == 0 else 20_000.0 if large else 1200.0
            jobs.append(
                TraceJob(
                    f"{day}-{i}",
                    day * DAY_S + hour * HOUR_S,
                    gpus=16 if large else 1,
                    duration_s=length,
                    virtual_cluster="big" if large else "small",
                    user=f"u{i}",
                    state=FinalState.FAILED if i % 3 == 0 else FinalState.CANCELLED if i % 3 == 1 else None,
                    waited_s=waiting if waits else None,
                )
            )
    return sorted(
        (job if job.state else TraceJob(**{**vars(job), "state": FinalState.COMPLETED}) for job in jobs),
        key=lambda job: job.submit_s,
    )


def whole(jobs: Sequence[TraceJob], gpus: dict[str, int] | None = None, began: str | None = BEGAN) -> Study:
    """Return the study of jobs; `gpus`: of each virtual cluster, where they are known."""
    has = None if gpus is None else Capacity(sum(gpus.values()), {name: n for name, n in gpus.items() if name})
    return study(studied(jobs, began), has, "trace.csv")


# What a trace may lack, each with jobs that any study must take.
POOR: dict[str, list[TraceJob]] = {
    "one job": [TraceJob("a", 0.0, 1, 60.0)],
    "a job of no length": [TraceJob("a", 0.0, 1, 0.0)],
    "two jobs at once": [TraceJob("a", 5.0, 2, 1.0), TraceJob("b", 5.0, 1, 1.0)],
    "applications only": [TraceJob("a", 0.0, 1, application="bert"), TraceJob("b", 9.0, 4, application="bert")],
    "some lengths": [TraceJob("a", 0.0, 1, 60.0), TraceJob("b", 9.0, 4, application="bert")],
    "some names": [TraceJob("a", 0.0, 1, 60.0, user="u", virtual_cluster="v"), TraceJob("b", 9.0, 4, 5.0)],
    "one state": [TraceJob("a", 0.0, 1, 60.0, state=FinalState.TIMEOUT), TraceJob("b", 9.0, 4, 5.0)],
    "one wait": [TraceJob("a", 0.0, 1, 60.0, waited_s=5.0), TraceJob("b", 9.0, 4, 5.0)],
    "a million GPUs": [TraceJob("a", 0.0, 1_000_000, 60.0), TraceJob("b", 3 * DAY_S, 1, 1e11)],
    "three thousand years": [TraceJob("a", 0.0, 1, 60.0), TraceJob("b", 1e11, 4, 5.0)],
    "a year of one job a month": [TraceJob(str(i), i * 30 * DAY_S, 1 + i % 2, 1e6, user="u") for i in range(12)],
}
