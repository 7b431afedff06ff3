"""Alibaba PAI 2020, and Helios in the same form: CSV with job_id, arrival_s, service_sec, gpu_count."""

from __future__ import annotations

from pathlib import Path

from ..tables import named, numbers, read_rows
from ..workload import TraceJob, Workload
from .whole_gpus import with_gpus


def read(path: Path) -> Workload:
    """Read a trace. Raise ValueError, with line and value, for a file that is not accepted."""
    rows = read_rows(path, ("job_id", "arrival_s", "service_sec", "gpu_count"))
    named(path, rows, "job_id")
    # The published form of the log gives a whole GPU to a job that asked for part of one.
    rows = with_gpus(path, rows, "gpu_count", round_up=True)
    arrivals = numbers(path, rows, "arrival_s", least=0)
    durations = numbers(path, rows, "service_sec", least=0)
    gpus = numbers(path, rows, "gpu_count", least=1, whole=True)
    return Workload.of(
        TraceJob(id=row["job_id"], submit_s=float(arrival), gpus=int(gpu), duration_s=float(duration))
        for row, arrival, duration, gpu in zip(rows, arrivals, durations, gpus, strict=True)
    )
