"""Replays the first part of a trace under many options of a policy, and checks the best ones on the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...estimators.interpretable.needs import library
from ...estimators.interpretable.search import Point, search
from ..engine.errors import RunFailed
from ..run import Simulation
from ..traces.workload import Workload
from .space import Space

HELD_OUT = 0.3  # of the jobs, the last ones
LEAST_JOBS = 10
WORSE = 2.0  # a trial that fails counts as so many times the worst mean JCT

ASKED = 3  # points that are asked for a trial: different points may be the same options

Replay = Callable[[Workload, Mapping[str, Any]], Simulation]


class _Enough(Exception):
    """All trials were made."""


@dataclass(frozen=True)
class Tried:
    """One trial: the options, and the mean JCT of the first part, s. `problem`: why it failed; "": it did not."""

    options: Mapping[str, Any]
    mean_jct_s: float
    problem: str = ""


@dataclass
class Calibration:
    """What a search has tried so far, and how the best does on jobs that it was not judged by.

    jobs, held_out_jobs: of the first part and of the rest.
    default_s, chosen_s: mean JCT of the rest, s; None: not measured, as the search was interrupted.
    """

    jobs: int
    held_out_jobs: int
    trials: list[Tried] = field(default_factory=list)
    default_s: float | None = None
    chosen_s: float | None = None

    @property
    def best(self) -> Tried:
        """Return the trial with the least mean JCT, the first of equal ones."""
        return min(self.trials, key=lambda one: one.mean_jct_s)

    @property
    def keeps_defaults(self) -> bool:
        """Return whether the defaults stay: nothing is better on both parts, or nobody knows."""
        if self.default_s is None or self.chosen_s is None:
            return True
        return self.best is self.trials[0] or self.chosen_s >= self.default_s

    @property
    def options(self) -> Mapping[str, Any]:
        """Return the options to use."""
        return self.trials[0].options if self.keeps_defaults else self.best.options


def split(workload: Workload, held_out: float = HELD_OUT) -> int:
    """Return how many jobs, in order of time, are searched with. Raises ValueError for too few jobs."""
    if not 0 < held_out < 1:
        raise ValueError(f"held_out: {held_out:g} is not accepted, must be above 0 and below 1")
    first = round(len(workload) * (1 - held_out))
    if len(workload) < LEAST_JOBS or not 0 < first < len(workload):
        raise ValueError(
            f"trace: {len(workload)} jobs are too few to calibrate by; at least {LEAST_JOBS} are needed, some of "
            "them on each side of the cut"
        )
    return first


def calibrate(
    workload: Workload,
    space: Space,
    replay: Replay,
    trials: int,
    *,
    seed: int = 0,
    held_out: float = HELD_OUT,
    found: Calibration | None = None,
    tell: Callable[[Calibration], None] = lambda found: None,
) -> Calibration:
    """Search the options with the least mean JCT of the first part, and measure them on the rest.

    The jobs of the rest are judged in a replay of the whole trace, so that they meet a busy cluster.

    Args:
        replay: returns a run that is ready to begin, of some jobs under some options.
        trials: replays of the first part, the defaults among them.
        found: filled as trials end, so that an interrupted search keeps what was tried.
        tell: called after each trial.

    Raises:
        ValueError: in one sentence, for input that is not accepted, and for defaults that fail.
        LibraryMissing: where the extra is not installed.
    """
    if trials < 1:
        raise ValueError(f"--trials: {trials} is not accepted, must be a whole number of at least 1")
    first = split(workload, held_out)
    library("sklearn.gaussian_process")  # before anything is run
    part = workload.select(np.arange(first))
    found = found if found is not None else Calibration(0, 0)
    found.jobs, found.held_out_jobs = first, len(workload) - first
    known: dict[str, Tried] = {}

    def objective(point: Point) -> float:
        options = space.options(point) if found.trials else space.defaults()
        if (tried := known.get(repr(options))) is None:
            if len(found.trials) == trials:
                raise _Enough
            tried = known[repr(options)] = _tried(options, part, replay, found)
            found.trials.append(tried)
            tell(found)
        return -tried.mean_jct_s

    with suppress(_Enough):
        dimensions = [one.dimension for one in space.choices]
        search(objective, dimensions, ASKED * trials, seed=seed, known=[space.default])
    found.default_s = _rest_s(replay(workload, found.trials[0].options), first)
    same = found.best is found.trials[0]
    try:
        found.chosen_s = found.default_s if same else _rest_s(replay(workload, found.best.options), first)
    except RunFailed:
        found.chosen_s = np.inf
    return found


def _tried(options: Mapping[str, Any], part: Workload, replay: Replay, found: Calibration) -> Tried:
    """Return what came of a trial. One that fails counts as bad, but for the defaults."""
    try:
        return Tried(options, float(replay(part, options).run().jct_s.mean()))
    except (ValueError, RunFailed) as error:
        if not found.trials:
            raise ValueError(str(error)) from error.__cause__
        return Tried(options, WORSE * max(one.mean_jct_s for one in found.trials if not one.problem), str(error))


def _rest_s(run: Simulation, first: int) -> float:
    return float(run.run().jct_s[first:].mean())
