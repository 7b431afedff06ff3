"""Helios cluster logs (Hu et al., SC'21): CSV with job_id, vc, gpu_num, submit_time, duration.

Columns that are there or not: user, cpu_num, state, jobname, queue.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..final_state import final_state
from ..tables import instants, named, numbers, read_rows
from ..workload import TraceJob, Workload
from .whole_gpus import with_gpus


def read(path: Path) -> Workload:
    """Read a trace; submit times count from the first job. Raise ValueError, with line and value, for bad
    input.
    """
    known = ("user", "cpu_num", "state", "jobname", "queue")
    rows = read_rows(path, ("job_id", "vc", "gpu_num", "submit_time", "duration"), known)
    named(path, rows, "job_id")
    rows = with_gpus(path, rows, "gpu_num")
    submitted = instants(path, rows, "submit_time")
    gpus = numbers(path, rows, "gpu_num", least=1, whole=True)
    durations = numbers(path, rows, "duration", least=0)
    cpus = numbers(path, rows, "cpu_num", least=0) if "cpu_num" in rows[0] else np.zeros(len(rows))
    waited: list[float] | list[None] = [None] * len(rows)
    if "queue" in rows[0]:
        waited = numbers(path, rows, "queue", least=0).tolist()
    start = submitted.min()
    jobs = (
        TraceJob(
            id=row["job_id"], submit_s=float(submit - start), gpus=int(gpu), duration_s=float(duration),
            virtual_cluster=row["vc"], user=row.get("user") or "", name=row.get("jobname") or "", cpus=float(cpu),
            state=final_state(row.get("state") or ""), waited_s=wait,
        )
        for row, submit, gpu, cpu, duration, wait in zip(
            rows, submitted, gpus, cpus, durations, waited, strict=True
        )
    )  # fmt: skip
    return Workload.of(jobs, began_s=float(start))
