"""Workloads of Sia and Pollux: CSV with name, time, application, num_replicas, batch_size and perhaps category."""

from __future__ import annotations

from pathlib import Path

from ....core.training_config import Adaptivity
from ..tables import named, numbers, read_rows
from ..workload import TraceJob, Workload
from .whole_gpus import with_gpus

_CATEGORIES = {
    "adaptive": Adaptivity.ADAPTIVE,
    "scale-gpus": Adaptivity.STRONG_SCALING,
    "rigid": Adaptivity.RIGID,
}


def read(path: Path) -> Workload:
    """Read a trace. Raise ValueError, with line and value, for a file that is not accepted."""
    rows = read_rows(path, ("name", "time", "application", "num_replicas", "batch_size"), ("category",))
    named(path, rows, "name")
    rows = with_gpus(path, rows, "num_replicas")
    times = numbers(path, rows, "time", least=0)
    gpus = numbers(path, rows, "num_replicas", least=1, whole=True)
    batches = numbers(path, rows, "batch_size", least=1, whole=True)
    jobs = []
    for row, time, gpu, batch in zip(rows, times, gpus, batches, strict=True):
        category = row.get("category") or "adaptive"
        if category not in _CATEGORIES:
            raise ValueError(f"{path}: line {row.line}: category {category!r}; accepted: {', '.join(_CATEGORIES)}")
        jobs.append(
            TraceJob(
                id=row["name"], submit_s=float(time), gpus=int(gpu), application=row["application"],
                batch_size=int(batch), adaptivity=_CATEGORIES[category],
            )
        )  # fmt: skip
    return Workload.of(jobs)
