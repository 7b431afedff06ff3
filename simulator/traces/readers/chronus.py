"""Chronus' deadline traces (Gao et al., SoCC'21): CSV with all times in minutes.

Columns: job_id, user, num_gpu, submit_time, duration, expect_time_list, expect_value_list, job_type, model_name.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from ....core.rewards import Rewards
from ..tables import Row, numbers, read_rows
from ..workload import TraceJob, Workload
from .whole_gpus import with_gpus

NEEDED = ("job_id", "num_gpu", "submit_time", "duration", "expect_time_list", "expect_value_list", "job_type")
KINDS = ("strict", "soft", "best")
WORTH = 10.0  # of one of its units of value, of which ending in time brings ten
MINUTE_S = 60.0
_A_WEEK_MIN = 10_080.0


def read(path: Path) -> Workload:
    """Read a trace. A job's name is its model; jobs of kind `best` have no deadline.

    Raise ValueError, with line, column and value, for a file that is not accepted. Warn of jobs without GPUs,
    which are left out, and of times that seem to be seconds.
    """
    rows = with_gpus(path, read_rows(path, NEEDED, ("user", "model_name")), "num_gpu")
    gpus = numbers(path, rows, "num_gpu", least=1, whole=True)
    submitted = numbers(path, rows, "submit_time", least=0)
    durations = numbers(path, rows, "duration", least=0)
    if len(rows) and float(np.median(durations)) > _A_WEEK_MIN:
        warnings.warn(
            f"{path}: half of the jobs take more than a week; this format has minutes, and these may be seconds",
            stacklevel=2,
        )
    jobs = (
        TraceJob(
            id=row["job_id"], submit_s=float(submit) * MINUTE_S, gpus=int(gpu), duration_s=float(took) * MINUTE_S,
            user=row.get("user") or "", name=row.get("model_name") or "", rewards=_rewards(path, row),
        )
        for row, gpu, submit, took in zip(rows, gpus, submitted, durations, strict=True)
    )  # fmt: skip
    return Workload.of(jobs)


def _rewards(path: Path, row: Row) -> Rewards | None:
    """Return a job's deadlines; None: it is best effort."""
    kind = row["job_type"]
    if kind not in KINDS:
        raise ValueError(f"{path}: line {row.line}: job_type {kind!r} is unknown; accepted: {', '.join(KINDS)}")
    if kind == "best":
        return None
    times, worths = (_listed(path, row, name) for name in ("expect_time_list", "expect_value_list"))
    if len(times) != len(worths):
        raise ValueError(
            f"{path}: line {row.line}: expect_time_list has {len(times)} deadlines and expect_value_list "
            f"{len(worths)} values; as many of both are accepted"
        )
    try:
        return Rewards.of((at * MINUTE_S, worth * WORTH) for at, worth in zip(times, worths, strict=True))
    except ValueError as error:
        raise ValueError(f"{path}: line {row.line}: {error}") from None


def _listed(path: Path, row: Row, name: str) -> list[float]:
    """Return the numbers of a field in which `-` stands between them."""
    try:
        return [float(text) for text in row[name].split("-")]
    except ValueError:
        raise ValueError(f"{path}: line {row.line}: {name} {row[name]!r} is no list like 159-189-229") from None
