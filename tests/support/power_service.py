"""A simple service that has just enough nodes awake, and a scheduler service that asks it after each round.

The service `energy` looks every ten minutes which nodes may sleep, which is too seldom for a test. It can take the
part of waking them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from coadapt.core.cluster import Node
from coadapt.core.settings import Settings
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.scheduler import service as service_module
from coadapt.scheduler.service import SchedulerService
from coadapt.scheduler.services.contract import Advice, Service
from coadapt.scheduler.services.energy import Energy
from pydantic import BaseModel

ADVISED = "advised_s.txt"  # in the state directory: how long each piece of advice took, seconds
WAKING = "COADAPT_TEST_WAKING"  # who wakes nodes, in the environment of the cluster


class JustEnough(Service):
    """Wakes the nodes that waiting jobs lack, and lets those sleep that have been idle for a while."""

    class Options(BaseModel):
        """`idle_s`: how long a node is idle before it may sleep."""

        idle_s: float = 3.0

    def __init__(self, options: JustEnough.Options) -> None:
        self._idle_s = options.idle_s
        self._idle_since: dict[str, float] = {}

    def advise(self, now: float, round: Round, plan: Plan) -> Advice:
        """Return what waiting jobs need, most wanted first, and what nobody has needed for `idle_s`."""
        used = {share.node_id for placement in plan.placements.values() for share in placement.shares}
        left, wake = list(round.asleep), list[Node]()
        waiting = [job for job in round.jobs if job.id not in plan.placements and job.placement is None]
        for job in waiting:
            for node in _needed(job, left):
                left.remove(node)
                wake.append(node)
        idle = {node.machine_name for node in round.cluster.nodes if node.id not in used} if not waiting else set()
        self._idle_since = {name: self._idle_since.get(name, now) for name in sorted(idle)}
        sleep = [name for name, since in self._idle_since.items() if now - since >= self._idle_s]
        return Advice(
            wake=tuple(node.machine_name for node in wake),
            sleep=tuple(sleep),
            until_s=dict.fromkeys(sleep, now + 3600.0),
            reasons=dict.fromkeys(sleep, "nobody needs it"),
        )


def _needed(job: JobView, asleep: list[Node]) -> list[Node]:
    """Return the fewest sleeping nodes of one type that hold the least a job accepts."""
    least = job.spec.resources.gpus or job.spec.resources.min_gpus
    for gpu_type in sorted({node.gpu_type for node in asleep if job.spec.gpus_per_replica(node.gpu_type)}):
        found: list[Node] = []
        for node in asleep:
            if (node.gpu_type, node.pool) == (gpu_type, job.spec.pool or "") and sum(
                n.gpus for n in found
            ) < least:
                found.append(node)
        if sum(node.gpus for node in found) >= least:
            return found
    return []


class AdvisedService(SchedulerService):
    """A scheduler service with services of its own."""

    def __init__(self, settings: Settings, begun: str = "") -> None:
        self._advisor, self._advised = JustEnough(JustEnough.Options()), 0
        self._waking: Service = Energy() if os.environ.get(WAKING) == "energy" else self._advisor
        super().__init__(settings, begun)

    def _step(self) -> None:
        super()._step()
        last, now = self._parts.cycle.last_round, self._parts.clock.steady_s()
        if last is not None and last.number != self._advised:
            self._advised, began_s = last.number, time.perf_counter()
            advice = self._advisor.advise(now, last.round, last.plan)
            if self._waking is not self._advisor:
                waking = self._waking.advise(now, last.round, last.plan)
                sleep = tuple(name for name in advice.sleep if name not in waking.wake)
                reasons = {**advice.reasons, **waking.reasons}
                advice = replace(advice, wake=waking.wake, sleep=sleep, reasons=reasons)
            with (Path(self._parts.settings.state_dir) / ADVISED).open("a") as noted:
                noted.write(f"{time.perf_counter() - began_s}\n")
            self._parts.power.take(advice, now)


@contextmanager
def advised(waking: str = "just-enough") -> Iterator[None]:
    """Have clusters that are started within use `AdvisedService`. `waking`: who wakes nodes, or `energy`."""
    names, before = vars(service_module), SchedulerService
    names["SchedulerService"], os.environ[WAKING] = AdvisedService, waking
    try:
        yield
    finally:
        names["SchedulerService"] = before
        del os.environ[WAKING]
