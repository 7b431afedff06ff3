"""What each job of a trace uses of its GPUs: as the trace says, or a file, `--usage FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.usage import Usage
from ...estimators.affinity.uses import row_of, usage_of
from .recorded import RecordedUse
from .tables import Floats, Row, read_rows

KNOWN = ("kind", "gpu_util_percent", "memory_util_percent", "memory_gib", "mixed_precision")
COLUMNS = ", ".join(("job_id", *KNOWN))


@dataclass(frozen=True, eq=False)
class JobUsage:
    """What the jobs of a workload use: kinds, which name jobs of a table of pairs; uses; and (jobs, 4) rows."""

    kinds: tuple[str, ...]
    usage: tuple[Usage | None, ...]
    rows: Floats


def unknown(count: int) -> JobUsage:
    """Return jobs of which nobody knows what they use."""
    return JobUsage(("",) * count, (None,) * count, np.full((count, 4), np.nan))


def of_trace(uses: Sequence[RecordedUse | None]) -> JobUsage:
    """Return what jobs use by the trace itself."""
    rest = unknown(len(uses))
    rows = [row if one is None else one.row for one, row in zip(uses, rest.rows, strict=True)]
    return JobUsage(
        rest.kinds, tuple(None if one is None else one.usage for one in uses), np.array(rows).reshape(-1, 4)
    )


def read_usage(path: Path, ids: Sequence[str]) -> JobUsage:
    """Return what jobs use by a file; a job that the file lacks is unknown.

    Raises:
        ValueError: in one sentence, for a file that cannot be read, a job that stands twice, or a bad number.
    """
    found: dict[str, tuple[str, Usage, bool | None]] = {}
    rows = read_rows(path, ("job_id",), KNOWN)
    if unknown_ones := [name for name in rows[0] if name not in ("job_id", *KNOWN)]:
        raise ValueError(f"{path.name}: column {unknown_ones[0]!r} is unknown; the columns are {COLUMNS}")
    for row in rows:
        number = row.line
        where = f"{path.name}, line {number}"
        job = _text(row, "job_id", where)
        if job in found:
            raise ValueError(f"{where}: job_id {job} stands twice; each job is accepted once")
        gpu, memory, gib = (
            _number(row, name, where) for name in ("gpu_util_percent", "memory_util_percent", "memory_gib")
        )
        try:
            usage = usage_of(None if gpu is None else gpu / 100, None if memory is None else memory / 100, gib)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        mixed = _number(row, "mixed_precision", where)
        if mixed not in (None, 0.0, 1.0):
            raise ValueError(f"{where}: mixed_precision {mixed:g} is not accepted, must be 0 or 1")
        found[job] = str(row.get("kind") or ""), usage, None if mixed is None else bool(mixed)
    if len(ids) and not any(id in found for id in ids):
        raise ValueError(f"{path.name}: none of its jobs is in the trace, such as {next(iter(found))!r}")
    rest = unknown(1)
    known = [found.get(id) for id in ids]
    values = [rest.rows[0] if one is None else row_of(one[1], one[2]) for one in known]
    return JobUsage(
        tuple("" if one is None else one[0] for one in known),
        tuple(None if one is None else one[1] for one in known),
        np.array(values).reshape(-1, 4),
    )


def _text(row: Row, name: str, where: str) -> str:
    value = row.get(name)
    if value in (None, ""):
        raise ValueError(f"{where}: {name} is missing; the columns are {COLUMNS}")
    return str(value)


def _number(row: Row, name: str, where: str) -> float | None:
    value = row.get(name)
    if value in (None, ""):
        return None
    try:
        return float(str(value))
    except ValueError:
        raise ValueError(f"{where}: {name} {value!r} is no number") from None
