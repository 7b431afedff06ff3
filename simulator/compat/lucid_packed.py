"""Lucid itself as its published simulator runs it (S-Lab-System-Group/Lucid @ 9b9ba89; thesis, section 4.4).

Profiling is a pass before the simulation. Jobs that end in it are done. All others arrive in the simulation when
they were submitted, with their whole length, as if they had not been measured. Only the statistic of queues adds
what they waited for the profiler. Pairs run at their measured speeds, which may be above 1. A pair that was not
measured runs at full speed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...core.cluster import Cluster, Node
from ...core.placement import Placement
from ...policies.contract.arrivals import Arrivals
from ...policies.lucid import LucidOptions, LucidPolicy
from ...policies.packing.models import PackingModels
from ...policies.packing.profiler import Newcomer, ProfilerOptions, borrows, in_order, returns, started
from ...policies.packing.tenants import Tenants
from ..engine.engine import Engine, Timing
from ..jobs.fixed_length import FixedLengthWorld
from ..jobs.lengths import Lengths, Sources
from ..jobs.shared_speeds import JobProfiles, MeasuredPairs
from ..run import Simulation
from ..traces.cluster_file import SimulatedCluster
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload

GROWS_EVERY_S, SHRINKS_EVERY_S = 10.0, 100.0
NODE_GPUS = 8


@dataclass(frozen=True, eq=False)
class Profiled:
    """What the pass of the profiler gives: (jobs,) whether each ended in it, and seconds that it waited for it."""

    ended: np.ndarray
    queue_s: Floats
    measured: np.ndarray  # (jobs,) whether it was in the profiler


def profiled(workload: Workload, options: ProfilerOptions, ahead: Callable[[float], Arrivals]) -> Profiled:
    """Let all jobs of at most `n_prof` GPUs pass the profiler (Algorithm 3, with its time-aware scaling)."""
    count, gpus = len(workload), workload.gpus.tolist()
    ended, queue_s = np.zeros(count, bool), np.zeros(count)
    measured = workload.gpus <= options.n_prof
    arrivals = np.flatnonzero(measured).tolist()
    nodes = tuple(Node(f"profiler-{at}", "gpu", NODE_GPUS) for at in range(options.nodes))
    tenants, borrowed = Tenants(Cluster(nodes)), False
    lender = Node("profiler-borrowed", "gpu", NODE_GPUS)
    waiting: dict[str, Newcomer] = {}
    place = {id: at for at, id in enumerate(workload.ids)}
    running: list[tuple[float, str]] = []
    now, at = 0.0, 0
    while at < len(arrivals) or waiting or running:
        due = [workload.submit_s[arrivals[at]]] if at < len(arrivals) else []
        due += [running[0][0]] if running else []
        if len(waiting) > options.grow_at and not borrowed:
            due.append((np.floor(now / GROWS_EVERY_S) + 1) * GROWS_EVERY_S)
        if borrowed:
            due.append((np.floor(now / SHRINKS_EVERY_S) + 1) * SHRINKS_EVERY_S)
        now = float(min(due))
        while running and running[0][0] <= now:
            tenants.give_back(heapq.heappop(running)[1])
        while at < len(arrivals) and workload.submit_s[arrivals[at]] <= now:
            job = arrivals[at]
            id = workload.ids[job]
            waiting[id] = Newcomer(id, gpus[job], float(workload.submit_s[job]))
            at += 1
        if now % GROWS_EVERY_S == 0 and borrows(len(waiting), int(borrowed), options):
            tenants, borrowed = _on(tenants, (*nodes, lender)), True
        elif borrowed and now % SHRINKS_EVERY_S == 0 and returns(len(waiting), options, ahead(now).gpus):
            tenants, borrowed = _without(tenants, lender, nodes)
        for id in started(in_order(list(waiting.values()), options.order), partial(_room, tenants), tenants.take):
            job = place[id]
            queue_s[job] = now - workload.submit_s[job]
            ended[job] = workload.duration_s[job] <= options.t_prof_s
            heapq.heappush(running, (now + min(float(workload.duration_s[job]), options.t_prof_s), id))
            del waiting[id]
    return Profiled(ended, queue_s, measured)


def _room(tenants: Tenants, one: Newcomer) -> Placement | None:
    return tenants.find(one.gpus, ["gpu"])


def _without(tenants: Tenants, lender: Node, nodes: tuple[Node, ...]) -> tuple[Tenants, bool]:
    """Return the nodes without the borrowed one, if it is idle, and whether it is still borrowed."""
    if any(share.node_id == lender.id for held in tenants.held.values() for share in held.shares):
        return tenants, True
    return _on(tenants, nodes), False


def _on(tenants: Tenants, nodes: tuple[Node, ...]) -> Tenants:
    found = Tenants(Cluster(nodes))
    for id, placement in tenants.held.items():
        found.take(id, placement)
    return found


@dataclass(frozen=True, eq=False)
class Replayed:
    """(jobs,) seconds from submission to the end, and of waiting, the profiler's included."""

    jct_s: Floats
    queue_s: Floats


def replayed(
    workload: Workload,
    nodes: SimulatedCluster,
    passed: Profiled,
    options: LucidOptions,
    models: PackingModels,
    estimates_s: Floats,
    profiles: JobProfiles,
    pairs: MeasuredPairs,
) -> tuple[Replayed, Simulation]:
    """Run the jobs that did not end in the profiler, and join both.

    Args:
        estimates_s: (jobs,) of the length of each.
    """
    left = np.flatnonzero(~passed.ended)
    place = {id: at for at, id in enumerate(workload.ids)}
    estimated = dict(zip(workload.ids, estimates_s.tolist(), strict=True))

    def engine(part: Workload, on: Cluster) -> Engine:
        at: Ints = np.array([place[id] for id in part.ids], np.int64)
        world = FixedLengthWorld(part, lengths=Lengths.ESTIMATED, sources=Sources(estimates_s=estimated))
        world.pooled = True
        return Engine(
            world,
            on,
            LucidPolicy(options, models),
            Timing(events=True),
            pairs=MeasuredPairs([pairs.kinds[i] for i in at], pairs.table, pairs.otherwise, pairs.most),
            profiles=JobProfiles([profiles.usage[i] for i in at], 0.0),
        )

    simulation = Simulation(workload.select(left), nodes, engine)
    outcome = simulation.run()
    jct_s, queue_s = passed.queue_s + workload.duration_s, passed.queue_s.copy()
    jct_s[left] = outcome.jct_s
    queue_s[left] += np.maximum(outcome.started_s - outcome.workload.submit_s, 0.0)
    return Replayed(jct_s, queue_s), simulation
