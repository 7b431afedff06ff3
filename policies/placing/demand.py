"""What a job asks for beside each GPU, and what it gets of a node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.cluster import Node
from ...core.job import START_CPUS, JobSpec


@dataclass(frozen=True)
class Demand:
    """What a job asks for beside each GPU. A number is a condition: a node with less free is not taken.

    None: the scheduler chooses. CPUs to start with are then only a wish: on a node with fewer CPUs a job gets its
    GPUs' part of them.
    """

    cpus_per_gpu: float | None = None
    memory_gib_per_gpu: float | None = None

    @classmethod
    def of(cls, spec: JobSpec) -> Demand:
        resources = spec.resources
        return cls(resources.cpus_per_gpu, resources.memory_gib_per_gpu)

    @property
    def is_wish(self) -> bool:
        """Whether any node with the GPUs will do, unless other jobs took more than their GPUs' part of it."""
        return not self.cpus_per_gpu and not self.memory_gib_per_gpu

    @property
    def least_cpus(self) -> float:
        """The CPUs of each GPU without which the job does not start, where a node has as many."""
        return START_CPUS if self.cpus_per_gpu is None else self.cpus_per_gpu

    @property
    def least_memory_gib(self) -> float:
        return self.memory_gib_per_gpu or 0.0

    def cpus_beside(self, part: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the CPUs of each GPU on nodes. `part`: of any shape, the CPUs that a node has for each GPU."""
        if self.cpus_per_gpu is None:
            return np.minimum(START_CPUS, part)
        return np.full(np.shape(part), self.cpus_per_gpu)

    def on(self, node: Node, gpus: int) -> tuple[float, float]:
        """Return CPUs and GiB of memory for so many GPUs of a node; 0 for what the node does not state."""
        cpus = self.least_cpus
        if self.cpus_per_gpu is None:
            cpus = min(cpus, node.cpus / node.gpus)
        return (
            gpus * cpus if node.cpus else 0.0,
            gpus * self.least_memory_gib if node.memory_gib else 0.0,
        )


WISH = Demand()
