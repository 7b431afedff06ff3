"""Hydra: jobs with a deadline before others, and those that end soonest first in both (Yang et al., 2022)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .contract.explanation import expectation
from .contract.round import JobColumns, JobView, Plan, Round
from .contract.traits import PolicyTraits
from .leases.due import due_of, planned
from .queueing import QueueingOptions, QueueingPolicy
from .registry import register


class HydraOptions(QueueingOptions):
    # Whether jobs that run are stopped for those before them; as published they are not.
    preempts: bool = False


@register("hydra")
class HydraPolicy(QueueingPolicy):
    """Serves jobs with a deadline first, also where it is missed."""

    Options = HydraOptions
    traits = PolicyTraits(
        fixed_sizes=True, uses_models=False, preempts=False, needs_expected=True, serves_deadlines=True
    )
    options: HydraOptions

    def __init__(self, options: HydraOptions | None = None) -> None:
        self.options = options or HydraOptions()
        if self.options.preempts:
            self.traits = PolicyTraits(
                fixed_sizes=True, uses_models=False, preempts=True, needs_expected=True, serves_deadlines=True
            )

    def key(self, columns: JobColumns) -> np.ndarray:
        left_s = np.nan_to_num(columns.remaining_s, nan=_LONGEST_S)
        return left_s + np.where(columns.has_deadline, 0.0, 2 * _LONGEST_S)

    def plan(self, round: Round) -> Plan:
        """Return the plan, and which deadlines can no longer be met."""
        columns = round.columns
        by_s = due_of(columns, round.now, columns.remaining_s).by_s
        return replace(super().plan(round), deadlines=planned(columns, by_s))

    def standing(self, job: JobView) -> str:
        told = "It has no deadline and comes after jobs that have one."
        if job.rewards is not None:
            told = "It has a deadline and comes before jobs that have none."
        return f"{told} {expectation(job, 'it comes last of its kind')[0]}"


_LONGEST_S = 1e12  # longer than any job
