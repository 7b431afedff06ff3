"""Pollux: goodput-optimal placements by genetic search, blind to GPU types (Qiao et al., OSDI'21, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ...estimators.goodput import ConfigurationArrays, JobModel, goodput_matrix
from ..cluster import Cluster, Node
from ..placement import NodeShare, Placement
from ..round import JobView, Plan, Round
from .registry import register

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
VIRTUAL_GPUS = 4  # larger nodes count as several of this size (Sia, section 3.4.3)
NO_SPEEDUP = 1e-3  # of a job without GPUs: any job served is worth more than any gain of another


class PolluxOptions(BaseModel):
    """What an operator may set; defaults as published."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    p: float = Field(default=-1.0, ge=-10, lt=0)  # fairness power of the mean speedup
    population: int = Field(default=100, ge=4)
    generations: int = Field(default=100, ge=1)
    seed: int = Field(default=0, ge=0)


@dataclass(frozen=True, eq=False)
class Problem:
    """`speedup[j, n, r]`: of job j on r GPUs of n virtual nodes, over its smallest; 0 where it cannot run."""

    speedup: Floats
    most: Ints  # GPUs a job may have
    current: Ints  # (jobs, nodes) GPUs held
    stay: Floats  # factor of a job's speedup where its placement changes
    room: Ints  # GPUs of each virtual node
    ranked: bool = False  # where GPUs run short, earlier jobs go first; else whoever is drawn


@register("pollux")
class PolluxPolicy:
    """A population of (job, node) matrices, bettered by crossover and mutation, each repaired to be feasible.

    A job is valued with the model of one GPU type, the one it knows best, wherever it goes. At most one job that
    spans nodes lies on a node. What spans GPU types keeps the type it has most GPUs of and drops the others (Sia,
    section 3.4.3). A job grows to at most twice the most it ever held.
    """

    Options = PolluxOptions

    def __init__(self, options: PolluxOptions | None = None) -> None:
        self.options = options or PolluxOptions()
        self._random = np.random.default_rng(self.options.seed)

    def plan(self, round: Round) -> Plan:
        jobs = list(round.jobs)
        nodes = virtual_nodes(round.cluster)
        if not jobs or not nodes:
            return Plan({})
        best = self.search(_problem(jobs, nodes, round.cluster))
        placements = {}
        for job, row in zip(jobs, best, strict=True):
            placement = _placement(job, row, nodes)
            if placement is not None:
                placements[job.id] = placement
        return Plan(placements)

    def search(self, problem: Problem) -> Ints:
        """The fittest (jobs, nodes) matrix that was found; staying as it is is one of the first."""
        options = self.options
        size = options.population
        population = np.repeat(problem.current[None], size, axis=0)
        population[1:] = self._repaired(self._mutated(population[1:], problem), problem)
        fitness = _fitness(population, problem, options.p)
        for _ in range(options.generations):
            # Two tournaments of two choose the parents of each child.
            rivals = self._random.integers(size, size=(4, size))
            mother = np.where(fitness[rivals[0]] >= fitness[rivals[1]], rivals[0], rivals[1])
            father = np.where(fitness[rivals[2]] >= fitness[rivals[3]], rivals[2], rivals[3])
            from_mother = self._random.random((size, len(problem.most), 1)) < 0.5
            children = np.where(from_mother, population[mother], population[father])
            children = self._repaired(self._mutated(children, problem), problem)
            population = np.concatenate([population, children])
            fitness = np.concatenate([fitness, _fitness(children, problem, options.p)])
            keep = np.argsort(-fitness, kind="stable")[:size]
            population, fitness = population[keep], fitness[keep]
        return population[0]

    def _mutated(self, population: Ints, problem: Problem) -> Ints:
        """About one node of each job is drawn anew."""
        nodes = len(problem.room)
        drawn = (self._random.random(population.shape) * (problem.room + 1)).astype(np.int64)
        return np.where(self._random.random(population.shape) < 1.0 / nodes, drawn, population)

    def _repaired(self, population: Ints, problem: Problem) -> Ints:
        """Job limits first, then one spanning job a node, then the nodes' GPUs."""
        order = self._random.permutation(len(problem.room))
        before = np.cumsum(population[:, :, order], axis=2) - population[:, :, order]
        fits = np.clip(problem.most[None, :, None] - before, 0, None)
        limited = np.empty_like(population)
        limited[:, :, order] = np.minimum(population[:, :, order], fits)
        count = len(problem.most)
        jobs = np.arange(count) if problem.ranked else self._random.permutation(count)
        limited = limited[:, jobs]
        spans = ((limited > 0).sum(axis=2, keepdims=True) > 1) & (limited > 0)
        limited = np.where(spans & (np.cumsum(spans, axis=1) > 1), 0, limited)
        before = np.cumsum(limited, axis=1) - limited
        limited = np.minimum(limited, np.clip(problem.room - before, 0, None))
        repaired = np.empty_like(limited)
        repaired[:, jobs] = limited
        return repaired


def _fitness(population: Ints, problem: Problem, p: float) -> Floats:
    """(individuals,) power mean of speedups, those of moved jobs discounted by their restart."""
    nodes = np.minimum((population > 0).sum(axis=2), problem.speedup.shape[1] - 1)
    gpus = np.minimum(population.sum(axis=2), problem.speedup.shape[2] - 1)
    speedup = problem.speedup[np.arange(len(problem.most)), nodes, gpus]
    moved = (population != problem.current).any(axis=2)
    speedup = np.where(moved, speedup * problem.stay, speedup)
    return np.asarray(np.mean(np.maximum(speedup, NO_SPEEDUP) ** p, axis=1) ** (1 / p), float)


def virtual_nodes(cluster: Cluster) -> list[Node]:
    """Parts of at most `VIRTUAL_GPUS` of every node, under the node's own id."""
    parts = []
    for node in cluster.nodes:
        left = node.gpus
        while left > 0:
            parts.append(Node(node.id, node.gpu_type, min(left, VIRTUAL_GPUS)))
            left -= VIRTUAL_GPUS
    return parts


def _problem(jobs: Sequence[JobView], nodes: Sequence[Node], cluster: Cluster) -> Problem:
    room = np.array([node.gpus for node in nodes], np.int64)
    current = np.zeros((len(jobs), len(nodes)), np.int64)
    most = np.zeros(len(jobs), np.int64)
    stay = np.ones(len(jobs))
    for i, job in enumerate(jobs):
        held = dict(job.placement.by_node) if job.placement is not None else {}
        for n, node in enumerate(nodes):
            current[i, n] = min(held.get(node.id, 0), node.gpus)
            held[node.id] = held.get(node.id, 0) - int(current[i, n])
        limit = job.spec.resources.max_gpus
        most[i] = min(max(2 * max(job.largest_gpus.values(), default=0), 1), limit)
        cost = job.restart_cost_s
        if job.age_s + cost > 0:
            stay[i] = max(job.age_s - job.restarts * cost, 0.0) / (job.age_s + cost)
    largest = int(min(most.max(), room.sum()))
    return Problem(_speedups(jobs, len(nodes), largest, cluster), most, current, stay, room)


def _speedups(jobs: Sequence[JobView], nodes: int, gpus: int, cluster: Cluster) -> Floats:
    """(jobs, nodes + 1, GPUs + 1) goodput over that of one GPU; a job that knows nothing yet wants one GPU."""
    pairs = [(n, r) for n in range(1, nodes + 1) for r in range(n, min(gpus, n * VIRTUAL_GPUS) + 1)]
    types = cluster.gpu_types
    columns = ConfigurationArrays(
        ("any",), np.array([VIRTUAL_GPUS]), np.zeros(len(pairs), np.int64),
        np.array([n for n, _ in pairs]), np.array([r for _, r in pairs]),
    )  # fmt: skip
    goodput = goodput_matrix([_blind(job.model, types) for job in jobs], columns)
    alone = goodput[:, [0]]
    table = np.zeros((len(jobs), nodes + 1, gpus + 1))
    at = np.array(pairs)
    table[:, at[:, 0], at[:, 1]] = np.where(alone > 0, goodput / np.where(alone > 0, alone, 1.0), 0.0)
    unknown = np.array([job.model is None for job in jobs], bool)
    table[unknown, 1, 1] = 1.0
    return table


def _blind(model: JobModel | None, types: Sequence[str]) -> JobModel | None:
    """The job's model as if all GPUs were of the type that it knows best."""
    if model is None:
        return None
    known = [t for t in types if t in model.throughput]
    if not known:
        return None
    best = min(known, key=lambda t: (-model.throughput[t].max_replicas_measured, t))
    per_replica = model.gpus_per_replica.get(best, 1)
    return JobModel({"any": model.throughput[best]}, model.noise_scale, model.limits, {"any": per_replica})


def _placement(job: JobView, row: Ints, nodes: Sequence[Node]) -> Placement | None:
    """The part of a row on one GPU type: that with most GPUs, of equals the one that runs the job fastest."""
    by_type: dict[str, dict[str, int]] = {}
    for node, gpus in zip(nodes, row.tolist(), strict=True):
        if gpus:
            shares = by_type.setdefault(node.gpu_type, {})
            shares[node.id] = shares.get(node.id, 0) + gpus
    allowed = {t: shares for t, shares in by_type.items() if job.spec.gpus_per_replica(t) is not None}
    if not allowed:
        return None
    best = min(allowed, key=lambda t: (-sum(allowed[t].values()), -_alone(job.model, t), t))
    return Placement(best, tuple(NodeShare(id, gpus) for id, gpus in allowed[best].items()))


def _alone(model: JobModel | None, gpu_type: str) -> float:
    """Samples per second of one replica at its largest batch."""
    if model is None or gpu_type not in model.throughput:
        return 0.0
    known = model.throughput[gpu_type]
    return float(known.max_local_bsz / known.params.step_time_s(1, 1, known.max_local_bsz))
