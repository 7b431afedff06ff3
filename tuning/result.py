"""What a study found: the job with the best values, and a row for each trial. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .space import Value
from .state import Run, StudyState

VARIABLE = "COADAPT_HYPERPARAMETERS"  # what a script reads its values from


@dataclass(frozen=True)
class TrialRow:
    """A trial as users see it; one row for each width that it was trained at.

    `best`: the best metric after any epoch. `last`: that after the last. `gpu_s`: its part of its groups'.
    """

    trial: int
    shrink: int
    state: str
    values: Mapping[str, Value]
    epochs: int
    best: float | None
    last: float | None
    gpu_s: float
    group: str
    message: str


def rows(state: StudyState) -> list[TrialRow]:
    """Return what is known of every trial, by number; promoted ones also at their other widths."""
    return [_row(state, run) for _, run in sorted(state.runs.items(), key=lambda pair: (pair[1].trial, pair[0]))]


def _row(state: StudyState, run: Run) -> TrialRow:
    return TrialRow(
        trial=run.trial,
        shrink=run.shrink,
        state=run.state.value,
        values=state.trials[run.trial],
        epochs=run.epoch,
        best=run.best,
        last=run.last,
        gpu_s=run.gpu_s,
        group=run.group,
        message=run.message,
    )


def best_job(job: Mapping[str, Any], values: Mapping[str, Value]) -> dict[str, Any]:
    """Return a job file's fields with the best values, which its script reads from its environment."""
    return {**job, "env": {**job.get("env", {}), VARIABLE: json.dumps(dict(values))}}
