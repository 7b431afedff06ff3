"""The project's own traces: one JSON object a line, fields as in `TraceJob`; the live service writes them too."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..tables import open_text
from ..workload import TraceJob, Workload

_JOB = TypeAdapter(TraceJob)


def read(path: Path) -> Workload:
    """Raises ValueError with line, field and value for whatever is wrong with the file."""
    jobs = []
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                jobs.append(_JOB.validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(str(part) for part in first["loc"])
                raise ValueError(f"{path}: line {number}: {field or 'the line'}: {first['msg']}") from None
    if not jobs:
        raise ValueError(f"{path}: no jobs")
    return Workload.of(jobs)


def write(path: Path, jobs: Iterable[TraceJob]) -> None:
    path.write_text("".join(_JOB.dump_json(job, exclude_defaults=True).decode() + "\n" for job in jobs))
