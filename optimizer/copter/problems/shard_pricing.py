"""Balances shards by column generation: only (server, shard) pairs that prices ask for become variables.

Of the 131,072 pairs of 1,024 shards on 128 servers about one in a hundred matters in a round. A shard stays where
it is unless its server is too hot, and moves to where it is cold. With X = R, as no cost is below 0, the program
is a transportation problem with 1,024 + 2 x 128 rows. It begins with the present replicas. Its duals price every
other pair at once, and pairs that would gain are added. It ends when the Lagrangian bound proves that none is
missing. Three more steps keep replicas few and whole:

* Slope scaling (Kim & Pardalos, 1999). A started replica costs its size whatever is routed to it. So the cost per
  unit routed is raised to size / R of the last solution, and the small program is solved again.
* Memory. If whole replicas would not fit, the server's row is tightened by what they exceed, before the shim.
* Routing. Once replicas are settled, with held ones that still fit, loads are balanced over them again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from ...linear_program import LinearProgram
from ..baselines.hot_highs import HotHighs
from .shard_balancing import DUST, Assignment, ShardProblem, keep_idle, place

# Cost, in replicas of mean size, of missing the load range by one mean load or the memory by one mean size. It is
# far above the cost of any chain of moves.
MISS = 1e4
PRICINGS = 60
SLIVER = 1e-4  # share of load for a replica that is only kept


@dataclass(frozen=True)
class PricedAnswer:
    """An assignment, and what is known of it.

    relaxed: a bound in GiB: no assignment within the load range moves less. If the range cannot be met, missing it
        has a price in the bound, too.
    relaxed_gap: from this bound to the relaxation's solution, relative to the latter or to a shard of mean size.
    columns: pairs that ever were variables.
    pricings: rounds of adding pairs.
    """

    assignment: Assignment
    relaxed: float
    relaxed_gap: float
    columns: int
    pricings: int
    seconds: float


@dataclass
class PairPricing:
    """Balances round after round. Each round begins with the basis of the last one.

    tolerance: relative tolerance of the relaxation.
    scalings: passes of slope scaling.
    keep_replicas: whether held replicas stay as long as they fit, with a sliver of load if the load range allows
        it. That costs nothing now and may save a start later. Else replicas that the relaxation does not use go.
    """

    tolerance: float = 1e-4
    scalings: int = 2
    keep_replicas: bool = True
    _solver: HotHighs = field(default_factory=HotHighs, init=False, repr=False)

    def solve(self, problem: ShardProblem) -> PricedAnswer:
        began = time.perf_counter()
        master = _Master(problem, self._solver)
        bound, pricings = master.price(self.tolerance)
        objective, columns = master.objective, int(master.inside.sum())
        candidates = [master.routed()]
        for _ in range(self.scalings):
            master.scale_slopes()
            master.tighten_memory()
            master.run()
            candidates.append(master.routed())
        best = min((place(problem, routed) for routed in candidates), key=lambda a: _worth(a, problem))
        if self.keep_replicas:
            best = replace(best, replicas=keep_idle(problem, best.replicas))
        best = min(master.rebalance(best.replicas), best, key=lambda a: _worth(a, problem))
        gap = max(0.0, objective - bound) / max(objective, 1.0)
        relaxed = bound * float(problem.size_gib.mean())
        return PricedAnswer(best, relaxed, gap, columns, pricings, time.perf_counter() - began)


@dataclass
class _Master:
    """The restricted program: the pairs inside it, and slack of the load and memory rows at a price.

    Sizes, memory and costs are in units of the mean size, as solvers take numbers below 1e-7 for 0.
    """

    problem: ShardProblem
    solver: HotHighs
    inside: np.ndarray = field(init=False)  # (servers, shards)
    cost: np.ndarray = field(init=False)  # (servers, shards) per unit routed
    memory: np.ndarray = field(init=False)
    x: np.ndarray = field(init=False)
    dual: np.ndarray = field(init=False)
    objective: float = field(init=False)
    relative: np.ndarray = field(init=False)  # (shards,) load in units of the mean of a server
    unit: float = field(init=False)  # GiB of a mean shard, or 1 if that is 0
    size: np.ndarray = field(init=False)  # (shards,)
    start: np.ndarray = field(init=False)  # (shards,) what a replica costs

    def __post_init__(self) -> None:
        p = self.problem
        self.inside = p.held | ~p.held.any(axis=0)
        self.unit = float(p.size_gib.mean()) or 1.0
        self.size = p.size_gib / self.unit
        # If all sizes are 0, the number of movements is minimised.
        self.start = self.size if self.size.any() else np.ones_like(self.size)
        self.cost = ~p.held * self.start
        self.memory = p.memory_gib / self.unit
        self.relative = p.load / p.mean_load

    def run(self, least: float = 0.0) -> None:
        """Solve the program. At least `least` is routed over every pair inside."""
        p = self.problem
        servers, shards = p.held.shape
        i, j = np.nonzero(self.inside)
        n, each, ones = len(i), np.arange(len(i)), np.ones(servers)
        slack = n + np.arange(3 * servers).reshape(3, servers)  # below and above the loads, above the memory
        last = shards + np.arange(2 * servers).reshape(2, servers)
        row = np.concatenate([j, shards + i, shards + servers + i, last[0], last[0], last[1]])
        column = np.concatenate([each, each, each, slack.ravel()])
        value = np.concatenate([np.ones(n), self.relative[j], self.size[j], ones, -ones, -ones])
        matrix = sparse.csr_array((value, (row, column)), shape=(shards + 2 * servers, n + 3 * servers))
        program = LinearProgram(
            np.concatenate([self.cost[i, j], np.full(3 * servers, MISS)]),
            matrix,
            np.concatenate([np.ones(shards), (1 - p.epsilon) * ones, np.full(servers, -np.inf)]),
            np.concatenate([np.ones(shards), (1 + p.epsilon) * ones, self.memory]),
            np.concatenate([np.full(n, least), np.zeros(3 * servers)]),
            np.full(n + 3 * servers, np.inf),
        )
        names = np.concatenate([i * shards + j, servers * shards + np.arange(3 * servers)])
        found = self.solver.solve(program, names)
        if found.x is None or found.row_dual is None:
            raise RuntimeError(f"the restricted program of {n} pairs ended {found.status}, not optimal")
        self.x, self.dual, self.objective = found.x[:n], found.row_dual, found.objective

    def price(self, tolerance: float) -> tuple[float, int]:
        """Add pairs until the bound is within tolerance of the objective. Return the bound and the rounds."""
        p = self.problem
        servers, shards = p.held.shape
        bound = -np.inf
        for pricing in range(1, PRICINGS + 1):
            self.run()
            of_shard, of_load, of_memory = np.split(self.dual, [shards, shards + servers])
            reduced = self.cost - np.outer(of_load, self.relative) - np.outer(of_memory, self.size) - of_shard
            # Every shard's fractions sum to 1, so moving all of it to its best pair bounds the gain.
            gain = np.minimum(reduced.min(axis=0), 0.0)
            bound = max(bound, self.objective + float(gain.sum()))
            if self.objective - bound <= tolerance * max(self.objective, 1.0):
                return bound, pricing
            reduced[self.inside] = 0.0
            best = reduced.argmin(axis=0)
            asked = np.zeros_like(self.inside)
            asked[best, np.arange(shards)] = True
            few = min(8, shards)
            asked[np.arange(servers)[:, None], np.argpartition(reduced, few - 1, axis=1)[:, :few]] = True
            self.inside |= asked & (reduced < -1e-9)
        return bound, PRICINGS

    def routed(self) -> np.ndarray:
        routed = np.zeros(self.problem.held.shape)
        routed[self.inside] = self.x
        return routed

    def scale_slopes(self) -> None:
        self.cost = np.where(self.problem.held, 0.0, self.start / np.maximum(self.routed(), 0.01))

    def tighten_memory(self) -> None:
        excess = (self.routed() > DUST) @ self.size - self.problem.memory_gib / self.unit
        self.memory = self.memory - np.maximum(excess, 0.0)

    def rebalance(self, replicas: np.ndarray) -> Assignment:
        """Divide loads over these replicas (servers, shards), all in use, within the range as far as possible."""
        self.inside = replicas
        self.cost = np.zeros_like(self.cost)
        self.memory = self.problem.memory_gib / self.unit
        self.run(least=SLIVER)
        routed = self.routed()
        return place(self.problem, routed / routed.sum(axis=0))


def _worth(assignment: Assignment, problem: ShardProblem) -> tuple[float, int]:
    """Return by how much the load range is missed, then the movements. Less is better."""
    loads = assignment.routed @ problem.load / problem.mean_load
    missed = np.maximum(np.abs(loads - 1) - problem.epsilon, 0.0).max()
    return round(float(missed), 6), assignment.movements(problem)
