"""Traces of other systems, and the project's own, as `Workload`s."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..text_file import open_lines
from ..workload import Workload
from . import copter, gavel, helios, jsonl, pai, philly, sia

# Format -> (reader, the columns by which a header is recognised).
FORMATS: dict[str, tuple[Callable[[Path], Workload], frozenset[str]]] = {
    "sia": (sia.read, frozenset({"name", "time", "application", "num_replicas"})),
    "copter": (copter.read, frozenset({"name", "time", "category", "application"})),
    "philly": (philly.read, frozenset({"timestamp", "duration", "num_gpus"})),
    "helios": (helios.read, frozenset({"job_id", "submit_time", "duration", "gpu_num"})),
    "pai": (pai.read, frozenset({"job_id", "arrival_s", "service_sec", "gpu_count"})),
}


def read_trace(path: Path, format: str | None = None) -> Workload:
    """A trace of any known format, recognised by its header where `format` is not given.

    Raises ValueError, in one sentence, for a file that is missing, of no known format or wrong in some row.
    """
    if not path.is_file():
        raise ValueError(f"trace: {path} does not exist or is no file")
    if format is None:
        format = _recognised(path)
    if format == "jsonl":
        return jsonl.read(path)
    if format == "gavel":
        return gavel.read(path)
    if format not in FORMATS:
        raise ValueError(
            f"trace: format {format!r} is unknown; accepted: gavel, jsonl, {', '.join(sorted(FORMATS))}"
        )
    return FORMATS[format][0](path)


def _recognised(path: Path) -> str:
    with open_lines(path) as lines:
        line = next(lines, "")
    first = line.strip()
    if gavel.looks_like(line):
        return "gavel"
    if first.startswith("{"):
        return "jsonl"
    header = set(first.split(","))
    for name, (_, columns) in FORMATS.items():
        if columns <= header:
            return name
    accepted = ", ".join(["gavel", "jsonl", *FORMATS])
    raise ValueError(f"trace: {path} begins with {first[:60]!r}, as no known format does; name one: {accepted}")
