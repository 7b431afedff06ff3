"""Ray's autoscaler: the one caller of it, and powering machines by telling it which nodes are wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ray
from ray.autoscaler.sdk import request_resources

from ...core.cluster import Node
from .adapter import AdapterError
from .machine import Machine

GPU_TYPE_LABEL = "coadapt.io/gpu-type"
Request = Callable[..., None]


@dataclass(frozen=True)
class Wanted:
    """A node that shall be there: its GPUs, and the label that says of which kind it is."""

    gpus: int
    label: str
    value: str


class AutoscalerWishes:
    """The one caller of Ray's autoscaler.

    The autoscaler has one wish per cluster, and each call replaces the one before. So all that anybody here wants
    is sent together.

    Args:
        request: Ray's call, or one in its place.
    """

    def __init__(self, request: Request = request_resources) -> None:
        self._request, self._lock = request, threading.Lock()
        self._wanted: dict[str, tuple[Wanted, ...]] = {}

    def wish(self, who: str, nodes: Sequence[Wanted]) -> None:
        """Replace what `who` wants, and send what all want. Raises: AdapterError; the next call sends it again."""
        with self._lock:
            self._wanted[who] = tuple(nodes)
            everything = [node for _, wanted in sorted(self._wanted.items()) for node in wanted]
            try:
                self._request(
                    bundles=[{"GPU": float(node.gpus)} for node in everything],
                    bundle_label_selectors=[{node.label: node.value} for node in everything],
                )
            except Exception as error:
                raise AdapterError(f"Ray's autoscaler could not be asked: {error}") from None

    @property
    def wanted(self) -> Mapping[str, tuple[Wanted, ...]]:
        """Return what each wants."""
        return dict(self._wanted)


class Autoscaler:
    """An adapter that asks for all nodes that shall be there. What is not asked for ends once it is idle.

    Args:
        wanted: returns the nodes that shall be there now.
        release: gives back the lease of a node, which would keep it from being idle.
        wishes: asks Ray's autoscaler, also for others.
    """

    def __init__(
        self,
        wanted: Callable[[], Sequence[Node]],
        release: Callable[[Node], None],
        wishes: AutoscalerWishes,
    ) -> None:
        self._wanted, self._release, self._wishes = wanted, release, wishes

    def sleep(self, machine: Machine) -> None:
        self._release(machine.node)
        self._ask()

    def wake(self, machine: Machine) -> None:
        self._ask()

    def is_on(self, machine: Machine) -> bool:
        return any(row["Alive"] and row["NodeID"] == machine.node.id for row in ray.nodes())

    def _ask(self) -> None:
        self._wishes.wish("power", [Wanted(node.gpus, GPU_TYPE_LABEL, node.gpu_type) for node in self._wanted()])
