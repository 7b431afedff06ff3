"""Traces of other systems, and the project's own, as `Workload`s."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..tables import header_of
from ..text_file import open_lines
from ..workload import Workload
from . import chronus, copter, elasticflow, gavel, helios, jsonl, pai, philly, sia, synergy

# Format -> (reader, columns that identify its header).
FORMATS: dict[str, tuple[Callable[[Path], Workload], frozenset[str]]] = {
    "sia": (sia.read, frozenset({"name", "time", "application", "num_replicas"})),
    "copter": (copter.read, frozenset({"name", "time", "category", "application"})),
    "philly": (philly.read, frozenset({"timestamp", "duration", "num_gpus"})),
    "helios": (helios.read, frozenset({"job_id", "submit_time", "duration", "gpu_num"})),
    "chronus": (chronus.read, frozenset(chronus.NEEDED)),
    "elasticflow": (elasticflow.read, frozenset(elasticflow.NEEDED)),
    "pai": (pai.read, frozenset({"job_id", "arrival_s", "service_sec", "gpu_count"})),
}
WITHOUT_HEADER: dict[str, Callable[[Path], Workload]] = {"gavel": gavel.read, "synergy": synergy.read}


def read_trace(path: Path, format: str | None = None) -> Workload:
    """Read a trace of any known format. Its header says which, unless `format` is given.

    Raise ValueError, in one sentence, for a file that is missing, of no known format or wrong in some row.
    """
    if not path.is_file():
        raise ValueError(f"trace: {path} does not exist or is no file")
    if format is None:
        format = _recognised(path)
    if format == "jsonl":
        return jsonl.read(path)
    if format in WITHOUT_HEADER:
        return WITHOUT_HEADER[format](path)
    if format not in FORMATS:
        accepted = ", ".join([*WITHOUT_HEADER, "jsonl", *sorted(FORMATS)])
        raise ValueError(f"format: {format!r} is unknown; accepted: {accepted}")
    return FORMATS[format][0](path)


def _recognised(path: Path) -> str:
    """Return the format of the first line that is neither blank nor a comment.

    A header behind a `#` above that line counts, too. Raise ValueError if no format is recognised.
    """
    commented = first = ""
    with open_lines(path) as lines:
        for line in lines:
            if not (first := line.strip().lstrip("\ufeff")):
                continue
            if not first.startswith("#"):
                break
            commented = _with_columns(line) or commented
            first = ""
    if found := _with_columns(first) or commented:
        return found
    if gavel.looks_like(line if first else ""):
        return "gavel"
    if first.startswith("{"):
        return "jsonl"
    if synergy.looks_like(first):
        return "synergy"
    accepted = ", ".join([*WITHOUT_HEADER, "jsonl", *FORMATS])
    raise ValueError(
        f"trace: {path} begins with {first[:60]!r}, as no known format does{_nearest(first)}; name one: {accepted}"
    )


def _with_columns(line: str) -> str:
    """Return the format whose columns a line names; "": none."""
    return next((name for name, (_, columns) in FORMATS.items() if header_of(line, columns)), "")


def _nearest(line: str) -> str:
    """Return what a header lacks of the nearest format; "": no format is near."""
    lacks = {
        name: [needed for needed in sorted(columns) if not header_of(line, [needed])]
        for name, (_, columns) in FORMATS.items()
    }
    name, missing = min(lacks.items(), key=lambda item: len(item[1]) / len(FORMATS[item[0]][1]))
    if len(FORMATS[name][1]) - len(missing) < 2:
        return ""
    return f" (of {name} it lacks {', '.join(missing)})"
