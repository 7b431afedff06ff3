"""Gavel's traces (OSDI'20): tab-separated lines without a header, with jobs of a number of steps.

The first five fields of a line are job type, command, working directory, argument for the steps, and whether it
needs data. Then come total steps, scale factor (GPUs), priority weight, SLO, and arrival in seconds. Older
traces have seven fields: job type, command, argument for the steps, whether it needs data, total steps,
arrival, scale factor.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path

from ..text_file import open_lines, rows_left
from ..workload import TraceJob, Workload
from .whole_gpus import nothing_left, tell

# Number of fields -> position of each field that is read; the job type is the first.
LAYOUTS = {
    10: {"total_steps": 5, "scale_factor": 6, "priority_weight": 7, "SLO": 8, "arrival_time": 9},
    7: {"total_steps": 4, "arrival_time": 5, "scale_factor": 6},
}
_PLAIN = {"priority_weight": 1.0, "SLO": -1.0}  # no priority and no SLO


def looks_like(line: str) -> bool:
    """Return whether a file that begins with this line may be one of Gavel's."""
    return line.count("\t") + 1 in LAYOUTS


def read(path: Path) -> Workload:
    """Read the jobs, whose ids are their numbers in the trace.

    Warn of priority weights and SLOs, which are ignored here. Raise ValueError, with line, field and value, for
    a file that is not accepted.
    """
    jobs: list[TraceJob] = []
    ignored: dict[str, int] = {}
    left_out: list[tuple[int, float]] = []  # line, GPUs
    with open_lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip() or line.startswith("#"):
                continue
            rows_left(path, len(jobs) + len(left_out) + 1)
            fields = line.rstrip("\r\n").split("\t")
            layout = LAYOUTS.get(len(fields))
            if layout is None:
                raise ValueError(f"{path}: line {number}: {len(fields)} fields between tabs, must be 10 or 7")
            if not fields[0]:
                raise ValueError(f"{path}: line {number}: the job type is empty")
            found = {name: _number(path, number, name, fields[at]) for name, at in layout.items()}
            gpus = found["scale_factor"]
            if gpus != int(gpus) or not gpus:
                left_out.append((number, gpus))
                continue
            for name, plain in _PLAIN.items():
                if found.get(name, plain) != plain:
                    ignored.setdefault(name, number)
            jobs.append(
                TraceJob(
                    id=str(len(jobs) + len(left_out)), submit_s=found["arrival_time"], gpus=int(gpus),
                    application=fields[0], steps=int(found["total_steps"]),
                )
            )  # fmt: skip
    if not jobs:
        raise ValueError(nothing_left(path, "scale_factor", left_out[0][1]) if left_out else f"{path}: no jobs")
    if left_out:
        none = sum(not gpus for _, gpus in left_out)
        tell(path, none, len(left_out) - none, left_out[0][0])
    for name, number in ignored.items():
        warnings.warn(f"{path}: line {number} has a {name} of its own; no policy heeds it", stacklevel=2)
    return Workload.of(jobs)


def _number(path: Path, line: int, name: str, text: str) -> float:
    """Return a field as a number. Raise ValueError if it is none or out of range."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{path}: line {line}: {name} {text!r} is not a number") from None
    least = {"total_steps": 1, "scale_factor": 0, "arrival_time": 0}.get(name, -math.inf)
    whole = name == "total_steps"
    if not math.isfinite(value) or value < least or (whole and value != round(value)):
        wanted = ("a whole number" if whole else "a number") + (f" of at least {least:g}" if least >= 0 else "")
        raise ValueError(f"{path}: line {line}: {name} {text} is not accepted, must be {wanted}")
    return value
