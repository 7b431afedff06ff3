"""What policies are told of how long a job of a trace with lengths still needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ...estimators.foretold import Foretold
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .foretold_lengths import ToldEstimates, ToldForetold
from .learned_lengths import ToldLearned
from .told import Told, ToldByTrace, ToldNothing
from .told_curves import ToldCurves
from .told_measured import ToldMeasured
from .told_noisy import ToldNoisy


class Lengths(StrEnum):
    """Where what is told comes from."""

    TOLD = "told"  # the true length
    LEARNED = "learned"  # what earlier runs of the same user and script took
    UNKNOWN = "unknown"  # nothing
    FORETOLD = "foretold"  # what the service `durations`, or `team_load`, foretells when a job is submitted
    PERTURBED = "perturbed"  # the true length with the errors of Helios' estimates
    ESTIMATED = "estimated"  # a file of estimates
    MEASURED = "measured"  # nothing before it was measured by training, or one of its script was


@dataclass(frozen=True)
class Sources:
    """Where lengths come from that are neither true nor learned from the run alone.

    foretold: by job id; filled while the simulation goes on.
    estimates_s: seconds by job id, of a file or perturbed.
    deviation: standard deviation of lengths that are told or measured, over the true ones. seed: of these errors.
    """

    foretold: Mapping[str, Foretold] = field(default_factory=dict)
    estimates_s: Mapping[str, float] = field(default_factory=dict)
    deviation: float = 0.0
    seed: int = 0


class ToldLengths(ToldByTrace):
    """Tell what is left of a job's true length."""

    def __init__(self, restart_s: Callable[[int], float], workload: Workload) -> None:
        super().__init__(restart_s)
        self._workload = workload

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the seconds left, on any GPU type."""
        return self._workload.duration_s[jobs] - progress


def told_of(lengths: Lengths, workload: Workload, restart_s: Callable[[int], float], sources: Sources) -> Told:
    """Return what is told of the jobs of a workload.

    Args:
        restart_s: seconds of a restart, by job.
    """
    if lengths in (Lengths.TOLD, Lengths.MEASURED):
        true: Told = ToldLengths(restart_s, workload)
        if sources.deviation:
            true = ToldNoisy(restart_s, workload, sources.deviation, sources.seed)
        if any(workload.curves):
            true = ToldCurves(true, workload)
        return true if lengths is Lengths.TOLD else ToldMeasured(true, workload)
    if lengths is Lengths.LEARNED:
        return ToldLearned(restart_s, workload)
    if lengths is Lengths.FORETOLD:
        return ToldForetold(restart_s, workload, sources.foretold)
    if lengths is Lengths.UNKNOWN:
        return ToldNothing(restart_s)
    return ToldEstimates(restart_s, np.array([sources.estimates_s[id] for id in workload.ids], float))
