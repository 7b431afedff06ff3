"""Powers machines by Ray's autoscaler: it is told which nodes are wanted, and starts and ends machines itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ray
from ray.autoscaler.sdk import request_resources

from ...core.cluster import Node
from .adapter import AdapterError
from .machine import Machine

GPU_TYPE_LABEL = "coadapt.io/gpu-type"
Request = Callable[..., None]


class Autoscaler:
    """An adapter that asks for all nodes that shall be there. What is not asked for ends once it is idle.

    The autoscaler has one such wish per cluster: each replaces the one before.

    Args:
        wanted: returns the nodes that shall be there now.
        release: gives back the lease of a node, which would keep it from being idle.
        request: Ray's call, or one in its place.
    """

    def __init__(
        self,
        wanted: Callable[[], Sequence[Node]],
        release: Callable[[Node], None],
        request: Request = request_resources,
    ) -> None:
        self._wanted, self._release, self._request = wanted, release, request

    def sleep(self, machine: Machine) -> None:
        self._release(machine.node)
        self._ask()

    def wake(self, machine: Machine) -> None:
        self._ask()

    def is_on(self, machine: Machine) -> bool:
        return any(row["Alive"] and row["NodeID"] == machine.node.id for row in ray.nodes())

    def _ask(self) -> None:
        nodes = self._wanted()
        try:
            self._request(
                bundles=[{"GPU": float(node.gpus)} for node in nodes],
                bundle_label_selectors=[{GPU_TYPE_LABEL: node.gpu_type} for node in nodes],
            )
        except Exception as error:
            raise AdapterError(f"Ray's autoscaler could not be asked: {error}") from None
