"""Pollux as Sia's published simulator runs it (siasosp23/artifacts @ aaf7a0d, spec section 6).

All GPU types are one to it: a job has one profile, whatever it ran on, and the batch limits of a T4. Its speedup
counts over its fair share of the cluster, every move costs 30 s, and where GPUs run short who got least goes
first. The search for the best matrix is our policy's (`scheduler/policies/pollux.py`), with one objective; the
artifact's NSGA-II has the cluster's utilisation for a second one but takes the best of the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...scheduler.cluster import Cluster, Node
from ...scheduler.placement import NodeShare, Placement
from ...scheduler.policies.pollux import VIRTUAL_GPUS, Ints, PolluxOptions, PolluxPolicy, Problem, virtual_nodes
from ...scheduler.round import JobView, Plan, Round
from ..applications import SUFFIXES
from ..tables import Floats
from .sia_artifact import ArtifactKnowledge, best_of_grid

RESTART_COST_S = 30.0
LIMITS_OF = "aws"  # the GPU type whose batch limits hold everywhere
PREFERRED = ("dgx-ext", "azure", "quad", "rtx", "aws")  # which type a job keeps that has as many GPUs of two


class BlindKnowledge(ArtifactKnowledge):
    """One profile for all GPU types: what was measured on one is not measured again on another."""

    def profile(self, gpu_type: str) -> str:
        return "any"


class ArtifactPollux:
    """Our search over the published simulator's problem."""

    Options = PolluxOptions

    def __init__(
        self, knowledge: BlindKnowledge, positions: Callable[[str], int], options: PolluxOptions | None = None
    ) -> None:
        self._knowledge = knowledge
        self._position = positions  # of a job's id in the workload
        self._policy = PolluxPolicy(options)
        self._rows: dict[str, Ints] = {}  # GPUs of each virtual node, as of the last round

    def plan(self, round: Round) -> Plan:
        jobs = sorted(round.jobs, key=lambda job: (job.attained_gpu_s, job.submitted_s))
        nodes = virtual_nodes(round.cluster)
        best = self._policy.search(self._problem(jobs, nodes, round.cluster))
        self._rows, placements = {}, {}
        for job, row in zip(jobs, best, strict=True):
            if row.any():
                placements[job.id], self._rows[job.id] = _kept(row, nodes)
        return Plan(placements)

    def _problem(self, jobs: Sequence[JobView], nodes: Sequence[Node], cluster: Cluster) -> Problem:
        capacity = cluster.capacity()
        room = np.array([node.gpus for node in nodes], np.int64)
        current = np.array([self._rows.get(job.id, np.zeros_like(room)) for job in jobs])
        most = np.array([self._most(job, min(capacity.values())) for job in jobs])
        age_s = np.array([job.age_s for job in jobs])
        restarts = np.array([job.restarts for job in jobs])
        stay = np.maximum(age_s - restarts * RESTART_COST_S, 0.0) / (age_s + RESTART_COST_S)
        fair = math.ceil(int(room.sum()) / len(jobs))
        speedup = np.zeros((len(jobs), len(nodes) + 1, int(most.max()) + 1))
        for i, job in enumerate(jobs):
            within, across = self._speedups(self._position(job.id), int(most[i]), fair)
            speedup[i, 1, : most[i] + 1] = within
            speedup[i, 2:, : most[i] + 1] = across
        # A node's worth of GPUs counts 1.
        return Problem(speedup / VIRTUAL_GPUS, most, current, stay, room, ranked=True)

    def _most(self, job: JobView, gpus: int) -> int:
        at = self._position(job.id)
        application, known = self._knowledge.applications[at], self._knowledge.of[at]
        least = application.local_bsz[_limits_of(application.local_bsz)][0]
        grown = 2 * max(known.largest.values(), default=0)
        return min(max(grown, 1), gpus, application.max_batch_size // least)

    def _speedups(self, job: int, most: int, fair: int) -> tuple[Floats, Floats]:
        """Of 0 to `most` GPUs, on one node and on several, over `fair` GPUs on one."""
        known, application = self._knowledge.of[job], self._knowledge.applications[job]
        if known.gradients is None:
            unknown = np.arange(most + 1) / fair
            return unknown, unknown
        gradients, (fit,) = known.gradients, known.fits.values()
        limits = application.local_bsz[_limits_of(application.local_bsz)]

        def goodput(nodes: int, gpus: int) -> float:
            first, last = application.initial_batch_size, application.max_batch_size
            return best_of_grid(fit, nodes, gpus, first, last, *limits, *gradients)[0]

        within, across = (
            np.array([0.0] + [goodput(nodes, gpus) for gpus in range(1, most + 1)]) for nodes in (1, 2)
        )
        return within / goodput(1, fair), across / goodput(1, fair)


def _limits_of(gpu_types: Sequence[str] | dict[str, tuple[int, int]]) -> str:
    return next((t for t in gpu_types if SUFFIXES.get(t, t) == LIMITS_OF), min(gpu_types))


def _kept(row: Ints, nodes: Sequence[Node]) -> tuple[Placement, Ints]:
    """The part on the GPU type of which it has most; the others lie idle."""
    types = np.array([node.gpu_type for node in nodes])

    def rank(gpu_type: str) -> tuple[int, int]:
        suffix = SUFFIXES.get(gpu_type, gpu_type)
        return -int(row[types == gpu_type].sum()), PREFERRED.index(suffix) if suffix in PREFERRED else 0

    best = min(sorted(set(types[row > 0].tolist())), key=rank)
    kept = np.where(types == best, row, 0)
    shares: dict[str, int] = {}
    for node, gpus in zip(nodes, kept.tolist(), strict=True):
        if gpus:
            shares[node.id] = shares.get(node.id, 0) + gpus
    return Placement(best, tuple(NodeShare(id, gpus) for id, gpus in shares.items())), kept
