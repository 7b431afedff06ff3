"""Synergy as its published simulator runs it (msr-fiddle/synergy @ 1bb2bed6), where that differs from the paper.

Each way can be had by itself. The published simulator
* ends jobs, and frees what they hold, only where a round ends;
* counts whole iterations in each round, and drops the rest;
* goes through jobs in the policy's order, and not by what they ask for;
* takes the first server that fits, and not the fullest;
* switches a job to its share in both CPUs and memory, also upwards, so that a server may be exceeded. Such a job
  is left out of the round here, as no plan may exceed a server.

Neither paper nor simulator keeps a job where it is: all are placed anew in each round. With `stays` a job stays
where it is if what it gets is free there, as under our `tune`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...core.cluster import Cluster, Node
from ...core.placement import Placement
from ...policies.contract.round import Plan, Round
from ...policies.fifo import FifoOptions, FifoPolicy
from ...policies.provisioning.mechanism import Mechanism, Prices
from ...policies.provisioning.mechanisms import Provisioning, mechanism_of
from ...policies.provisioning.needs import Need, Places
from ...policies.provisioning.provisioner import Provisioner
from ...policies.provisioning.room import NodeRoom
from ...policies.provisioning.tune import demoted, make_way
from ..engine.engine import Engine, Timing
from ..jobs.input_bound import InputBoundWorld
from ..jobs.world import ProgressRate
from ..traces.input_profiles import InputProfiles
from ..traces.workload import Workload

ROUND_S = 300.0


@dataclass(frozen=True)
class Ways:
    """Which of the published simulator's ways a run has."""

    ends_with_rounds: bool = False
    whole_iterations: bool = False
    unsorted: bool = False
    first_fit: bool = False
    wholesale: bool = False
    stays: bool = False


WAYS: Mapping[str, Ways] = {
    "as_the_paper_says": Ways(),
    "ends_with_rounds": Ways(ends_with_rounds=True),
    "whole_iterations": Ways(whole_iterations=True),
    "unsorted": Ways(unsorted=True),
    "first_fit": Ways(first_fit=True),
    "wholesale": Ways(wholesale=True),
    "all_of_them": Ways(True, True, True, True, True),
    "stays": Ways(stays=True),
}


@dataclass(frozen=True)
class PublishedTune:
    """TUNE in some of the published ways. What is left over stays unused."""

    ways: Ways
    admits: bool = False

    def provide(self, needs: Iterable[Need], room: NodeRoom) -> Prices | None:
        """Place jobs one by one; see `Mechanism.provide`."""
        jobs = [need if self.ways.stays or need.pinned else replace(need, before=()) for need in needs]
        if not self.ways.unsorted:
            jobs.sort(key=lambda need: (need.gpus, *need.choices.demand), reverse=True)
        for need in jobs:
            self._place(need, room)
        return None

    def _lowered(self, need: Need) -> tuple[float, float, float]:
        return (*need.choices.share, 1.0) if self.ways.wholesale else demoted(need.choices)

    def _find(self, need: Need, room: NodeRoom, cpus: float, memory_gib: float) -> Places | None:
        return room.find(need, cpus, memory_gib, first=self.ways.first_fit)

    def _place(self, need: Need, room: NodeRoom) -> None:
        cpus, memory_gib = need.choices.demand
        speed = need.choices.lists[2][need.choices.best]
        places = self._find(need, room, cpus, memory_gib)
        if places is None:
            cpus, memory_gib, speed = self._lowered(need)
            places = self._find(need, room, cpus, memory_gib)
        fits = places is not None
        if places is None and (places := room.find_gpus(need)) is None:
            return
        room.give(need, places, cpus, memory_gib, speed)
        if fits:
            return
        for node, _ in places:
            if not self.ways.wholesale:
                make_way(node, room)
                continue
            for job in list(room.tenants[node]):
                if not room.is_short(node):
                    break
                held = room.held[job]
                if job != need.job and (held.cpus, held.memory_gib) != held.need.choices.share:
                    room.change(held, *self._lowered(held.need))
        if any(room.is_short(node) for node, _ in places):
            room.take_back(need.job)


class PublishedWorld(InputBoundWorld):
    """Jobs that do whole iterations in each round."""

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        """Return the rate of the whole iterations of a round."""
        rate = super().moves(job, placement, progress)
        step_s = float(self.work_s[job]) / max(int(self.workload.steps[job]), 1)
        return ProgressRate(np.floor(rate.per_s * ROUND_S / step_s) * step_s / ROUND_S, rate.boundary)


class PublishedFifo(FifoPolicy):
    """FIFO, decided anew each round, with a mechanism of its own."""

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__(FifoOptions(preempts=True))
        self._mechanism = mechanism

    def plan(self, round: Round) -> Plan:
        """Serve jobs in the order of their submission."""
        columns = round.columns
        provisioner = Provisioner(Provisioning.TUNE, own=self._mechanism)
        return provisioner.plan(round, columns.by(self.key(columns)), preempts=True, type_blind=False)


def replayed(workload: Workload, profiles: InputProfiles, mechanism: str, ways: Ways, servers: int = 4) -> float:
    """Return the makespan, s, of jobs on servers of 8 GPUs, 24 CPUs and 500 GB under FIFO.

    `mechanism`: `proportional` or `tune`.
    """
    cluster = Cluster(tuple(Node(f"v100-{at:04d}", "v100", 8, 24.0, 500.0) for at in range(servers)))
    world = (PublishedWorld if ways.whole_iterations else InputBoundWorld)(workload, profiles, cluster, _nothing)
    own: Mechanism = PublishedTune(ways)
    if mechanism != "tune":
        own = mechanism_of(Provisioning(mechanism))
    outcome = Engine(world, cluster, PublishedFifo(own), Timing(ROUND_S)).run()
    ends_s = float(outcome.finished_s.max())
    if ways.ends_with_rounds:
        ends_s = float(np.ceil(ends_s / ROUND_S)) * ROUND_S
    return ends_s - float(workload.submit_s.min())


def _nothing(gpus: int) -> float:
    return 0.0
