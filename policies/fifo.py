"""First in, first out: jobs of a fixed size start in order of submission, and none overtakes another."""

from __future__ import annotations

import numpy as np

from .contract.round import JobColumns, JobView
from .contract.traits import PolicyTraits
from .queueing import QueueingOptions, QueueingPolicy
from .registry import register


@register("fifo")
class FifoPolicy(QueueingPolicy):
    """Starts jobs in order of submission, without preemption and with head-of-line blocking."""

    Options = QueueingOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=False)

    def __init__(self, options: QueueingOptions | None = None) -> None:
        self.options = options or QueueingOptions()

    def key(self, columns: JobColumns) -> np.ndarray:
        return columns.submitted_s

    def standing(self, job: JobView) -> str:
        return "Jobs are served in the order in which they were submitted."
