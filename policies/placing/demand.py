"""What a job asks for beside each GPU, and what it gets of a node."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.cluster import Node
from ...core.job import JobSpec

DEFAULT_CPUS = 1.0  # of `core.job.ResourceRequest`


@dataclass(frozen=True)
class Demand:
    """What a job asks for beside each GPU.

    The default is only a wish: on a node with fewer CPUs a job gets its GPUs' part of them. Any other number is a
    condition: a node with less free is not taken.
    """

    cpus_per_gpu: float = DEFAULT_CPUS
    memory_gib_per_gpu: float = 0.0

    @classmethod
    def of(cls, spec: JobSpec) -> Demand:
        resources = spec.resources
        return cls(resources.cpus_per_gpu, resources.memory_gib_per_gpu)

    @property
    def is_wish(self) -> bool:
        """Whether any node with the GPUs will do, unless other jobs took more than their GPUs' part of it."""
        return self.cpus_per_gpu in (0.0, DEFAULT_CPUS) and self.memory_gib_per_gpu == 0.0

    def on(self, node: Node, gpus: int) -> tuple[float, float]:
        """Return CPUs and GiB of memory for so many GPUs of a node; 0 for what the node does not state."""
        cpus = self.cpus_per_gpu
        if cpus == DEFAULT_CPUS:
            cpus = min(cpus, node.cpus / node.gpus)
        return (
            gpus * cpus if node.cpus else 0.0,
            gpus * self.memory_gib_per_gpu if node.memory_gib else 0.0,
        )


WISH = Demand()
