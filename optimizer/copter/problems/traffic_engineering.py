"""Decides how much of every demand flows over which paths, for the largest total flow (COpter, section 5.1.2).

    maximise    sum over demands j and their paths p of X[j, p]
    subject to  sum over p of X[j, p] <= demand[j],   X >= 0,
                sum over all (j, p) through edge e of X[j, p] <= capacity[e]

X[j, p] is the flow of demand j on its path p.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit
from scipy import sparse

from ...linear_program import LinearProgram
from ..baselines.hot_highs import LpSolver
from .paths import Paths
from .topology import Topology


@dataclass(frozen=True, eq=False)
class TrafficProblem:
    """Demands over paths of a network.

    demand: (demands,) >= 0.
    capacity: (edges,) >= 0, in the same unit.
    paths: over these edges.

    Raises:
        ValueError: for shapes that do not agree and values that are negative or not finite.
    """

    demand: np.ndarray
    capacity: np.ndarray
    paths: Paths

    def __post_init__(self) -> None:
        if self.demand.shape != (self.paths.demands,):
            raise ValueError(
                f"demand: has shape {self.demand.shape}, not ({self.paths.demands},) as the paths say"
            )
        if self.capacity.ndim != 1:
            raise ValueError(f"capacity: has shape {self.capacity.shape}; (edges,) is accepted")
        if len(self.paths.edge) and int(self.paths.edge.max()) >= len(self.capacity):
            raise ValueError(
                f"capacity: has {len(self.capacity)} edges, and a path uses edge {int(self.paths.edge.max())}"
            )
        for name in ("demand", "capacity"):
            array = getattr(self, name)
            if not np.isfinite(array).all() or (array < 0).any():
                raise ValueError(f"{name}: has entries that are negative or not finite; 0 or more is accepted")

    def incidence(self) -> sparse.csr_array:
        """Return (paths, edges), 1 where the path uses the edge."""
        paths = self.paths
        ones = np.ones(len(paths.edge))
        return sparse.csr_array(
            (ones, paths.edge.astype(np.int32), paths.start), shape=(paths.count, len(self.capacity))
        )

    def loads(self, flow: np.ndarray) -> np.ndarray:
        """Return (edges,) what flows (paths,) put on each edge."""
        self.check_flow(flow)
        return _loads(self.paths.start, self.paths.edge, flow, len(self.capacity))

    def excess(self, flow: np.ndarray) -> float:
        """Return by how much a flow exceeds a demand or capacity, relative to the largest of all.

        It is 0 if the flow keeps to all, and inf if it does not while all are 0.
        """
        load = self.loads(flow)
        sent = np.bincount(self.paths.demand, weights=flow, minlength=len(self.demand))
        over = (sent - self.demand, load - self.capacity, -flow)
        most = float(max(each.max(initial=0.0) for each in over))
        largest = float(max(self.demand.max(initial=0.0), self.capacity.max(initial=0.0)))
        if most == 0:
            return 0.0
        return most / largest if largest > 0 else np.inf

    def check_flow(self, flow: np.ndarray) -> None:
        """Raise ValueError if a flow does not have one entry per path."""
        if flow.shape != (self.paths.count,):
            raise ValueError(f"flow: has shape {flow.shape}, not ({self.paths.count},) as the paths say")


@njit(cache=True, nogil=True)
def _loads(start: np.ndarray, edge: np.ndarray, flow: np.ndarray, edges: int) -> np.ndarray:
    load = np.zeros(edges)
    for p in range(len(flow)):
        if flow[p] != 0:
            for i in range(start[p], start[p + 1]):
                load[edge[i]] += flow[p]
    return load


def traffic_program(problem: TrafficProblem) -> LinearProgram:
    """Return the program as stated, minimised. Columns are paths; rows are demands, then edges."""
    paths = problem.paths
    of_demand = sparse.csr_array(
        (np.ones(paths.count), (paths.demand, np.arange(paths.count))), shape=(paths.demands, paths.count)
    )
    sides = np.concatenate([problem.demand, problem.capacity])
    return LinearProgram(
        -np.ones(paths.count),
        sparse.csr_array(sparse.vstack([of_demand, problem.incidence().T], format="csr")),
        np.full(len(sides), -np.inf),
        sides,
        np.zeros(paths.count),
        np.full(paths.count, np.inf),
    )


def fill(problem: TrafficProblem, flow: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
    """Return a flow (paths,) within every demand and capacity: the given one, cut and then filled up.

    Each path is cut to the fraction that its tightest edge can carry. Capacity that is left goes to demands in
    `order` (default: as numbered), over their shortest paths first.

    Raises:
        ValueError: for a flow that does not have one finite entry per path, and an order with unknown demands.
    """
    problem.check_flow(flow)
    if not np.isfinite(flow).all():
        raise ValueError("flow: has entries that are not finite; finite ones are accepted")
    demands = len(problem.demand)
    order = np.arange(demands) if order is None else order
    if order.ndim != 1 or order.dtype.kind not in "iu":
        raise ValueError(f"order: is of {order.dtype} and shape {order.shape}; numbers of demands are accepted")
    outside = (order < 0) | (order >= demands)
    if outside.any():
        n = int(outside.argmax())
        raise ValueError(f"order[{n}]: is {order[n]}, not a demand below {demands}")
    paths = problem.paths
    return _fill(problem.demand, problem.capacity, paths.first, paths.start, paths.edge, flow, order)


@njit(cache=True, nogil=True)
def _fill(
    demand: np.ndarray,
    capacity: np.ndarray,
    first: np.ndarray,
    start: np.ndarray,
    edge: np.ndarray,
    flow: np.ndarray,
    order: np.ndarray,
) -> np.ndarray:
    flow = np.maximum(flow, 0.0)
    load = np.zeros(len(capacity))
    for j in range(len(demand)):
        sent = flow[first[j] : first[j + 1]].sum()
        if sent > demand[j]:
            flow[first[j] : first[j + 1]] *= demand[j] / sent
        for p in range(first[j], first[j + 1]):
            if flow[p] > 0:
                for i in range(start[p], start[p + 1]):
                    load[edge[i]] += flow[p]
    keep = np.ones(len(capacity))
    for e in range(len(capacity)):
        if load[e] > capacity[e]:
            keep[e] = capacity[e] / load[e]
    room = capacity.copy()
    for p in range(len(flow)):
        if flow[p] > 0:
            least = 1.0
            for i in range(start[p], start[p + 1]):
                least = min(least, keep[edge[i]])
            flow[p] *= least
            for i in range(start[p], start[p + 1]):
                room[edge[i]] -= flow[p]
    for n in range(len(order)):
        j = order[n]
        left = demand[j] - flow[first[j] : first[j + 1]].sum()
        for p in range(first[j], first[j + 1]):
            if left <= 0:
                break
            more = left
            for i in range(start[p], start[p + 1]):
                more = min(more, room[edge[i]])
            if more > 0:
                flow[p] += more
                left -= more
                for i in range(start[p], start[p + 1]):
                    room[edge[i]] -= more
    return flow


def top_and_pinned(
    problem: TrafficProblem, solver: LpSolver, *, top: float = 0.1, pinned_first: bool = False
) -> np.ndarray:
    """Return the flow (paths,) of LP-Top: the largest demands by LP, all others on their shortest path alone.

    As Teal and COpter describe it, the LP comes first. Then the others take what is left of their shortest path,
    the largest first.

    Args:
        top: the fraction of demands, the largest by volume, that the LP gets.
        pinned_first: whether the LP gets what the others leave, which is demand pinning as first published (Namyar
            et al., HotNets 2022).
    """
    paths = problem.paths
    order = np.argsort(-problem.demand, kind="stable")
    large, rest = np.split(order, [max(1, round(top * len(order)))])
    shortest, firsts = paths.shortest()
    some, which = paths.of(np.sort(large))

    def pin(room: np.ndarray) -> None:
        flow[firsts] += fill(TrafficProblem(problem.demand, room, shortest), np.zeros(shortest.count), rest)

    def solve(room: np.ndarray) -> None:
        part = TrafficProblem(problem.demand[np.sort(large)], room, some)
        found = solver.solve(traffic_program(part))
        flow[which] += fill(part, np.zeros(some.count) if found.x is None else found.x)

    flow = np.zeros(paths.count)
    for stage in (pin, solve) if pinned_first else (solve, pin):
        stage(np.maximum(problem.capacity - problem.loads(flow), 0.0))
    return flow


@dataclass(frozen=True, eq=False)
class TrafficPart:
    """A part of a problem: some demands with all or a part of their volumes, and a share of every capacity."""

    demands: np.ndarray
    volume: np.ndarray
    share: float


@dataclass(frozen=True)
class TrafficPartition:
    """POP for this problem: each part has all edges at 1/k of their capacity and a random 1/k of the demands.

    large: the fraction of demands, the largest, that are split into `pieces` of equal size over different parts.
    """

    problem: TrafficProblem
    solver: LpSolver
    pieces: int = 4
    large: float = 0.1

    def split(self, k: int, rng: np.random.Generator) -> list[TrafficPart]:
        demand = self.problem.demand
        pieces = min(self.pieces, k)
        order = np.argsort(-demand, kind="stable")
        large, small = np.split(order, [round(self.large * len(demand))])
        # Clients are dealt out like cards of a shuffled deck, so the pieces of one demand never meet.
        clients = np.concatenate([rng.permutation(small), np.repeat(rng.permutation(large), pieces)])
        volume = demand[clients]
        volume[len(small) :] /= pieces
        part = np.arange(len(clients)) % k
        return [TrafficPart(clients[part == i], volume[part == i], 1 / k) for i in range(k)]

    def solve(self, part: TrafficPart) -> np.ndarray:
        """Return the flow (paths of the part's demands,) within its share of the capacities."""
        paths, _ = self.problem.paths.of(part.demands)
        sub = TrafficProblem(part.volume, self.problem.capacity * part.share, paths)
        found = self.solver.solve(traffic_program(sub))
        return fill(sub, np.zeros(paths.count) if found.x is None else found.x)

    def merge(self, parts: Sequence[TrafficPart], answers: Sequence[np.ndarray]) -> np.ndarray:
        """Return the flow (paths,) of all demands."""
        flow = np.zeros(self.problem.paths.count)
        for part, answer in zip(parts, answers, strict=True):
            _, which = self.problem.paths.of(part.demands)
            flow[which] += answer
        return flow


def traffic_matrix(
    topology: Topology, kind: Literal["poisson", "bimodal"], source: np.ndarray, target: np.ndarray, seed: int
) -> np.ndarray:
    """Draw volumes (demands,) as NCFlow and POP do, up to a factor (see `scaled_to_load`).

    The kind poisson has a mean of 8e9 * 0.35^hops, so that few demands between near nodes dominate. The kind
    bimodal is uniform in [2, 4] with chance 0.2, and else in [0, 1]. Each band then has about half of the volume.
    """
    rng = np.random.default_rng(seed)
    if kind == "bimodal":
        high = rng.random(len(source)) < 0.2
        return np.where(high, rng.uniform(2, 4, len(source)), rng.uniform(0, 1, len(source)))
    if kind != "poisson":
        raise ValueError(f"kind: is {kind!r}; poisson and bimodal are accepted")
    hops = topology.hops()[source, target]
    return rng.poisson(8e9 * 0.35**hops).astype(float)


def scaled_to_load(problem: TrafficProblem, load: float) -> TrafficProblem:
    """Scale all demands by one factor. On their shortest paths they would then use `load` times all capacity."""
    paths = problem.paths
    shortest, _ = paths.shortest()
    used = float(np.repeat(problem.demand, np.diff(shortest.first)) @ np.diff(shortest.start))
    if used <= 0:
        raise ValueError("demand: is 0 wherever there is a path; some must be above 0")
    return TrafficProblem(problem.demand * (load * problem.capacity.sum() / used), problem.capacity, paths)


def perturbed(demand: np.ndarray, seed: int, change: float = 0.1) -> Iterator[np.ndarray]:
    """Yield demands of each round: the last ones times factors uniform in [1 - change, 1 + change]."""
    rng = np.random.default_rng(seed)
    while True:
        yield demand
        demand = demand * rng.uniform(1 - change, 1 + change, len(demand))
