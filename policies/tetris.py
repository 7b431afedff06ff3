"""Tetris (Grandl et al., SIGCOMM'14): jobs whose demands go best with what is free are served first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from .contract.explanation import Explanation, explained, job_of
from .contract.round import Plan, Round
from .contract.traits import PolicyTraits
from .demanding import Demands, demands_of
from .provisioning.options import provisioned
from .provisioning.told import told
from .queueing import ProvisionedOptions, served
from .registry import register

Floats = NDArray[np.float64]


class TetrisOptions(ProvisionedOptions):
    # Weight of how soon a job ends against how well its demand fits, as in Tetris' combined score.
    shortness: float = Field(default=1.0, ge=0, allow_inf_nan=False)


@register("tetris")
class TetrisPolicy:
    """Serves jobs by alignment, the product of what a job demands and what is free, plus a bonus for short ones.

    Free amounts are those of the whole cluster, from which each job that is picked takes its demand. What a job
    demands is as in `drf`.
    """

    Options = TetrisOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=True, needs_expected=True)

    def __init__(self, options: TetrisOptions | None = None) -> None:
        self.options = options or TetrisOptions()
        self.traits = provisioned(self.traits, self.options)

    def plan(self, round: Round) -> Plan:
        """Serve jobs by priority, then by score."""
        columns = round.columns
        demands = demands_of(round, self.options)
        score = scores(demands, columns.remaining_s, self.options.shortness)
        plan = served(round, columns.by(-score), self.options, preempts=True)
        return replace(plan, figures={**plan.figures, "score": score})

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its score."""
        i = job_of(job, round)
        score = float(plan.figures["score"][i])
        said = [f"Its score by fit and shortness is {score:.3g}; the jobs of the highest run first."]
        provisioned, facts = told(job, round, plan)
        return explained(job, round, plan, [*said, *provisioned], {"score": score, **facts})


def scores(demands: Demands, remaining_s: Floats, shortness: float) -> Floats:
    """Return (jobs,) ranks, highest first, by fit with what is free at a job's turn and a bonus for short jobs.

    The bonus is `shortness` times the mean fit, times the least time left over the job's own. Jobs are picked one
    by one, and what they demand is not free for those after them. Whoever does not fit any more comes last.

    Args:
        remaining_s: (jobs,) time that each still needs; nan: unknown, so no bonus.
    """
    parts = demands.parts
    count = len(parts)
    if not count:
        return np.zeros(0)
    left_s = np.where(np.isfinite(remaining_s), np.maximum(remaining_s, 1.0), np.inf)
    short = left_s.min() / left_s if np.isfinite(left_s).any() else np.zeros(count)
    bonus = shortness * float(parts.sum(axis=1).mean()) * short
    free, left, found = np.ones(3), np.ones(count, bool), np.full(count, -np.inf)
    rank = float(count)
    while left.any():
        fits = left & (parts <= free + 1e-9).all(axis=1)
        if not fits.any():
            break
        now = np.where(fits, parts @ free + bonus, -np.inf)
        best = int(np.argmax(now))
        found[best], left[best] = rank, False
        rank -= 1.0
        free = free - parts[best]
    rest = np.flatnonzero(left)  # beyond what is free: by their score alone
    found[rest] = (parts[rest].sum(axis=1) + bonus[rest]) / (2 * (1 + parts.sum(axis=1).max() + bonus.max()))
    return found
