"""Synergy's traces (OSDI'22): CSV without a header, with job, model, arrival in s, iterations and GPUs."""

from __future__ import annotations

import math
from pathlib import Path

from ..text_file import open_lines
from ..workload import TraceJob, Workload

FIELDS = ("job_id", "model", "arrival", "iterations", "num_gpus")
_LEAST = {"arrival": 0, "iterations": 1, "num_gpus": 1}


def looks_like(line: str) -> bool:
    """Return whether a file that begins with this line may be one of Synergy's."""
    fields = line.strip().split(",")
    if len(fields) != len(FIELDS):
        return False
    try:
        [float(text) for text in fields[2:]]
    except ValueError:
        return False
    return True


def read(path: Path) -> Workload:
    """Read the jobs; each trains its iterations of a model whose profile says how fast.

    Raise ValueError, with line, field and value, for a file that is not accepted.
    """
    jobs: list[TraceJob] = []
    with open_lines(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            fields = [text.strip() for text in line.strip().split(",")]
            if len(fields) != len(FIELDS):
                raise ValueError(
                    f"{path}: line {number}: has {len(fields)} fields; {', '.join(FIELDS)} are accepted"
                )
            found = {
                name: _number(path, number, name, text) for name, text in zip(FIELDS[2:], fields[2:], strict=True)
            }
            if not fields[1]:
                raise ValueError(f"{path}: line {number}: model is empty")
            jobs.append(
                TraceJob(
                    id=fields[0],
                    submit_s=found["arrival"],
                    gpus=int(found["num_gpus"]),
                    application=fields[1],
                    steps=int(found["iterations"]),
                )
            )
    if not jobs:
        raise ValueError(f"{path}: no jobs")
    return Workload.of(jobs)


def _number(path: Path, line: int, name: str, text: str) -> float:
    """Return a field as a number. Raise ValueError if it is none or out of range."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{path}: line {line}: {name} {text!r} is not a number") from None
    whole = name != "arrival"
    if not math.isfinite(value) or value < _LEAST[name] or (whole and value != round(value)):
        kind = "a whole number" if whole else "a number"
        raise ValueError(
            f"{path}: line {line}: {name} {text} is not accepted, must be {kind} of at least {_LEAST[name]}"
        )
    return value
