"""Estimates of how long jobs take, made elsewhere: CSV with a column of job ids and one of seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .tables import named, numbers, read_rows

ID, SECONDS = "job_id", ("estimate_s", "priority")  # the second is what files of Lucid call it


def read_estimates(path: Path, ids: Sequence[str]) -> dict[str, float]:
    """Return seconds by job id, of the jobs of a trace.

    Raise ValueError, in one sentence, for a file that cannot be read, and for a number that is NaN, infinite or
    negative. Each job of the trace needs one estimate, and no other may be there.
    """
    rows = read_rows(path, (ID,), SECONDS)
    named(path, rows, ID)
    column = next((name for name in SECONDS if name in rows[0]), None)
    if column is None:
        raise ValueError(f"{path}: column 'estimate_s' is missing; the header has {', '.join(rows[0])[:200]}")
    known = set(ids)
    for row in rows:
        if row[ID] not in known:
            raise ValueError(f"{path}: line {row.line}: job {row[ID]!r} is not in the trace")
    for id, count in Counter(row[ID] for row in rows).most_common(1):
        if count > 1:
            raise ValueError(f"{path}: job {id!r} has {count} estimates; one is accepted")
    found = dict(zip((row[ID] for row in rows), numbers(path, rows, column, least=0).tolist(), strict=True))
    if missing := [id for id in ids if id not in found]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"{path}: job {missing[0]!r}{more} has no estimate")
    return found
