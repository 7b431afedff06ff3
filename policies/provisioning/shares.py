"""The share of a GPU: the CPUs and the memory of a node that belong to each of its GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.cluster import Cluster, Node
from ...estimators.sensitivity.choices import Share


class Shares:
    """The shares of a cluster, each worked out once. Make one for each round."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._found: dict[tuple[str, int], Share] = {}

    def of(self, gpu_type: str, gpus: int) -> Share:
        """Return the share of each GPU of a type, and the most that a job of so many GPUs may have for each.

        Where nodes of a type differ, the share is what every one of them has for each GPU. A job has at most the
        CPUs and the memory of as many nodes as it needs for its GPUs.

        Raises:
            ValueError: one sentence, for a node that states no CPUs or no memory.
        """
        found = self._found.get((gpu_type, gpus))
        if found is None:
            found = self._found[gpu_type, gpus] = _share(self.cluster.of_type(gpu_type), gpus)
        return found


def _share(nodes: Sequence[Node], gpus: int) -> Share:
    check_amounts(nodes)
    machines = -(-gpus // max(node.gpus for node in nodes))
    return Share(
        min(node.cpus / node.gpus for node in nodes),
        min(node.memory_gib / node.gpus for node in nodes),
        machines * max(node.cpus for node in nodes) / gpus,
        machines * max(node.memory_gib for node in nodes) / gpus,
    )


def check_amounts(nodes: Sequence[Node]) -> None:
    """Raise ValueError, one sentence, for a node with GPUs that states no CPUs or no memory."""
    for node in nodes:
        for name, amount in (("cpus", node.cpus), ("memory_gib", node.memory_gib)):
            if node.gpus and not amount > 0:
                raise ValueError(
                    f"{name}: node {node.id} states none; provisioning needs the CPUs and the memory of every "
                    "node with GPUs"
                )
