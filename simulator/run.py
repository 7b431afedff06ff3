"""One simulation from its parts: the whole cluster, or each virtual cluster by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.cluster import Cluster
from .engine.engine import Engine
from .engine.outcome import Outcome, together
from .traces.cluster_file import WHOLE, SimulatedCluster
from .traces.workload import Workload


class Simulation:
    """Every part of the cluster with its own jobs, one after the other, with an engine of its own from `make`.

    `asked`: what was submitted, where the workload has more jobs than that; the outcome is about those.
    Raises ValueError for a job whose virtual cluster is none of the cluster's. As an engine, it can be pickled
    between two steps.
    """

    def __init__(
        self,
        workload: Workload,
        cluster: SimulatedCluster,
        make: Callable[[Workload, Cluster], Engine],
        asked: Workload | None = None,
    ) -> None:
        self._asked = asked
        self._workload, self._parts = workload, cluster.parts
        self._at = 0  # engines that are done
        self._whole = set(cluster.parts) == {WHOLE}
        if self._whole:
            self.engines = [make(workload, cluster.parts[WHOLE])]
            return
        names = np.array(workload.virtual_clusters)
        unknown = sorted(set(names.tolist()) - set(cluster.parts))
        if unknown:
            job = workload.ids[int(np.flatnonzero(names == unknown[0])[0])]
            have = ", ".join(sorted(cluster.parts))
            raise ValueError(f"trace: job {job} is of virtual cluster {unknown[0]!r}; the cluster has {have}")
        self.engines = [
            make(workload.select(names == name), part)
            for name, part in sorted(cluster.parts.items())
            if (names == name).any()
        ]

    def step(self) -> bool:
        """One round; False: every job has ended. Raises Stuck as `Engine.step` does."""
        while self._at < len(self.engines):
            if self.engines[self._at].step():
                return True
            self._at += 1
        return False

    def run(self) -> Outcome:
        while self.step():
            pass
        return self.outcome()

    def outcome(self) -> Outcome:
        """What came of a run that is at its end."""
        outcomes = [engine.outcome() for engine in self.engines]
        whole = outcomes[0] if self._whole else together(outcomes, self._workload, self._parts)
        if self._asked is None or len(self._asked) == len(whole.workload):
            return whole
        asked = set(self._asked.ids)
        return whole.select(np.array([id in asked for id in whole.workload.ids]))

    def progress(self) -> str:
        """How far it is, in words."""
        ended = sum(engine.ended for engine in self.engines)
        return f"{ended} of {len(self._workload)} jobs have ended"


def simulate(
    workload: Workload, cluster: SimulatedCluster, make: Callable[[Workload, Cluster], Engine]
) -> Outcome:
    """A `Simulation` from start to end."""
    return Simulation(workload, cluster, make).run()
