"""Studies as their users are shown them: a row of each, and all of one."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..result import rows
from ..rungs import goodness
from ..state import RunState, StudyState
from .jobs import best_job
from .store import FILE, Asked, Known, StudyStore


def study_ids(folder: Path) -> list[str]:
    """Return the ids of all studies that are kept in a folder, the oldest first."""
    found = [path.parent for path in folder.glob(f"*/{FILE}")]
    return [path.name for path in sorted(found, key=lambda path: ((path / FILE).stat().st_ctime, path.name))]


def study_row(folder: Path) -> dict[str, Any]:
    """Return a study in a line."""
    store = StudyStore(folder)
    try:
        return _row(store.asked, store.state, store.known(), store.cancelled)
    finally:
        store.close()


def study_view(folder: Path) -> dict[str, Any]:
    """Return all that is known of a study: its row, its trials, their curves, and the job file that it found."""
    store = StudyStore(folder)
    try:
        asked, state, known = store.asked, store.state, store.known()
        chosen = None if state.chosen is None else state.trials[state.chosen]
        spec = asked.told["spec"]
        return {
            **_row(asked, state, known, store.cancelled),
            "file": asked.file,
            "notes": store.notes,
            "trials": _trials(state, known),
            "curves": curves(asked, known),
            "best_job": None if chosen is None else best_job(spec, chosen),
        }
    finally:
        store.close()


def curves(asked: Asked, known: Known) -> dict[str, list[tuple[int, float]]]:
    """Return the study's metric by epoch of each run, as far as it is finite."""
    metric, found = asked.study.metric, dict[str, dict[int, float]]()
    for of_group in known.metrics.values():
        for run, by_epoch in of_group.items():
            for epoch, by_name in by_epoch.items():
                if math.isfinite(value := by_name.get(metric, math.nan)):
                    found.setdefault(str(run), {})[epoch] = value
    return {run: sorted(points.items()) for run, points in sorted(found.items(), key=lambda pair: int(pair[0]))}


def _trials(state: StudyState, known: Known) -> list[dict[str, Any]]:
    """Return a row of each trial, by number, with its place among the study's runs and the job it is or was in."""
    keys = sorted(state.runs, key=lambda key: (state.runs[key].trial, key))
    of_group = {run: group for group, one in state.groups.items() for run in one.first_runs}
    return [
        {**asdict(row), "run": key, "job": known.jobs.get(row.group or of_group.get(key, ""))}
        for key, row in zip(keys, rows(state), strict=True)
    ]


def _row(asked: Asked, state: StudyState, known: Known, cancelled: bool) -> dict[str, Any]:
    study = asked.study
    searched = [run for key, run in state.runs.items() if key < study.trials]
    best = max(
        (run for run in state.runs.values() if run.best is not None),
        key=lambda run: (run.shrink == 1, goodness(run.best, study.mode), -run.trial),
        default=None,
    )
    over = sum(not run.open for run in searched)
    return {
        "id": asked.id,
        "name": study.name,
        "owner": asked.owner,
        "status": _status(state, cancelled),
        "began_s": asked.began_s,
        "trials_asked": study.trials,
        "trials_over": over,
        "trials_running": sum(run.state is RunState.IN_GROUP for run in searched),
        "algorithm": study.algorithm.name,
        "metric": study.metric,
        "mode": study.mode,
        "best": state.chosen_metric if state.finished else (None if best is None else best.best),
        "best_trial": state.chosen if state.finished else (None if best is None else best.trial),
        "best_values": _values(state, best),
        "gpu_s": math.fsum(known.gpu_s.values()),
        "jobs": [*known.jobs.values()],
        "why": state.why,
    }


def _values(state: StudyState, best: Any) -> dict[str, Any] | None:
    trial = state.chosen if state.finished else (None if best is None else best.trial)
    return None if trial is None else dict(state.trials[trial])


def _status(state: StudyState, cancelled: bool) -> str:
    if cancelled:
        return "cancelled"
    if state.finished:
        return "failed" if state.chosen is None else "done"
    return "training the target" if state.stage >= 0 else "searching"
