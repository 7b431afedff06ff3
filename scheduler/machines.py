"""What is done on a machine of the cluster beside its jobs: small Ray tasks, one per machine, never waited for.

Several nodes may be on one machine, as emulated ones are: they share what is done there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..executor import template_client
from ..executor.template_wire import Owner
from ..executor.worker_environment import ONE_THREAD
from .nodes import NodesSnapshot


def machines_of(snapshot: NodesSnapshot) -> dict[str, str]:
    """Address of every machine with leased nodes -> one of its nodes."""
    return {snapshot.names.get(node.id, node.id): node.id for node in reversed(snapshot.cluster.nodes)}


class Machines:
    """Has a template of training processes ready on every machine as soon as a node there is leased.

    The first job gains by it as much as later ones.
    """

    def __init__(self) -> None:
        self._here = ray.util.get_node_ip_address()
        self._ready: set[tuple[str, bool]] = set()

    def see(self, snapshot: NodesSnapshot) -> None:
        """Start what machines that are new need; cheap where there are none."""
        emulated = {node.id: node.emulated for node in snapshot.cluster.nodes}
        there = {(address, emulated[node]): node for address, node in machines_of(snapshot).items()}
        for (address, paced), node in there.items():
            if (address, paced) not in self._ready:
                self._do(address, node, warm_template, ONE_THREAD if paced else {})
        self._ready = set(there)

    def _do(self, address: str, node_id: str, work: Callable[..., None], *args: Any) -> None:
        """On the service's own machine in a thread: a Ray task there may have to start a process first."""
        if address == self._here:
            threading.Thread(target=work, args=args, daemon=True).start()
            return
        where = NodeAffinitySchedulingStrategy(node_id, soft=False)
        ray.remote(work).options(num_cpus=0, max_retries=0, scheduling_strategy=where).remote(*args)


def warm_template(threads: Mapping[str, str]) -> None:
    """Have a template ready on this machine, for workers of the usual environment: a CPU and a thread each."""
    owner = Owner(ray.get_runtime_context().gcs_address, os.getppid())
    template_client.warm({**os.environ, **threads}, owner)
