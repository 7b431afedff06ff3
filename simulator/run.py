"""One simulation of the whole cluster, or of each of its pools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from ..core.cluster import Cluster
from .engine.engine import Engine
from .engine.node_states import Power
from .engine.outcome import Outcome, together
from .traces.cluster_file import WHOLE, SimulatedCluster
from .traces.workload import Workload


class Simulation:
    """A run of all pools in one order of time; each pool has its own jobs and its own engine from `make`.

    `asked`: the jobs that were submitted, if the workload has more; the outcome is about these.
    `crosses_pools`: one engine has the jobs and nodes of all pools, as its policy plans them at once.

    Raise ValueError if the cluster lacks the pool of a job. A simulation can be pickled between two steps.
    """

    def __init__(
        self,
        workload: Workload,
        cluster: SimulatedCluster,
        make: Callable[[Workload, Cluster], Engine],
        asked: Workload | None = None,
        *,
        crosses_pools: bool = False,
    ) -> None:
        self._asked = asked
        self._workload, self._parts = workload, cluster.parts
        self._whole = set(cluster.parts) == {WHOLE}
        self._crosses = crosses_pools and not self._whole
        if self._crosses:
            self._check_pools()
            self.engines = [make(workload, cluster.joined)]
        elif self._whole:
            self.engines = [make(workload, cluster.parts[WHOLE])]
        else:
            self.engines = self._engine_per_pool(make)
        # (time of the next round, number of the engine); None before the first step.
        self._due: list[tuple[float, int]] | None = None

    def _engine_per_pool(self, make: Callable[[Workload, Cluster], Engine]) -> list[Engine]:
        names = self._check_pools()
        return [
            make(self._workload.select(names == name), part)
            for name, part in sorted(self._parts.items())
            if (names == name).any()
        ]

    def _check_pools(self) -> np.ndarray:
        """Return (jobs,) the pool of each job. Raise ValueError for one that the cluster lacks."""
        names = np.array(self._workload.virtual_clusters)
        unknown = sorted(set(names.tolist()) - set(self._parts))
        if unknown:
            job = self._workload.ids[int(np.flatnonzero(names == unknown[0])[0])]
            have = ", ".join(name or "nodes of no pool" for name in sorted(self._parts))
            names_it = f"is of pool {unknown[0]!r}" if unknown[0] else "names no pool"
            raise ValueError(f"trace: job {job} {names_it}; the cluster has {have}")
        return names

    def let_sleep(self, power: Power) -> None:
        """Let nodes of all pools sleep and wake as one adviser says, from the next rounds on."""
        for engine in self.engines:
            engine.let_sleep(power)

    def step(self) -> bool:
        """Hold the earliest round of any pool. Return False if every job has ended.

        Pools share nothing. So the time of each may pass up to its next round before others decide theirs.
        Raise RunFailed as `Engine.decide` does.
        """
        if self._due is None:
            self._due = []
            for number in range(len(self.engines)):
                self._wait_for(number)
        if not self._due:
            return False
        _, number = heappop(self._due)
        self.engines[number].decide()
        self._wait_for(number)
        return True

    def _wait_for(self, number: int) -> None:
        """Note when an engine's next round is, if it has one."""
        assert self._due is not None
        if self.engines[number].to_round():
            heappush(self._due, (self.engines[number].now_s, number))

    def run(self) -> Outcome:
        """Run to the end. Raise RunFailed as `step` does."""
        while self.step():
            pass
        return self.outcome()

    def outcome(self) -> Outcome:
        """Return what came of a run that is at its end."""
        outcomes = [engine.outcome() for engine in self.engines]
        if self._crosses:
            whole = replace(outcomes[0], parts=self._parts)
        else:
            whole = outcomes[0] if self._whole else together(outcomes, self._workload, self._parts)
        if self._asked is None or len(self._asked) == len(whole.workload):
            return whole
        asked = set(self._asked.ids)
        return whole.select(np.array([id in asked for id in whole.workload.ids]))

    def progress(self) -> str:
        """Return in words how far the run is."""
        ended = sum(engine.ended for engine in self.engines)
        return f"{ended} of {len(self._workload)} jobs have ended"


def simulate(
    workload: Workload, cluster: SimulatedCluster, make: Callable[[Workload, Cluster], Engine]
) -> Outcome:
    """Run a `Simulation` from start to end. Raise RunFailed as `Simulation.step` does."""
    return Simulation(workload, cluster, make).run()
