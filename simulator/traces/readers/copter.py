"""Workloads of COpter's public code: CSV with name, time, category and application. Jobs ask for no GPUs."""

from __future__ import annotations

from pathlib import Path

from ....core.training_config import Adaptivity
from ..tables import named, numbers, read_rows
from ..workload import TraceJob, Workload

MOST_GPUS = 2048  # the most that a job may hold, as in that code; its table may say less
CATEGORIES = ("SiaJob", "BatchInferenceJob", "SyntheticSinglePhaseJob")


def read(path: Path) -> Workload:
    """Read a trace. Raise ValueError, with line and value, for a file that is not accepted."""
    rows = read_rows(path, ("name", "time", "category", "application"))
    named(path, rows, "name")
    times = numbers(path, rows, "time", least=0)
    for row in rows:
        if row["category"] not in CATEGORIES:
            accepted = ", ".join(CATEGORIES)
            raise ValueError(f"{path}: line {row.line}: category {row['category']!r}; accepted: {accepted}")
    return Workload.of(
        TraceJob(
            id=row["name"],
            submit_s=float(time),
            application=row["application"],
            adaptivity=Adaptivity.ADAPTIVE,
            max_gpus=MOST_GPUS,
        )
        for row, time in zip(rows, times, strict=True)
    )
