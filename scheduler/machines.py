"""What is done on a machine of the cluster beside its jobs: small Ray tasks, one per machine, never waited for.

Several nodes may be on one machine, as emulated ones are: they share what is done there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..executor.files.output_keeper import clean
from ..executor.files.site import Site
from ..executor.files.workplace import local_path
from ..executor.processes import template_client
from ..executor.processes.template_wire import ONE_THREAD, Owner
from .nodes import NodesSnapshot


def machines_of(snapshot: NodesSnapshot) -> dict[str, str]:
    """Address of every machine with leased nodes -> one of its nodes."""
    return {snapshot.names.get(node.id, node.id): node.id for node in reversed(snapshot.cluster.nodes)}


class Machines:
    """Has a template of training processes ready on every machine, and removes what ended jobs left there."""

    def __init__(self) -> None:
        self._here = ray.util.get_node_ip_address()
        self._nodes: dict[str, str] = {}  # address -> a node there now
        self._ready: set[tuple[str, bool]] = set()
        self._lock = threading.Lock()
        self._to_clean: dict[str, list[tuple[Site, Callable[[str], None]]]] = {}  # machines that are away
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="machine")

    def see(self, snapshot: NodesSnapshot) -> None:
        """Have a template started on machines that are new: the first job gains by it as much as later ones.

        A machine that is back gives what ended jobs have left there.
        """
        with self._lock:
            self._nodes = machines_of(snapshot)
            back = {
                address: self._to_clean.pop(address) for address in [*self._to_clean] if address in self._nodes
            }
        for address, jobs in back.items():
            for site, tell in jobs:
                self._do(address, self._nodes[address], clean, site, done=tell)
        emulated = {node.id: node.emulated for node in snapshot.cluster.nodes}
        there = {(address, emulated[node]): node for address, node in self._nodes.items()}
        for (address, paced), node in there.items():
            if (address, paced) not in self._ready:
                self._do(address, node, warm_template, ONE_THREAD if paced else {})
        self._ready = set(there)

    def clean(self, addresses: Sequence[str], site: Site, tell: Callable[[str], None]) -> None:
        """Remove the folders of an ended job from these machines; from those that are away when they are back.

        tell: is given a sentence where something had to stay. A restarted service has forgotten who was away.
        """
        for address in addresses:
            with self._lock:
                away = address != self._here and address not in self._nodes
                if away:
                    self._to_clean.setdefault(address, []).append((site, tell))
            if not away:
                self._do(address, self._nodes.get(address, ""), clean, site, done=tell)
            elif site.outputs_url and local_path(site.outputs_url) is None:
                tell(f"{address} is away: outputs that it had not sent are sent once it is back")

    def _do(
        self,
        address: str,
        node_id: str,
        work: Callable[..., str],
        *args: Any,
        done: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """On the service's own machine in a thread: a Ray task there may have to start a process first."""

        def answered(future: Future[str]) -> None:
            error = future.exception()
            sentence = future.result() if error is None else f"{address}: {str(error).splitlines()[0]}"
            if sentence:
                done(sentence)

        if address == self._here:
            future = self._threads.submit(work, *args)
        else:
            where = NodeAffinitySchedulingStrategy(node_id, soft=False)
            task = ray.remote(work).options(num_cpus=0, max_retries=0, scheduling_strategy=where)
            future = task.remote(*args).future()
        future.add_done_callback(answered)


def warm_template(threads: Mapping[str, str]) -> str:
    """Have a template ready on this machine, for workers of the usual environment: a CPU and a thread each."""
    owner = Owner(ray.get_runtime_context().gcs_address, os.getppid())
    template_client.warm({**os.environ, **threads}, owner)
    return ""
