"""Which cores the workers of a job keep to, by node, for the scheduler to show."""

from __future__ import annotations

from collections.abc import Callable

from ..core.cores import cores_of, listed
from .protocol.job_events import CoresHeld
from .protocol.worker_events import Bound


class BoundCores:
    """Adds up what workers tell. `put` tells the scheduler, where that is news."""

    def __init__(self, put: Callable[[CoresHeld], None]) -> None:
        self._put = put
        self._bound: dict[str, tuple[str, Bound]] = {}  # worker -> its node, and what it has told last
        self._told = CoresHeld({})

    def hear(self, worker: str, node_id: str, event: Bound) -> None:
        """Take note of the cores of a worker."""
        self._bound[worker] = node_id, event
        self._tell()

    def forget(self, worker: str) -> None:
        """Leave out a worker that is gone."""
        if self._bound.pop(worker, None) is not None:
            self._tell()

    def _tell(self) -> None:
        held: dict[str, set[int]] = {}
        machines: dict[str, str] = {}
        for node_id, event in self._bound.values():
            if event.cores:
                held.setdefault(node_id, set()).update(cores_of(event.cores))
                machines[node_id] = event.machine
        told = CoresHeld({node: (listed(cores), machines[node]) for node, cores in sorted(held.items())})
        if told != self._told:
            self._told = told
            self._put(told)
