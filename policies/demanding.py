"""The parts that policies share which go by all that jobs demand: GPUs, CPUs and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .contract.round import Round
from .provisioning.mechanisms import Provisioning
from .provisioning.provisioner import Provisioner
from .provisioning.serving import types_of
from .provisioning.shares import Shares
from .queueing import ProvisionedOptions

Floats = NDArray[np.float64]


class DemandingOptions(ProvisionedOptions):
    """What an operator may set. `greedy` takes demands as they are, as the published schedulers do."""

    provisioning: Provisioning = Provisioning.GREEDY


@dataclass(frozen=True, eq=False)
class Demands:
    """The best-case demand of each job, (jobs, 3): GPUs, CPUs and GiB. totals: (3,) of the whole cluster."""

    amounts: Floats
    totals: Floats

    @property
    def parts(self) -> Floats:
        """(jobs, 3) each amount over that of the cluster."""
        return self.amounts / self.totals


def demands_of(round: Round, options: DemandingOptions) -> Demands:
    """Return the demands of all jobs, on the GPU type on which each is fastest, whatever it has now.

    Raises ValueError, one sentence, for a node that states no CPUs or memory.
    """
    provisioner = Provisioner(options.provisioning, options.saturation)
    gpus, shares = round.columns.gpus.tolist(), Shares(round.cluster)
    amounts = np.zeros((len(gpus), 3))
    for at, job in enumerate(round.jobs):
        gpu_type = next(iter(types_of(round, at, options.type_blind)), None)
        if gpu_type is not None:
            choices = provisioner.choices(job, shares, gpu_type, gpus[at])
            amounts[at] = gpus[at], *choices.demand
    nodes = [node for node in round.cluster.nodes if node.gpus]
    totals = np.array([[node.gpus, node.cpus, node.memory_gib] for node in nodes], float).reshape(-1, 3)
    return Demands(amounts, np.maximum(totals.sum(axis=0), 1e-12))


def said_of(amounts: Floats) -> Mapping[str, float]:
    """Return one job's demand by name."""
    gpus, cpus, memory_gib = amounts.tolist()
    return {"gpus": gpus, "cpus": cpus, "memory_gib": memory_gib}
