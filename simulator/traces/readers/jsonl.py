"""The project's own traces: one JSON object per line, with the fields of `TraceJob`. The live service writes
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..text_file import open_lines, rows_left
from ..workload import TraceJob, Workload

_JOB = TypeAdapter(TraceJob)


def read(path: Path) -> Workload:
    """Read a trace. Raise ValueError, with line, field and value, for a file that is not accepted."""
    jobs: list[TraceJob] = []
    with open_lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip() or line.startswith("#"):
                continue
            rows_left(path, len(jobs) + 1)
            try:
                job = _JOB.validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(str(part) for part in first["loc"])
                said = first["msg"].removeprefix("Value error, ")
                if first["type"] == "unexpected_keyword_argument":
                    accepted = ", ".join(one.name for one in fields(TraceJob))
                    raise ValueError(
                        f"{path}: line {number}: {field} is no field of a job; accepted: {accepted}"
                    ) from None
                raise ValueError(f"{path}: line {number}: {field or 'the line'}: {said}") from None
            if not job.id.strip():
                raise ValueError(f"{path}: line {number}: id is empty; every job needs a name of its own")
            jobs.append(job)
    if not jobs:
        raise ValueError(f"{path}: no jobs")
    return Workload.of(jobs)


def write(path: Path, jobs: Iterable[TraceJob]) -> None:
    """Write jobs to a file; fields at their defaults are left out."""
    path.write_text("".join(_JOB.dump_json(job, exclude_defaults=True).decode() + "\n" for job in jobs))
