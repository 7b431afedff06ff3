"""ElasticFlow's deadline traces (Gu et al., ASPLOS'23): CSV with all times in seconds, and an absolute deadline.

Columns: job_id, submit_time, ddl, num_gpu, duration, model_name, and best_effort where there is one.
"""

from __future__ import annotations

from pathlib import Path

from ....core.rewards import Rewards
from ..tables import numbers, read_rows
from ..workload import TraceJob, Workload
from .whole_gpus import with_gpus

NEEDED = ("job_id", "submit_time", "ddl", "num_gpu", "duration")


def read(path: Path) -> Workload:
    """Read a trace; submit times count from the first job. A job's name is its model.

    Raise ValueError, with line, column and value, for a file that is not accepted. Warn of jobs without GPUs,
    which are left out.
    """
    rows = with_gpus(path, read_rows(path, NEEDED, ("model_name", "best_effort")), "num_gpu")
    gpus = numbers(path, rows, "num_gpu", least=1, whole=True)
    submitted = numbers(path, rows, "submit_time", least=0)
    durations = numbers(path, rows, "duration", least=0)
    due = numbers(path, rows, "ddl", least=0)
    jobs, start = [], float(submitted.min())
    for row, gpu, submit, took, by in zip(rows, gpus, submitted, durations, due, strict=True):
        best_effort = (row.get("best_effort") or "0") == "1"
        if by <= submit and not best_effort:
            raise ValueError(
                f"{path}: line {row.line}: ddl {row['ddl']} is not after submit_time {row['submit_time']}; "
                "a later second of the trace is accepted"
            )
        rewards = None if best_effort else Rewards.strict(float(by - submit))
        jobs.append(
            TraceJob(
                id=row["job_id"], submit_s=float(submit) - start, gpus=int(gpu), duration_s=float(took),
                name=row.get("model_name") or "", rewards=rewards,
            )
        )  # fmt: skip
    return Workload.of(jobs)
