"""Pollux as Sia's published simulator runs it (siasosp23/artifacts @ aaf7a0d, spec section 6).

It treats all GPU types as one. A job has one profile, whatever it ran on, and the batch limits of a T4. Its
speedup is relative to its fair share of the cluster, and every move costs 30 s. If GPUs run short, the job that
got least comes first. The search for the best matrix is that of our policy (`policies/pollux.py`), with one
objective. The artifact's NSGA-II has the cluster's utilisation as a second one, but takes the best of the
first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...optimizer.genetic import Counts, Problem
from ...policies.contract.round import JobView, Plan, Round
from ...policies.pollux import MOST_NODES, VIRTUAL_GPUS, PolluxOptions, Search, VirtualNodes
from ..jobs.applications import SUFFIXES
from ..traces.tables import Floats
from .sia_artifact import ArtifactKnowledge, best_of_grid

RESTART_COST_S = 30.0
LIMITS_OF = "aws"  # the GPU type whose batch limits hold everywhere
PREFERRED = ("dgx-ext", "azure", "quad", "rtx", "aws")  # a tie between GPU types goes to the first


class BlindKnowledge(ArtifactKnowledge):
    """One profile for all GPU types. What was measured on one is not measured again on another."""

    def profile(self, gpu_type: str) -> str:
        return "any"


class ArtifactPollux:
    """Our search on the problem of the published simulator."""

    Options = PolluxOptions

    def __init__(
        self, knowledge: BlindKnowledge, positions: Callable[[str], int], options: PolluxOptions | None = None
    ) -> None:
        self._knowledge = knowledge
        self._position = positions  # of a job's id in the workload
        self._search = Search(options or PolluxOptions())
        self._rows: dict[str, Counts] = {}  # GPUs of each virtual node, as of the last round

    def plan(self, round: Round) -> Plan:
        """Return the best placements that the search finds. Jobs with the least GPU time come first."""
        jobs = sorted(round.jobs, key=lambda job: (job.attained_gpu_s, job.submitted_s))
        nodes = VirtualNodes(round.cluster)
        problem = self._problem(jobs, nodes)
        best = self._search.run([job.id for job in jobs], nodes.names, problem).rows
        self._rows = {job.id: _kept(row, nodes) for job, row in zip(jobs, best, strict=True) if row.any()}
        return Plan({id: nodes.placement(row) for id, row in self._rows.items()})

    def _problem(self, jobs: Sequence[JobView], nodes: VirtualNodes) -> Problem:
        current = np.array([self._rows.get(job.id, np.zeros(len(nodes))) for job in jobs], np.int16)
        most = np.array([self._most(job, min(nodes.cluster.capacity().values())) for job in jobs])
        age_s = np.array([job.age_s for job in jobs])
        restarts = np.array([job.restarts for job in jobs])
        stay = np.maximum(age_s - restarts * RESTART_COST_S, 0.0) / (age_s + RESTART_COST_S)
        fair = math.ceil(int(nodes.room.sum()) / len(jobs))
        speedup = np.zeros((len(jobs), min(len(nodes), MOST_NODES) + 1, int(most.max()) + 1))
        for i, job in enumerate(jobs):
            within, across = self._speedups(self._position(job.id), int(most[i]), fair)
            speedup[i, 1, : most[i] + 1] = within
            speedup[i, 2:, : most[i] + 1] = across
        one, none = np.ones((len(jobs), 1), np.int64), np.zeros(len(jobs), np.bool_)
        of_one_type = np.zeros_like(nodes.type_of)
        # The GPUs of a virtual node count 1 together.
        return Problem(
            speedup / VIRTUAL_GPUS, current, stay, nodes.room, one, most[:, None], one,
            of_one_type, nodes.host, none, none,
        )  # fmt: skip

    def _most(self, job: JobView, gpus: int) -> int:
        at = self._position(job.id)
        application, known = self._knowledge.applications[at], self._knowledge.of[at]
        least = application.local_bsz[_limits_of(application.local_bsz)][0]
        grown = 2 * max(known.largest.values(), default=0)
        return min(max(grown, 1), gpus, application.max_batch_size // least)

    def _speedups(self, job: int, most: int, fair: int) -> tuple[Floats, Floats]:
        """Return two (most + 1,) arrays: the speedup of 0 to `most` GPUs on one node, and on several.

        Speedups are relative to `fair` GPUs on one node.
        """
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


def _kept(row: Counts, nodes: VirtualNodes) -> Counts:
    """Return the part of a row on the GPU type with most GPUs; the other GPUs lie idle."""

    def rank(t: int) -> tuple[int, int]:
        suffix = SUFFIXES.get(nodes.types[t], nodes.types[t])
        return -int(row[nodes.type_of == t].sum()), PREFERRED.index(suffix) if suffix in PREFERRED else 0

    best = min(range(len(nodes.types)), key=rank)
    return np.where(nodes.type_of == best, row, 0).astype(np.int16)
