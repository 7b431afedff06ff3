"""`coadapt report RUN --against OTHER`: two runs of the same jobs, job by job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from rich.console import Group, RenderableType

from ..simulator.results.against import MEANING_AGAINST, by_team, compared
from ..simulator.results.saved import SavedRun, find, load
from ..simulator.results.team_workloads import MEANING_WORKLOAD, team_workloads
from .simulate import columns_of

OF_TEAMS = (
    "jobs",
    "speedup_geomean",
    "speedup_of_means",
    "slowed_percent",
    "slowdown_worst_min",
)  # fit a terminal


def found(runs: list[Path], other: Path, after_h: float) -> dict[str, dict[str, dict[str, float]]]:
    """Return run -> team -> figures over another run; the figures of all jobs are those of team "".

    Raise ValueError, in one sentence, for runs that cannot be read, or are of other jobs.
    """
    if after_h < 0:
        raise ValueError(f"--after: {after_h:g} must be 0 hours or more")
    base, after_s = _only(other), 3600 * after_h
    made: dict[str, dict[str, dict[str, float]]] = {}
    for folder in dict.fromkeys(folder for path in runs for folder in find(path)):
        run = load(folder)
        label = run.policy if run.policy not in made else str(folder)
        all_jobs = compared(run.outcome, base.outcome, after_s)
        if not all_jobs:
            raise ValueError(
                f"--after: no job of {folder} was submitted {after_h:g} h after the first one or later"
            )
        made[label] = {"": all_jobs, **by_team(run.outcome, base.outcome, after_s)}
    return made


def _only(path: Path) -> SavedRun:
    folders = list(find(path))
    if len(folders) != 1:
        raise ValueError(f"--against: {path} holds {len(folders)} runs; the folder of one is accepted")
    return load(folders[0])


def workloads(other: Path) -> dict[str, dict[str, float]]:
    """Return team -> figures of its jobs in the run that others are compared with; {}: there is one at most."""
    return team_workloads(_only(other).outcome)


def table(
    figures: Mapping[str, Mapping[str, Mapping[str, float]]],
    other: str,
    workload: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> RenderableType:
    """Return a table of all jobs, one column per run, and one of the teams of each run.

    Args:
        workload: figures of the jobs of each team.
    """
    view = columns_of(figures, f"against {other}")
    for key, meaning in MEANING_AGAINST.items():
        view.add_row(meaning, *[f"{run[''][key]:.4g}" for run in figures.values()])
    parts: list[RenderableType] = [view]
    for label, teams in figures.items():
        if len(teams) > 1:
            rows = columns_of([MEANING_AGAINST[key] for key in OF_TEAMS], f"{label}, by team")
            for name, own in teams.items():
                if name:
                    rows.add_row(name, *[f"{own[key]:.4g}" for key in OF_TEAMS])
            parts += ["", rows]
    if workload:
        rows = columns_of(list(MEANING_WORKLOAD.values()), f"jobs of {other}, by team")
        for name, own in workload.items():
            rows.add_row(name, *[f"{own[key]:.4g}" for key in MEANING_WORKLOAD])
        parts += ["", rows]
    return Group(*parts)
