"""Finds the largest flow over given paths by a first-order method, with a proven gap and warm starts.

The program couples millions of path flows through a few thousand edge prices. Given prices y >= 0, every demand
decides for itself. That bounds the optimum from above:

    sum over e of capacity[e] y[e] + sum over j of demand[j] max(0, 1 - price of j's cheapest path)

The method is primal-dual hybrid gradient (Chambolle & Pock, 2011), diagonally preconditioned (Pock & Chambolle,
2011). A step moves each demand's flows along 1 - price and exactly back onto {x >= 0, sum x <= demand}. Then it
moves each price along its edge's excess. Step sizes, averages, restarts and the balance between flows and prices
adapt as in PDLP (Applegate et al., 2021). A demand counts only as far as its paths can carry it.

The iterates are made feasible by cutting and filling. The result is the best flow and the best bound found. A pass
reads each path's edges once, 16 bits each, and no matrix is ever formed.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from numba import njit

from .traffic_engineering import TrafficProblem, fill

# A first round with more demands than this begins with the prices of a sample of them.
SAMPLED_ABOVE = 50_000
# A restart is due after this many passes, and this part of all passes, as the balance must then be wrong (PDLP).
_LONG, _LONG_PART = 200, 0.36
_MOST_BALANCE = 1e3  # the balance lies between this and its inverse


@dataclass(frozen=True, eq=False)
class FlowAnswer:
    """A feasible flow and a bound. The gap is (bound - total) / bound.

    flow: (paths,) feasible.
    total: the sum of the flow.
    bound: no feasible flow has a larger sum.
    price: (edges,) prices that prove the bound.
    passes: passes over all paths.
    """

    flow: np.ndarray
    total: float
    bound: float
    price: np.ndarray
    passes: int
    seconds: float

    @property
    def gap(self) -> float:
        return max(0.0, self.bound - self.total) / max(self.bound, 1e-300)


@dataclass
class PathFlow:
    """Solves round after round over the same paths. Flows, prices and step balance of one round start the next.

    tolerance: the gap at which to stop.
    max_passes: passes after which to stop anyway.
    threads: threads of the passes.
    check: passes between two attempts at a feasible flow, after which it may restart. Half as many end a round
        sooner to a gap of 1e-2, but later to 1e-3.

    Raises:
        ValueError: for a tolerance or number that is not positive.
    """

    tolerance: float = 1e-3
    max_passes: int = 4000
    threads: int = 2
    check: int = 20
    warm: bool = True
    # Flows, prices and balance where the last round ended.
    _last: tuple[np.ndarray, np.ndarray, float] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("tolerance", "max_passes", "threads", "check"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: is {getattr(self, name)}, not above 0")

    def solve(self, problem: TrafficProblem) -> FlowAnswer:
        with ThreadPoolExecutor(self.threads) as pool:
            return self._solve(problem, pool)

    def _solve(self, problem: TrafficProblem, pool: ThreadPoolExecutor) -> FlowAnswer:
        began = time.perf_counter()
        if not problem.paths.count:
            return FlowAnswer(np.zeros(0), 0.0, 0.0, np.zeros(len(problem.capacity)), 0, 0.0)
        # Demands far beyond what their paths carry would make steps far too long.
        paths = problem.paths
        most = _carried(paths.first, paths.start, paths.edge, problem.demand, problem.capacity)
        problem = replace(problem, demand=most)
        run = _Run(problem, pool, self.threads)
        last = self._last if self.warm else None
        if last and last[0].shape == run.flow.shape and last[1].shape == run.price.shape:
            run.start_from(*last)
        elif problem.paths.demands > SAMPLED_ABOVE:
            run.start_at(*self._sampled(problem))
        while run.passes < self.max_passes:
            run.advance(self.check)
            run.compare()
            if run.bound - run.total <= self.tolerance * run.bound:
                break
        self._last = run.flow, run.price, run.balance
        return FlowAnswer(run.best, run.total, run.bound, run.best_price, run.passes, time.perf_counter() - began)

    def _sampled(self, problem: TrafficProblem) -> tuple[np.ndarray, float]:
        """Return prices and balance from every 16th demand in order of volume, scaled up to stand for all."""
        chosen = np.sort(np.argsort(-problem.demand, kind="stable")[::16])
        paths, _ = problem.paths.of(chosen)
        volume = problem.demand[chosen]
        volume = volume * (problem.demand.sum() / max(volume.sum(), 1e-300))
        solver = replace(self, tolerance=max(self.tolerance, 2e-3), warm=False)
        answer = solver.solve(TrafficProblem(volume, problem.capacity, paths))
        return answer.price, solver._last[2] if solver._last else 1.0


class _Run:
    """The iterates of one solve, their averages since the last restart, and the best flow and bound so far."""

    def __init__(self, problem: TrafficProblem, pool: ThreadPoolExecutor, threads: int) -> None:
        paths = problem.paths
        self.problem, self.pool = problem, pool
        # Demands per thread, with about as many edges to visit each.
        visits = paths.start[paths.first]
        self.cuts = np.searchsorted(visits, visits[-1] * np.arange(threads + 1) / threads)
        self.cuts[-1] = paths.demands
        self.step_x = problem.demand / np.maximum(_longest(paths.first, paths.start), 1)
        through = problem.loads(np.repeat(problem.demand, np.diff(paths.first)))
        self.step_y = np.where(through > 0, 1 / np.maximum(through, 1e-300), 0.0)
        self.flow = np.zeros(paths.count)
        self.price = np.zeros(len(problem.capacity))
        self.load = np.zeros(len(problem.capacity))
        self.size, self.balance = 1.0, 1.0
        self.passes = 0
        self.best, self.total = self.flow, 0.0
        self.bound, self.best_price = np.inf, self.price
        self.gap_at_restart = np.inf
        self._restart()

    def start_from(self, flow: np.ndarray, price: np.ndarray, balance: float) -> None:
        """Begin at any flow (paths,) and any prices (edges,) >= 0. A good balance between their steps helps."""
        self.flow, self.balance = flow.copy(), balance
        self.price = np.where(self.step_y > 0, price, 0.0)  # prices of unused edges never move, and must be 0
        self.load = self.problem.loads(flow)
        self._restart()

    def start_at(self, price: np.ndarray, balance: float) -> None:
        """Begin at these prices, with every demand whole on its cheapest path."""
        p, paths = self.problem, self.problem.paths
        flow = _answer(paths.first, paths.start, paths.edge, p.demand, price)
        self.start_from(flow, price, balance)

    def _restart(self) -> None:
        self.flow_sum = np.zeros_like(self.flow)
        self.price_sum, self.steps, self.restarted = np.zeros_like(self.price), 0.0, self.passes
        self.from_flow, self.from_price = self.flow.copy(), self.price.copy()

    def advance(self, passes: int) -> None:
        p, paths = self.problem, self.problem.paths
        for _ in range(passes):
            size = self.size

            def step(begin: int, end: int, size: float = size) -> tuple[np.ndarray, float, float]:
                steps = (self.step_x, size * self.balance, size)
                return _pass(
                    begin, end, paths.first, paths.start, paths.edge, p.demand, *steps, self.price, self.flow,
                    self.flow_sum,
                )  # fmt: skip

            # Each thread has demands and flows of its own.
            parts = list(self.pool.map(step, self.cuts[:-1], self.cuts[1:]))
            load = np.sum([part[0] for part in parts], axis=0)
            worth, moved = sum(part[1] for part in parts), sum(part[2] for part in parts)
            self._note(float(p.capacity @ self.price + worth), self.price)
            ahead = 2 * load - self.load
            price = np.maximum(0.0, self.price + size / self.balance * self.step_y * (ahead - p.capacity))
            change = price - self.price
            used = self.step_y > 0
            moved = moved / self.balance + self.balance * float((change[used] ** 2 / self.step_y[used]).sum())
            crossed = 2 * abs(float(change @ (load - self.load)))
            # The longest step that keeps the iteration a contraction, approached slowly from below (PDLP).
            limit = moved / crossed if crossed > 0 else np.inf
            n = self.passes + 2
            self.size = min((1 - n**-0.3) * limit, (1 + n**-0.6) * size)
            self.price, self.load = price, load
            self.price_sum += size * price
            self.steps += size
            self.passes += 1

    def _note(self, bound: float, price: np.ndarray) -> None:
        if bound < self.bound:
            self.bound, self.best_price = bound, price

    def _try(self, flow: np.ndarray, price: np.ndarray) -> float:
        """Return the gap of a pair of points, and keep what is better than the best so far."""
        p, paths = self.problem, self.problem.paths
        made = fill(p, flow)
        total = float(made.sum())
        if total > self.total:
            self.best, self.total = made, total
        bound = float(p.capacity @ price + _worth(paths.first, paths.start, paths.edge, p.demand, price))
        self._note(bound, price)
        return bound - total

    def compare(self) -> None:
        """Restart from the average or the last point, if the better one has improved much, or after long."""
        mean_flow, mean_price = self.flow_sum / self.steps, self.price_sum / self.steps
        here, mean = self._try(self.flow, self.price), self._try(mean_flow, mean_price)
        since = self.passes - self.restarted
        if min(here, mean) > 0.6 * self.gap_at_restart and since < max(_LONG, _LONG_PART * self.passes):
            return
        if mean < here:
            self.flow, self.price = mean_flow, mean_price
            self.load = self.problem.loads(mean_flow)
        moves, used = self.step_x > 0, self.step_y > 0
        squared = (self.flow - self.from_flow) ** 2
        change = np.bincount(self.problem.paths.demand, weights=squared, minlength=len(self.step_x))
        x = float((change[moves] / self.step_x[moves]).sum()) ** 0.5
        y = float(((self.price - self.from_price)[used] ** 2 / self.step_y[used]).sum()) ** 0.5
        if x > 0 and y > 0:
            # Small movements say little, as the ratio of two rounding errors may be anything.
            self.balance = float(np.clip((x / y * self.balance) ** 0.5, 1 / _MOST_BALANCE, _MOST_BALANCE))
        self.gap_at_restart = min(here, mean)
        self._restart()


@njit(cache=True, nogil=True)
def _pass(
    begin: int,
    end: int,
    first: np.ndarray,
    start: np.ndarray,
    edge: np.ndarray,
    demand: np.ndarray,
    step: np.ndarray,
    length: float,
    weight: float,
    price: np.ndarray,
    flow: np.ndarray,
    flow_sum: np.ndarray,
) -> tuple[np.ndarray, float, float]:
    """Move the flows of demands begin to end by one step, in place.

    Return the load of the edges, the worth of the demands, and the squared movement. `flow_sum` gets `weight`
    times the new flows.
    """
    load = np.zeros(len(price))
    worth = moved = 0.0
    before = np.empty((first[1:] - first[:-1]).max())
    for j in range(begin, end):
        low, high = first[j], first[j + 1]
        most, total = 0.0, 0.0
        for p in range(low, high):
            gain = 1.0
            for i in range(start[p], start[p + 1]):
                gain -= price[edge[i]]
            most = max(most, gain)
            before[p - low] = flow[p]
            flow[p] = max(0.0, flow[p] + length * step[j] * gain)
            total += flow[p]
        worth += demand[j] * most
        # The projection onto the simplex takes the same amount off every path that keeps any flow.
        while total > demand[j] * (1 + 1e-12):
            some = 0
            for p in range(low, high):
                some += flow[p] > 0
            off = (total - demand[j]) / some
            total = 0.0
            for p in range(low, high):
                flow[p] = max(0.0, flow[p] - off)
                total += flow[p]
        change = 0.0
        for p in range(low, high):
            change += (flow[p] - before[p - low]) ** 2
            flow_sum[p] += weight * flow[p]
            if flow[p] > 0:
                for i in range(start[p], start[p + 1]):
                    load[edge[i]] += flow[p]
        if step[j] > 0:
            moved += change / step[j]
    return load, worth, moved


@njit(cache=True, nogil=True)
def _longest(first: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return (demands,) the number of edges of each demand's longest path."""
    longest = np.zeros(len(first) - 1)
    for j in range(len(longest)):
        for p in range(first[j], first[j + 1]):
            longest[j] = max(longest[j], start[p + 1] - start[p])
    return longest


@njit(cache=True, nogil=True)
def _carried(
    first: np.ndarray, start: np.ndarray, edge: np.ndarray, demand: np.ndarray, capacity: np.ndarray
) -> np.ndarray:
    """Return (demands,) each demand, cut to what the tightest edges of its paths carry in all."""
    most = np.zeros(len(demand))
    for j in range(len(demand)):
        for p in range(first[j], first[j + 1]):
            least = np.inf
            for i in range(start[p], start[p + 1]):
                least = min(least, capacity[edge[i]])
            most[j] += least
            if most[j] >= demand[j]:
                most[j] = demand[j]
                break
    return most


@njit(cache=True, nogil=True)
def _worth(first: np.ndarray, start: np.ndarray, edge: np.ndarray, demand: np.ndarray, price: np.ndarray) -> float:
    """Return what the demands are worth at these prices."""
    worth = 0.0
    for j in range(len(demand)):
        most = 0.0
        for p in range(first[j], first[j + 1]):
            gain = 1.0
            for i in range(start[p], start[p + 1]):
                gain -= price[edge[i]]
            most = max(most, gain)
        worth += demand[j] * most
    return worth


@njit(cache=True, nogil=True)
def _answer(
    first: np.ndarray, start: np.ndarray, edge: np.ndarray, demand: np.ndarray, price: np.ndarray
) -> np.ndarray:
    """Return (paths,) every demand whole on its cheapest path, or nowhere if that costs more than it is worth."""
    flow = np.zeros(len(start) - 1)
    for j in range(len(demand)):
        most, best = 0.0, -1
        for p in range(first[j], first[j + 1]):
            gain = 1.0
            for i in range(start[p], start[p + 1]):
                gain -= price[edge[i]]
            if gain > most:
                most, best = gain, p
        if best >= 0:
            flow[best] = demand[j]
    return flow
