"""Small tasks on the machines of the cluster, beside jobs. Nobody waits for them.

Several nodes may be on one machine, as emulated ones are. A task runs once per machine, not once per node.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ...core.cluster import Node
from ...executor.files.output_keeper import clean
from ...executor.files.site import Site
from ...executor.files.workplace import local_path
from ...executor.processes import template_client
from ...executor.processes.template_wire import ONE_THREAD, Owner
from ...executor.sandbox.environment import around
from .node_view import NodesSnapshot


def machines_of(snapshot: NodesSnapshot) -> dict[str, str]:
    """Return one node of every machine that has leased nodes, by the machine's address."""
    return {snapshot.names.get(node.id, node.id): node.id for node in reversed(_leased(snapshot))}


def _leased(snapshot: NodesSnapshot) -> tuple[Node, ...]:
    return (*snapshot.cluster.nodes, *snapshot.closed_nodes)


class Machines:
    """Keeps a template of training processes ready on every machine, and removes folders of ended jobs."""

    def __init__(self) -> None:
        self._here = ray.util.get_node_ip_address()
        self._nodes: dict[str, str] = {}  # address -> a node there now
        self._ready: set[tuple[str, bool]] = set()
        self._lock = threading.Lock()
        self._doing: Counter[str] = Counter()  # tasks that are under way, by address
        self._to_clean: dict[str, list[tuple[Site, Callable[[str], None]]]] = {}  # machines that are away
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="machine")

    def see(self, snapshot: NodesSnapshot) -> None:
        """Start a template on new machines, so that their first job starts fast too.

        Machines that are back are cleaned of what jobs that ended meanwhile have left there.
        """
        with self._lock:
            self._nodes = machines_of(snapshot)
            back = {
                address: self._to_clean.pop(address) for address in [*self._to_clean] if address in self._nodes
            }
        for address, jobs in back.items():
            for site, tell in jobs:
                self._do(address, self._nodes[address], clean, site, done=tell)
        emulated = {node.id: node.emulated for node in _leased(snapshot)}
        there = {(address, emulated[node]): node for address, node in self._nodes.items()}
        for (address, paced), node in there.items():
            if (address, paced) not in self._ready:
                self._do(address, node, warm_template, ONE_THREAD if paced else {})
        self._ready = set(there)

    def clean(self, addresses: Sequence[str], site: Site, tell: Callable[[str], None]) -> None:
        """Remove the folders of an ended job from machines, or once they are back if they are away now.

        A restarted service forgets which machines were away.

        Args:
            tell: called with one sentence if something had to stay.
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

    def busy_nodes(self, snapshot: NodesSnapshot) -> list[str]:
        """Return the nodes of machines on which a task is under way."""
        with self._lock:
            busy = {address for address, tasks in self._doing.items() if tasks > 0}
        return [node_id for node_id, address in snapshot.names.items() if address in busy]

    def _do(
        self,
        address: str,
        node_id: str,
        work: Callable[..., str],
        *args: Any,
        done: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """Have a task done on a machine: by Ray, or by a thread if it is the service's own.

        For a Ray task a process may have to start first.
        """

        def answered(future: Future[str]) -> None:
            with self._lock:
                self._doing[address] -= 1
            error = future.exception()
            sentence = future.result() if error is None else f"{address}: {str(error).splitlines()[0]}"
            if sentence:
                done(sentence)

        with self._lock:
            self._doing[address] += 1
        if address == self._here:
            future = self._threads.submit(work, *args)
        else:
            where = NodeAffinitySchedulingStrategy(node_id, soft=False)
            task = ray.remote(work).options(num_cpus=0, max_retries=0, scheduling_strategy=where)
            future = task.remote(*args).future()
        future.add_done_callback(answered)


def warm_template(threads: Mapping[str, str]) -> str:
    """Have a template ready on this machine for workers with the usual environment."""
    owner = Owner(ray.get_runtime_context().gcs_address, os.getppid())
    template_client.warm({**around(os.environ), **threads}, owner)
    return ""
