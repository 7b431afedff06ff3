"""What the log tells of the trials of a group. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.reports import TrialRow


def of_row(row: TrialRow) -> dict[str, Any]:
    """Return what the log tells of an epoch of a group: a number of each trial for each metric."""
    return {
        "text": _told(row),
        "epoch": row.epoch,
        "trials": list(row.trials),
        "metrics": {name: list(values) for name, values in row.metrics.items()},
        "left": list(row.left),
        "memory_gib": row.memory_gib,
        "gpu_gib": row.gpu_gib,
        "notes": list(row.notes),
    }


def _told(row: TrialRow) -> str:
    if row.notes:
        return "; ".join(row.notes)
    after = f"epoch {row.epoch}, {n_trials(len(row.trials))}"
    if not row.metrics:
        return f"{after} go on; the states of {', '.join(map(str, row.left)) or 'none'} are kept for others"
    spans = [f"{name} {_span([one for one in own if math.isfinite(one)])}" for name, own in row.metrics.items()]
    return f"{after}: {', '.join(spans)}"


def _span(values: Sequence[float]) -> str:
    if not values:
        return "nan"
    least, most = min(values), max(values)
    return f"{least:.4g}" if least == most else f"{least:.4g} to {most:.4g}"


def n_trials(count: int) -> str:
    """Return a number of trials in words."""
    return f"{count} trial" if count == 1 else f"{count} trials"
