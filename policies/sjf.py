"""Shortest job first, without preemption: needs to be told how long jobs take."""

from __future__ import annotations

import numpy as np

from .contract.round import JobColumns, JobView
from .contract.traits import PolicyTraits
from .queueing import QueueingOptions, QueueingPolicy, time_left
from .registry import register


@register("sjf")
class SjfPolicy(QueueingPolicy):
    """Waiting jobs start by their length; those of unknown length come last."""

    Options = QueueingOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=False, needs_expected=True)

    def __init__(self, options: QueueingOptions | None = None) -> None:
        self.options = options or QueueingOptions()

    def key(self, columns: JobColumns) -> np.ndarray:
        return np.nan_to_num(columns.remaining_s, nan=np.inf)

    def standing(self, job: JobView) -> str:
        return time_left(job, "The shortest jobs start first")
