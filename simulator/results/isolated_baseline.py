"""The time that jobs take alone on some GPUs of one type, from start to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from ...core.cluster import Cluster, Node
from ...core.placement import NodeShare, Placement
from ...core.training_config import Adaptivity
from ...policies.contract.round import Plan, Round
from ..engine.engine import Engine, Timing
from ..engine.outcome import Outcome
from ..jobs.adaptive import AdaptiveWorld, Observation
from ..jobs.applications import Application
from ..jobs.knowledge import Knows, LearningKnowledge
from ..jobs.shapes import shape_of
from ..traces.tables import Floats
from ..traces.workload import TraceJob, Workload
from .fairness import contention_of, rate_on_share, ratios

MOST_GPUS = 64  # the most that a job may hold here


class ApplicationSource(Protocol):
    """A source of applications by name."""

    def __getitem__(self, name: str) -> Application: ...


class Kind(NamedTuple):
    """What decides how long a job takes alone.

    `gpus`: GPUs of a rigid job, else 0.
    `batch_size`: batch size of a job that keeps it, else 0.
    """

    application: str
    adaptivity: Adaptivity
    gpus: int
    batch_size: int


@dataclass(frozen=True)
class Alone:
    """Seconds from start to end on each number of GPUs that a job can use; empty: it can use none."""

    gpus: tuple[int, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class _Own:
    """A policy that gives every job its own placement."""

    placements: Mapping[str, Placement]

    def plan(self, round: Round) -> Plan:
        return Plan(placements={job.id: self.placements[job.id] for job in round.jobs})


class _AllMeasured(LearningKnowledge):
    """Knowledge of jobs whose step times were measured before. Only gradients are new, so nothing is fitted
    again.
    """

    def observe(self, job: int, seen: Observation) -> None:
        self.observe_gradients(job, seen)


class IsolatedBaseline:
    """Runs of jobs alone in the simulator's own world, with all measurements known.

    Each kind runs once per GPU type. A job runs on a power of two within a node, or on whole nodes: the
    configurations of Sia (section 3.3.1).
    """

    def __init__(self, applications: ApplicationSource) -> None:
        self._applications = applications
        self._seen: dict[tuple[Kind, str, int, int], Alone] = {}

    def alone(self, kind: Kind, gpu_type: str, node_gpus: int, most: int) -> Alone:
        """Return the times on up to `most` GPUs of a type, whose nodes have `node_gpus`.

        A rigid job runs on as many GPUs as it asks for.
        """
        most = min(most, MOST_GPUS)
        key = kind, gpu_type, node_gpus, 0 if kind.gpus else most
        if key not in self._seen:
            self._seen[key] = self._run(kind, gpu_type, node_gpus, most)
        return self._seen[key]

    def restart_s(self, application: str) -> float:
        """Return the seconds that a restart of an application costs."""
        return self._applications[application].restart_s

    def gpus_per_replica(self, application: str, gpu_type: str) -> int:
        """Return the GPUs that a replica of an application takes on a GPU type."""
        return self._applications[application].per_replica(gpu_type)

    def _run(self, kind: Kind, gpu_type: str, node_gpus: int, most: int) -> Alone:
        whole = self._applications[kind.application]
        if gpu_type not in whole.step_times:
            return Alone((), ())
        application = replace(whole, step_times={gpu_type: whole.step_times[gpu_type]})
        sizes = [
            n for n in _sizes(kind, application, gpu_type, node_gpus, most) if _measured(application, n, node_gpus)
        ]
        if not sizes:
            return Alone((), ())
        jobs = [TraceJob(str(n), 0.0, n, None, application.name, kind.batch_size, kind.adaptivity) for n in sizes]
        workload = Workload.of(jobs)
        # All jobs are submitted at once, so they keep the order of `sizes`.
        nodes: list[Node] = []
        own: dict[str, Placement] = {}
        for n in sizes:
            mine = [Node(f"{n}-{i}", gpu_type, gpus) for i, gpus in enumerate(_shape(n, node_gpus))]
            own[str(n)] = Placement(gpu_type, tuple(NodeShare(node.id, node.gpus) for node in mine))
            nodes += mine
        knowledge = _AllMeasured(workload, [application] * len(sizes), Knows.ORACLE)
        world = AdaptiveWorld(workload, [application] * len(sizes), knowledge)
        # Rounds are at the ends of epochs, where jobs choose their batch again, as in a run.
        outcome = Engine(world, Cluster(tuple(nodes)), _Own(own), Timing(events=True)).run()
        return Alone(tuple(sizes), tuple(outcome.jct_s.tolist()))


def kinds_of(workload: Workload) -> list[Kind]:
    """Return the kind of each job."""
    return [
        Kind(
            name,
            adaptivity,
            int(gpus) if adaptivity is Adaptivity.RIGID else 0,
            0 if adaptivity is Adaptivity.ADAPTIVE else int(batch_size),
        )
        for name, adaptivity, gpus, batch_size in zip(
            workload.applications, workload.adaptivity, workload.gpus, workload.batch_size, strict=True
        )
    ]


def finish_time_fairness(outcome: Outcome, baseline: IsolatedBaseline | None) -> Floats:
    """Return (jobs,) rho of every job (`fairness`) within its virtual cluster.

    `baseline`: None for jobs with lengths.
    """
    rho = np.full(len(outcome.workload), np.nan)
    for jobs, cluster in outcome.by_part():
        workload = outcome.workload.select(jobs)
        types, capacity = cluster.gpu_types, cluster.capacity()
        count = contention_of(workload.submit_s, outcome.finished_s[jobs])
        alone_s = np.full((len(jobs), len(types)), np.nan)
        for at, gpu_type in enumerate(types):
            share = capacity[gpu_type] / count
            if baseline is None:
                alone_s[:, at] = workload.duration_s / np.minimum(share / workload.gpus, 1.0)
                continue
            node_gpus = max(node.gpus for node in cluster.of_type(gpu_type))
            by_kind: dict[Kind, list[int]] = {}
            for i, kind in enumerate(kinds_of(workload)):
                by_kind.setdefault(kind, []).append(i)
            for kind, members in by_kind.items():
                found = baseline.alone(kind, gpu_type, node_gpus, capacity[gpu_type])
                if found.gpus:
                    alone_s[members, at] = 1.0 / rate_on_share(share[members], found.gpus, found.seconds)
        gpus = np.array([capacity[t] for t in types], float)
        rho[jobs] = ratios(outcome.jct_s[jobs], alone_s, gpus)
    return rho


def work_gpu_s(outcome: Outcome, baseline: IsolatedBaseline | None) -> Floats:
    """Return (jobs,) the work of each job in GPU-seconds; nan: no one replica can run it.

    The work is the time alone with one replica, on GPUs drawn at random from the cluster. The job chooses its
    batch size, and starting costs nothing. So its work is the same under every policy. The work of a job of
    given length is its GPUs times its length.
    """
    workload = outcome.workload
    if baseline is None:
        return workload.duration_s * workload.gpus
    capacity = outcome.cluster.capacity()
    of_name: dict[str, float] = {}
    for name in sorted(set(workload.applications)):
        kind = Kind(name, Adaptivity.ADAPTIVE, 0, 0)
        per_replica = {t: baseline.gpus_per_replica(name, t) for t in capacity}
        seconds = {t: baseline.alone(kind, t, n, n).seconds for t, n in per_replica.items()}
        gpus = sum(capacity[t] for t, found in seconds.items() if found)
        start_s = baseline.restart_s(name)
        total = sum(capacity[t] * per_replica[t] * (found[0] - start_s) for t, found in seconds.items() if found)
        of_name[name] = total / gpus if gpus else np.nan
    return np.array([of_name[name] for name in workload.applications])


def _shape(gpus: int, node_gpus: int) -> list[int]:
    full, rest = divmod(gpus, node_gpus)
    return [node_gpus] * full + ([rest] if rest else [])


def _sizes(kind: Kind, application: Application, gpu_type: str, node_gpus: int, most: int) -> Sequence[int]:
    per_replica = application.per_replica(gpu_type)
    if kind.gpus:
        return (kind.gpus,) if kind.gpus % per_replica == 0 else ()
    within = {2**i for i in range(node_gpus.bit_length()) if 2**i <= node_gpus}
    sizes = within | set(range(node_gpus, most + 1, node_gpus))
    # A job has at most as many replicas as its batch has smallest parts.
    batch = kind.batch_size or application.max_batch_size
    most = min(most, per_replica * max(batch // application.local_bsz[gpu_type][0], 1))
    return sorted(n for n in sizes if n <= most and n % per_replica == 0)


def _measured(application: Application, gpus: int, node_gpus: int) -> bool:
    for gpu_type, times in application.step_times.items():
        nodes = [NodeShare(str(i), count) for i, count in enumerate(sorted(_shape(gpus, node_gpus)))]
        if not times.measured(shape_of(Placement(gpu_type, tuple(nodes)), application.per_replica(gpu_type))):
            return False
    return True
