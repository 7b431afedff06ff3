"""Rows of jobs with whole GPUs. Logs of clusters have other jobs, too, which no policy here can place."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from ..tables import Row, numbers


def with_gpus(path: Path, rows: list[Row], name: str, round_up: bool = False) -> list[Row]:
    """Return the rows of jobs that ask for whole GPUs, and warn once of the others.

    `round_up`: a part of a GPU becomes a whole one, also in the row.

    Raise ValueError for what is no number of GPUs, and if no job is left.
    """
    counts = numbers(path, rows, name, least=0)
    none, part = counts == 0, counts != np.round(counts)
    if not (none.any() or part.any()):
        return rows
    for row, count in zip(rows, counts, strict=True):
        if round_up and count:
            row[name] = str(int(np.ceil(count)))
    dropped = none if round_up else none | part
    kept = [row for row, drop in zip(rows, dropped, strict=True) if not drop]
    if not kept:
        raise ValueError(nothing_left(path, name, float(counts[0])))
    tell(path, int(none.sum()), int(part.sum()), rows[int((none | part).argmax())].line, round_up)
    return kept


def nothing_left(path: Path, name: str, first: float) -> str:
    """Return the sentence for a trace without a job that asks for a whole GPU."""
    return f"{path}: no job asks for a whole GPU in {name}; the first has {first:g}"


def tell(path: Path, none: int, part: int, line: int, round_up: bool = False) -> None:
    """Warn of rows that were dropped or changed.

    `none`: number of jobs without a GPU.
    `part`: number of jobs with part of a GPU.
    `line`: line of the first of them.
    """
    told = [f"{_jobs(none)} without a GPU left out"] if none else []
    become = "rounded up to whole ones" if round_up else "left out"
    told += [f"{_jobs(part)} with part of a GPU {become}"] if part else []
    warnings.warn(f"{path}: {' and '.join(told)}, the first in line {line}", stacklevel=3)


def _jobs(count: int) -> str:
    return f"{count} job{'s' * (count > 1)}"
