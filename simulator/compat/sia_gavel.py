"""Gavel as Sia's published simulator runs it (siasosp23/artifacts @ aaf7a0d, spec section 6).

Jobs keep the GPUs and the batch size of their trace. Every round computes shares again from the true steps per
second, without the simulator's slow-down. The time that a job received counts from its arrival and is never
reset. All GPU types share one queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from ...core.cluster import Cluster
from ...core.placement import NodeShare, Placement
from ...estimators.goodput import JobModel
from ...optimizer.shares import max_sum_shares
from ...policies.choosing.budget import Budget
from ...policies.contract.round import Plan, Round
from ...policies.placing.ledger import Ledger, OverCommitted, exists
from ..jobs.adaptive import Batch, Observation
from ..jobs.applications import Application
from ..jobs.step_times import Shape
from ..traces.tables import Floats
from ..traces.workload import Workload

ROUND_S = 360.0
TOO_LARGE = 0.1  # steps per second if a GPU type has too few GPUs


class AsAsked:
    """Knowledge of jobs that keep the batch size of their trace."""

    def __init__(self, workload: Workload, applications: Sequence[Application]) -> None:
        self._batch_size = workload.batch_size
        self._applications = applications

    def observe(self, job: int, seen: Observation) -> None:
        pass

    def model(self, job: int) -> JobModel | None:
        return None

    def choose(self, job: int, gpu_type: str, shape: Shape) -> Batch:
        """Return the batch that splits the trace's batch size over the replicas."""
        application, replicas = self._applications[job], sum(shape)
        batch_size = int(self._batch_size[job])
        most = application.step_times[gpu_type].sizes(shape)[1]
        local = math.ceil(batch_size / replicas - 1e-8)
        s = math.ceil(local / most - 1e-8) - 1
        if replicas == 1 and batch_size > application.initial_batch_size:
            s = max(s, 1)
        m = math.ceil(local / (s + 1) - 1e-8)
        return Batch(min(m, max(application.max_batch_size // (replicas * (s + 1)), 1)), s)

    def rate(self, job: int, gpu_type: str, shape: Shape) -> float:
        """Return optimizer steps per second at the trace's batch size."""
        batch = self.choose(job, gpu_type, shape)
        if sum(shape) == 1:  # the policy assumes two passes there, even at the initial batch size
            local = int(self._batch_size[job])
            batch = Batch(math.ceil(local / 2), 1) if batch.accumulation == 0 else batch
        time = self._applications[job].step_times[gpu_type].at(shape, batch.local_bsz)
        return 1.0 / (time.step_s + batch.accumulation * time.pass_s)


class ArtifactGavel:
    """A policy that maximises the sum of throughput, without locality.

    A job's priority is its share over the fraction of time that it received.
    """

    def __init__(self, knowledge: AsAsked, positions: Callable[[str], int]) -> None:
        self._knowledge = knowledge
        self._position = positions  # of a job's id in the workload
        self._rates: dict[str, Floats] = {}
        self._received_s: dict[str, Floats] = {}
        self._used_s: Floats | None = None  # of each GPU type, by all jobs so far
        self._held: dict[str, Placement] = {}  # of the last round, with the GPUs named

    def plan(self, round: Round) -> Plan:
        """Return a plan in which jobs get GPUs of one type by priority, as long as enough are free."""
        cluster, jobs = round.cluster, list(round.jobs)
        types = cluster.gpu_types
        gpus = round.columns.gpus
        capacity = np.array([cluster.capacity()[t] for t in types], float)
        if self._used_s is None:
            self._used_s = np.zeros(len(types))
        for job, count in zip(jobs, gpus.tolist(), strict=True):
            if job.id not in self._received_s:
                self._received_s[job.id] = np.full(len(types), round.length / 2)
                self._used_s += round.length / 2
                self._rates[job.id] = self._rates_of(job.id, count, cluster)
        rates = np.array([self._rates[job.id] for job in jobs])
        shares = np.round(max_sum_shares(rates, gpus.astype(float), capacity), 5)
        received = np.array([self._received_s[job.id] for job in jobs])
        priority = shares * self._used_s / received
        budget = Budget(cluster)
        chosen: dict[int, int] = {}
        queue = [(i, t) for t in range(len(types)) for i in range(len(jobs))]
        for i, t in sorted(queue, key=lambda at: (priority[at], shares[at]), reverse=True):
            if i not in chosen and budget.take(types[t], int(gpus[i])):
                chosen[i] = t
        self._held = self._assign(cluster, {jobs[i].id: (types[t], int(gpus[i])) for i, t in chosen.items()})
        for i, t in chosen.items():
            self._received_s[jobs[i].id][t] += round.length
            self._used_s[t] += round.length
        return Plan({id: _unnamed(placement) for id, placement in self._held.items()})

    def _rates_of(self, id: str, gpus: int, cluster: Cluster) -> Floats:
        rates = np.full(len(cluster.gpu_types), TOO_LARGE)
        for t, gpu_type in enumerate(cluster.gpu_types):
            if gpus <= cluster.capacity()[gpu_type]:
                whole, rest = divmod(gpus, max(node.gpus for node in cluster.of_type(gpu_type)))
                size = max(node.gpus for node in cluster.of_type(gpu_type))
                shape = (size,) * whole + ((rest,) if rest else ())
                rates[t] = self._knowledge.rate(self._position(id), gpu_type, shape)
        return rates

    def _assign(self, cluster: Cluster, wanted: dict[str, tuple[str, int]]) -> dict[str, Placement]:
        """Return the GPUs of each job by name. The largest jobs are served first.

        Among jobs of one size, those that keep their GPUs come first; others get the next free ones.
        """
        ledger = Ledger(cluster)
        for gpu_type in cluster.gpu_types:
            mine = {id: gpus for id, (t, gpus) in wanted.items() if t == gpu_type}
            for size in sorted(set(mine.values()), reverse=True):
                same = [id for id, gpus in mine.items() if gpus == size]
                for id in same:
                    before = self._held.get(id)
                    if before is not None and before.gpu_type == gpu_type and exists(before, cluster):
                        with suppress(OverCommitted):
                            ledger.take(id, before)
                for id in same:
                    if id not in ledger.held:
                        ledger.take(id, _first_idle(ledger, gpu_type, size))
        return dict(ledger.held)


def _first_idle(ledger: Ledger, gpu_type: str, gpus: int) -> Placement:
    """Return the first idle GPUs of a type by node and number, however many nodes they are on."""
    shares: list[NodeShare] = []
    for node in ledger.cluster.of_type(gpu_type):
        devices = tuple(ledger.free(node.id).devices)[:gpus]
        if devices:
            shares.append(NodeShare(node.id, len(devices), devices=devices))
            gpus -= len(devices)
    return Placement(gpu_type, tuple(shares))


def _unnamed(placement: Placement) -> Placement:
    """Return a placement on as many GPUs of each node. To the engine, which GPUs they are is no move."""
    shares = (NodeShare(share.node_id, share.gpus) for share in placement.shares)
    return Placement(placement.gpu_type, tuple(shares))
