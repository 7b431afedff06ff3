"""How long the next round of a GPU allocation takes: ContinualProgram warm, HiGHS hot and from scratch.

    python -m benchmarks.continual_time [--rounds 8] [--sizes 48k,200k,1m] [--tolerance 1e-4]

Between rounds 1 % of the jobs leave, as many arrive, and 5 % change what they are worth. Times are of one round:
the change (`change ms`) and the solve. HiGHS from scratch is handed the program as arrays; hot simplex is told the
same changes and starts from its last basis. All on one core but ContinualProgram's pricing, on two where it pays.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import highspy
import numpy as np
from coadapt.optimizer.linear_program import Status

from tests.support.lp_instances import GpuAllocation, Round

from .arguments import at_least, some_of
from .harness import finish, table
from .lp_exactness import highs, model

SIZES = {"48k": (530, 80), "200k": (1020, 200), "1m": (3500, 320)}  # jobs, most GPUs of one
SCRATCH, SCRATCH_LIMIT_S = ("simplex", "ipm"), 100.0  # infinite from there on


class HotSimplex:
    """HiGHS with the program inside, changed as the program is."""

    def __init__(self, allocation: GpuAllocation) -> None:
        self.allocation, self.columns = allocation, len(allocation.gpus)
        self.ids = list(allocation.parameters)
        self.solver = highspy.Highs()
        self.solver.silent()
        self.solver.setOptionValue("threads", 1)
        self.solver.passModel(model(allocation.program.linear_program()))
        self.solver.setOptionValue("solver", "ipx")  # with crossover: a basis in the least time
        self.solver.run()
        self.solver.setOptionValue("solver", "simplex")

    def step(self, change: Round) -> float:
        """Apply a round's change and solve; return the seconds of both."""
        began = time.perf_counter()
        width, types = self.columns, self.allocation.TYPES
        gone = (change.left[:, None] * width + np.arange(width)).ravel().astype(np.int32)
        self.solver.deleteCols(len(gone), gone)
        self.solver.deleteRows(len(change.left), (types + change.left).astype(np.int32))
        self.ids = [id for i, id in enumerate(self.ids) if i not in set(change.left.tolist())]
        empty, none = np.zeros(len(change.came), dtype=np.int32), np.zeros(0)
        free, one = np.full(len(change.came), -np.inf), np.ones(len(change.came))
        self.solver.addRows(len(change.came), free, one, 0, empty, np.zeros(0, dtype=np.int32), none)
        for k, id in enumerate(change.came):
            row = types + len(self.ids) + k
            index = np.column_stack([self.allocation.gpu_type, np.full(width, row)]).ravel().astype(np.int32)
            value = np.column_stack([self.allocation.gpus, np.ones(width)]).ravel()
            starts = 2 * np.arange(width, dtype=np.int32)
            costs, bounds = -self.allocation.values(id), (np.zeros(width), np.full(width, np.inf))
            self.solver.addCols(width, costs, *bounds, 2 * width, starts, index, value)
        self.ids += change.came
        place = {id: i for i, id in enumerate(self.ids)}
        at = np.array([place[id] for id in change.changed])
        columns = (at[:, None] * width + np.arange(width)).ravel().astype(np.int32)
        costs = -np.concatenate([self.allocation.values(id) for id in change.changed])
        self.solver.changeColsCost(len(columns), columns, costs)
        self.solver.run()
        return time.perf_counter() - began

    @property
    def objective(self) -> float:
        return -float(self.solver.getInfo().objective_function_value)


@dataclass
class Times:
    variables: int
    cold_s: float
    change_s: list[float]
    warm_s: list[float]
    hot_s: list[float]
    scratch_s: dict[str, float]
    error: float  # largest, relative, of a warm objective against hot simplex'


def measure(jobs: int, most_gpus: int, rounds: int, tolerance: float) -> Times:
    allocation = GpuAllocation(jobs, most_gpus)
    program = allocation.program
    program.solve(tolerance)
    cold = program.solve(tolerance, warm=False).seconds
    scratch_s = {}
    for solver in SCRATCH:
        found = highs(program.linear_program(), solver, SCRATCH_LIMIT_S)
        scratch_s[solver] = found.seconds if found.status is Status.OPTIMAL else np.inf
    hot = HotSimplex(allocation)
    times = Times(len(program), cold, [], [], [], scratch_s, 0.0)
    for _ in range(rounds):
        began = time.perf_counter()
        change = allocation.step()
        times.change_s.append(time.perf_counter() - began)
        solution = program.solve(tolerance)
        times.warm_s.append(solution.seconds)
        times.hot_s.append(hot.step(change))
        times.error = max(times.error, abs(solution.objective - hot.objective) / abs(hot.objective))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=at_least(1), default=8)
    parser.add_argument("--sizes", type=some_of([*SIZES]), default=[*SIZES])
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()
    measure(20, 8, 1, args.tolerance)  # kernels are loaded
    rows, figures = [], {}
    for size in args.sizes:
        t = measure(*SIZES[size], args.rounds, args.tolerance)
        change, warm, hot = (float(np.median(s)) * 1e3 for s in (t.change_s, t.warm_s, t.hot_s))
        best = min(t.scratch_s.values()) * 1e3
        scratch = [t.scratch_s[solver] * 1e3 for solver in SCRATCH]
        rows.append(
            [size, t.variables, change, warm, t.cold_s * 1e3, hot, *scratch, best / warm, hot / warm, t.error]
        )
        figures[f"warm_p50_ms_{size}"] = round(warm, 1)
        figures[f"cold_ms_{size}"] = round(t.cold_s * 1e3, 1)
        figures[f"highs_hot_p50_ms_{size}"] = round(hot, 1)
        figures[f"highs_scratch_over_warm_{size}"] = round(best / warm, 1)
        figures[f"max_rel_err_{size}"] = t.error
    columns = ["size", "variables", "change ms", "warm ms", "cold ms", "hot ms", "simplex ms", "ipm ms"]
    table("One round of a GPU allocation", [*columns, "scratch / warm", "hot / warm", "worst error"], rows)
    finish("continual_time", figures)


if __name__ == "__main__":
    main()
