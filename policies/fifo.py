"""First in, first out: jobs of a fixed size run in order of submission."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .contract.round import JobColumns, JobView
from .contract.traits import PolicyTraits
from .provisioning.options import provisioned
from .queueing import ProvisionedOptions, QueueingPolicy
from .registry import register


class FifoOptions(ProvisionedOptions):
    # Whether each round decides anew who runs. A job that does not fit is then passed over until it does.
    preempts: bool = False


@register("fifo")
class FifoPolicy(QueueingPolicy):
    """Starts jobs in order of submission, without preemption and with head-of-line blocking.

    With `preempts` the jobs that were submitted first run, as long as their GPUs fit the cluster.
    """

    Options = FifoOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=False)

    def __init__(self, options: FifoOptions | None = None) -> None:
        self.options = options or FifoOptions()
        self.traits = provisioned(replace(self.traits, preempts=self.options.preempts), self.options)

    def key(self, columns: JobColumns) -> np.ndarray:
        return columns.submitted_s

    def standing(self, job: JobView) -> str:
        return "Jobs are served in the order in which they were submitted."
