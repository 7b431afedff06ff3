"""The parts that policies share which go by all that jobs demand: GPUs, CPUs and memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .contract.round import Round
from .provisioning.provisioner import Provisioner, given_by_user
from .provisioning.serving import types_of
from .provisioning.shares import Shares
from .queueing import ProvisionedOptions

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Demands:
    """The demand of each job, (jobs, 3): GPUs, CPUs and GiB. totals: (3,) of the whole cluster."""

    amounts: Floats
    totals: Floats

    @property
    def parts(self) -> Floats:
        """(jobs, 3) each amount over that of the cluster; 0 for what the cluster does not state."""
        return np.where(self.totals > 0, self.amounts / np.maximum(self.totals, 1e-12), 0.0)


def demands_of(round: Round, options: ProvisionedOptions) -> Demands:
    """Return the demands of all jobs: what they ask for, or with provisioning their best cases.

    Best cases are on the GPU type on which each is fastest, whatever it has now.

    Raises ValueError, one sentence, for a node that states no CPUs or memory, with provisioning.
    """
    provisioner = None
    if options.provisioning is not None:
        provisioner = Provisioner(options.provisioning, options.saturation)
    gpus, shares = round.columns.gpus.tolist(), Shares(round.cluster)
    amounts = np.zeros((len(gpus), 3))
    for at, job in enumerate(round.jobs):
        gpu_type = next(iter(types_of(round, at, options.type_blind)), None)
        if provisioner is None:
            cpus, memory_gib = given_by_user(job.spec)
            amounts[at] = gpus[at] * np.array([1.0, cpus or 0.0, memory_gib or 0.0])
        elif gpu_type is not None:
            choices = provisioner.choices(job, shares, gpu_type, gpus[at])
            amounts[at] = gpus[at], *choices.demand
    nodes = [node for node in round.cluster.nodes if node.gpus]
    totals = np.array([[node.gpus, node.cpus, node.memory_gib] for node in nodes], float).reshape(-1, 3)
    return Demands(amounts, totals.sum(axis=0))
