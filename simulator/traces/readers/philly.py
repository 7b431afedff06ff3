"""Microsoft Philly as Pollux prepared it: CSV with timestamp, duration, num_gpus, cluster. Jobs have no ids."""

from __future__ import annotations

from pathlib import Path

from ..tables import instants, numbers, read_rows
from ..workload import TraceJob, Workload
from .whole_gpus import with_gpus


def read(path: Path) -> Workload:
    """Read a trace; submit times count from the first job, and a job's id is its line.

    Raise ValueError, with line and value, for a file that is not accepted.
    """
    rows = with_gpus(path, read_rows(path, ("timestamp", "duration", "num_gpus"), ("cluster",)), "num_gpus")
    submitted = instants(path, rows, "timestamp")
    durations = numbers(path, rows, "duration", least=0)
    gpus = numbers(path, rows, "num_gpus", least=1, whole=True)
    start = submitted.min()
    order = submitted.argsort(kind="stable")  # the file is not sorted by time
    jobs = (
        TraceJob(
            id=f"line-{rows[i].line}", submit_s=float(submitted[i] - start), gpus=int(gpus[i]),
            duration_s=float(durations[i]), virtual_cluster=rows[i].get("cluster") or "",
        )
        for i in order
    )  # fmt: skip
    return Workload.of(jobs, began_s=float(start))
