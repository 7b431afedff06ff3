"""One row for all jobs of an array, as lists show it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .schemas import JobRow


def summed(rows: Sequence[JobRow]) -> JobRow:
    """Return a row for all jobs of an array: how many do what, their GPUs together, and how far they are."""
    counts = Counter(row["status"] for row in rows)
    types = {row["gpu_type"] for row in rows if row["gpus"]}
    going = [row for row in rows if row["finished_s"] is None]
    ends = [row["ends_s"] for row in going]
    first: JobRow = rows[0].copy()
    first |= {
        "id": first["array"],
        "status": ", ".join(f"{count} {status}" for status, count in counts.most_common()),
        "reason": "",
        "wait_reason": None,
        "gpu_type": types.pop() if len(types) == 1 else None,
        "gpus": sum(row["gpus"] for row in rows),
        "nodes": sorted({node for row in rows for node in row["nodes"]}),
        "batch_size": None,
        "lr": None,
        "epoch": None,
        "fraction": sum(row["fraction"] for row in rows) / len(rows),
        "ends_s": max((one for one in ends if one is not None), default=None) if None not in ends else None,
        "metrics": {},
        "steps": sum(row["steps"] for row in rows),
        "submitted_s": min(row["submitted_s"] for row in rows),
        "finished_s": None if going else max(row["finished_s"] or 0.0 for row in rows),
        "restarts": sum(row["restarts"] for row in rows),
    }
    return first
