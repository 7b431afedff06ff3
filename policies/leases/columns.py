"""From the jobs of a round to the program of leases: their options by deadline, GPU type and shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.cluster import Cluster
from ...optimizer.leases.problem import LeaseProblem
from ..contract.round import JobView, Round
from ..placing.cells import Shape, free_cells, levels_of, nodes_of, shapes_of, usage
from ..placing.speeds import rates_of, types_for


@dataclass(frozen=True)
class Offer:
    """One option of a job before it is a row of arrays."""

    worth: float
    leases: int
    within: int
    gpu_type: str
    shape: Shape

    def is_like(self, other: Offer) -> bool:
        """Return whether both are for the same cells and the same deadline, as far as leases tell."""
        same_cells = (self.gpu_type, self.shape) == (other.gpu_type, other.shape)
        return same_cells and abs(self.within - other.within) <= 1


def speed_on(job: JobView, nodes: int, fewest: int) -> float:
    """Return how fast a job is on so many nodes, over its speed on the fewest; 1 if nobody knows."""
    return job.on_nodes.get(nodes, 1.0) if nodes > fewest else 1.0


@dataclass(frozen=True)
class Shaped:
    """A way in which a job may lie: a type, a shape, and its speed over the best one of all."""

    gpu_type: str
    shape: Shape
    speed: float


def shaped(job: JobView, gpus: int, cluster: Cluster, *, returned: bool, joint: bool) -> list[Shaped]:
    """Return the ways in which a job may lie, on fewest nodes of the fastest type first.

    returned, joint: as of `cells.shapes_of`. All shapes are offered where more than two speeds are known.
    """
    types = types_for(job.spec, gpus, cluster)
    rates = dict(zip(cluster.gpu_types, rates_of(job, gpus, cluster).tolist(), strict=True))
    best = max((rates[t] for t in types), default=0.0)
    found: list[Shaped] = []
    for t in sorted(types, key=lambda t: -rates[t]):
        if rates[t] <= 0 or best <= 0:
            continue
        largest = cluster.largest_nodes[t]
        every = len(set(job.on_nodes.values())) > 2
        for shape in shapes_of(gpus, levels_of(largest), returned=returned, every=every, joint=joint):
            nodes = min(nodes_of(shape), gpus)
            found.append(Shaped(t, shape, rates[t] / best * speed_on(job, nodes, -(-gpus // largest))))
    return found


class Limits:
    """The cells of each GPU type by level, as rows of the program.

    Args:
        free: free GPUs by node.
    """

    def __init__(self, cluster: Cluster, free: Mapping[str, int]) -> None:
        self._begins: dict[str, int] = {}
        capacity: list[int] = []
        for t in cluster.gpu_types:
            levels = levels_of(cluster.largest_nodes[t])
            self._begins[t] = len(capacity)
            cells = free_cells([free[node.id] for node in cluster.of_type(t)], levels)
            capacity += usage(tuple(cells.tolist()))
        self.capacity: NDArray[np.float64] = np.array(capacity, float)

    def beside(self, used: NDArray[np.float64] | None) -> Limits:
        """Return what is left beside others that take so much of each limit; None: they take nothing."""
        left = copy(self)
        if used is not None:
            left.capacity = np.maximum(self.capacity - used, 0.0)
        return left

    def usage(self, offer: Offer) -> NDArray[np.float64]:
        """Return (limits,) what an option takes."""
        found = np.zeros(len(self.capacity))
        taken = usage(offer.shape)
        begin = self._begins[offer.gpu_type]
        found[begin : begin + len(taken)] = taken
        return found


def limits_beside(round: Round, stays: Sequence[int]) -> Limits:
    """Return the cells that are left beside jobs that stay where they are, by position."""
    free = {node.id: node.gpus for node in round.cluster.nodes if node.gpus}
    for i in stays:
        for share in round.columns.placements[i].shares:
            if share.node_id in free:
                free[share.node_id] = max(free[share.node_id] - share.gpus, 0)
    return Limits(round.cluster, free)


def program(
    offers: Sequence[Sequence[Offer]],
    limits: Limits,
    length: NDArray[np.int64],
    first: Sequence[float],
) -> LeaseProblem | None:
    """Return the program of the offers of each job; None: no job has one.

    first: (jobs,) what a job brings more that has the lease that begins now.
    """
    flat = [(row, offer) for row, own in enumerate(offers) for offer in own]
    if not flat:
        return None
    shapes: dict[tuple[int, str, Shape], int] = {}
    numbers = [shapes.setdefault((row, offer.gpu_type, offer.shape), len(shapes)) for row, offer in flat]
    return LeaseProblem(
        row=np.array([row for row, _ in flat], np.int64),
        shape=np.array(numbers, np.int64),
        worth=np.array([offer.worth for _, offer in flat], float),
        leases=np.array([offer.leases for _, offer in flat], np.int64),
        within=np.array([offer.within for _, offer in flat], np.int64),
        usage=np.array([limits.usage(offer) for _, offer in flat], float),
        first=np.array([first[row] for row, _ in flat], float),
        capacity=np.repeat(limits.capacity[:, None], len(length), axis=1),
        length=length,
        rows=len(offers),
    )
