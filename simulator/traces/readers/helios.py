"""Helios cluster logs (Hu et al., SC'21): CSV with job_id, user, vc, gpu_num, submit_time, duration."""

from __future__ import annotations

from pathlib import Path

from ..tables import DAY_S, instants, named, numbers, read_rows
from ..workload import TraceJob, Workload
from .whole_gpus import with_gpus


def read(path: Path) -> Workload:
    """Read a trace; submit times count from the first job. Raise ValueError, with line and value, for bad
    input.
    """
    rows = read_rows(path, ("job_id", "vc", "gpu_num", "submit_time", "duration"), ("user",))
    named(path, rows, "job_id")
    rows = with_gpus(path, rows, "gpu_num")
    submitted = instants(path, rows, "submit_time")
    gpus = numbers(path, rows, "gpu_num", least=1, whole=True)
    durations = numbers(path, rows, "duration", least=0)
    start = submitted.min()
    jobs = (
        TraceJob(
            id=row["job_id"], submit_s=float(submit - start), gpus=int(gpu), duration_s=float(duration),
            virtual_cluster=row["vc"], user=row.get("user") or "",
        )
        for row, submit, gpu, duration in zip(rows, submitted, gpus, durations, strict=True)
    )  # fmt: skip
    return Workload.of(jobs, clock_s=float(start % DAY_S))
