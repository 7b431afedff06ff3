"""What makes a round fast: the solver, telling it only what changed, or starting where the last round ended.

    python -m benchmarks.attribution [--gpus 10000] [--jobs 2000] [--types 7] [--rounds 12] [--tolerance 1e-4]

This is COpter's figure 4.6 (section 4.5.2) for our solvers: the LP relaxation of rounds of sia. All methods meet
the same rounds of benchmarks/large_rounds.py: 1 % of the jobs are replaced, 4 % are valued anew, and all that run
are weighed anew. Speedups are over HiGHS from scratch, with reading and building of the program. Of simplex and
interior point the faster one counts in each round. All have one thread.

HiGHS differential is the same without reading and building, the most that any such interface could save. HiGHS
warm is a model built anew, but with the basis of the last round. Structured finds prices, a plan and, if that is
not within the gap, the LP's vertex, without searches. It gets the whole program or only changes, without or with
the last prices. Continual gets arrays for a new program or the differences that are found by comparing, and is
cold or warm.
"""

from __future__ import annotations

import argparse
import copy
import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from coadapt.optimizer.allocation import ChoiceProgram, ChoiceSolution
from coadapt.optimizer.allocation.box import NO_BOX
from coadapt.optimizer.allocation.memory import Memory
from coadapt.optimizer.copter.baselines import hot_highs
from coadapt.optimizer.copter.baselines.hot_highs import HotHighs
from coadapt.optimizer.copter.engine import ContinualProgram
from coadapt.optimizer.copter.gpu_allocation.engine import Continual
from coadapt.optimizer.copter.gpu_allocation.program import Reading, linear_program
from coadapt.optimizer.highs import Highs, Method
from coadapt.optimizer.linear_program import LinearProgram
from coadapt.policies.catalogue import make_policy
from coadapt.policies.choosing.allocation_round import ProgramPolicy
from coadapt.policies.warm_up import warm_up

from .allocation_scaling import Updates
from .arguments import at_least
from .harness import finish, table
from .large_rounds import Workload, cluster

GAP = 1e-4
BASE = "HiGHS, from scratch"
# What each row stacks, and what COpter's figure says of its own.
METHODS = {
    BASE: "",
    "HiGHS, differential alone": "",
    "HiGHS, warm start alone": "",
    "HiGHS, differential and warm": "",
    "structured, solver alone": "5",
    "structured, + differential": "17.5",
    "structured, + warm start": "24",
    "structured, solver and warm": "",
    "continual, solver alone": "5",
    "continual, + differential": "17.5",
    "continual, + warm start": "24",
}


def key(method: str) -> str:
    return method.lower().replace(", ", "_").replace("+ ", "with_").replace(" ", "_")


class Compared:
    """Decides rounds by the structured solver, and lets every method solve their LP relaxation beside it."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.updates = Updates()
        self.watched: ChoiceProgram | None = None
        self.built_anew, self.kept = HotHighs(Method.SIMPLEX), HotHighs(Method.SIMPLEX)
        self.continual = Continual(tolerance, threads=1)
        self.serial: dict[str, int] = {}
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.off: dict[str, float] = defaultdict(float)  # worst, of the optimum

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        if self.watched is not program:
            self.updates.watch(program)
            self.watched = program
        changes_s = self.updates.take()
        optimum = self._highs(program, order)
        self._structured(program, order, changes_s, optimum)
        self._continual(program, order, optimum)
        found = program.solve(order, gap, time_limit_s)
        self.updates.take()
        return found

    def _record(self, method: str, seconds: float, value: float, optimum: float) -> None:
        self.seconds[method].append(seconds)
        self.off[method] = max(self.off[method], abs(value - optimum) / abs(optimum))

    def _highs(self, program: ChoiceProgram, order: Sequence[str]) -> float:
        linear, read_s = self._read(program, order)
        cold = [Highs(method).solve(linear) for method in (Method.SIMPLEX, Method.INTERIOR_POINT)]
        best = min(cold, key=lambda found: found.seconds)
        optimum = best.objective
        self._record(BASE, read_s + best.seconds, best.objective, optimum)
        self._record("HiGHS, differential alone", best.seconds - best.setup_s, best.objective, optimum)
        names = self._names(program, order)
        with patch.object(hot_highs, "MAX_CHANGED_COEFFICIENTS", -1):  # so that models are always built anew
            found = self.built_anew.solve(linear, *names)
        self._record("HiGHS, warm start alone", read_s + found.seconds, found.objective, optimum)
        found = self.kept.solve(linear, *names)
        # Finding the differences is part of what the method costs, reading the program for it as well.
        self._record("HiGHS, differential and warm", read_s + found.seconds, found.objective, optimum)
        return optimum

    def _read(self, program: ChoiceProgram, order: Sequence[str]) -> tuple[LinearProgram, float]:
        began = time.perf_counter()
        entries = program.entries(order)
        linear = linear_program(
            entries, len(order), program.usage, program.capacity, program.required(order), integer=False
        )
        return linear, time.perf_counter() - began

    def _names(self, program: ChoiceProgram, order: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return names of columns and rows, the same in every round."""
        entries, (limits, columns) = program.entries(order), program.usage.shape
        serial = np.array([self.serial.setdefault(id, len(self.serial)) for id in order], np.int64)
        return serial[entries.row] * columns + entries.column, np.concatenate([limits + serial, np.arange(limits)])

    def _structured(self, program: ChoiceProgram, order: Sequence[str], changes_s: float, optimum: float) -> None:
        warm, cold = copy.deepcopy(program), copy.deepcopy(program)
        cold._memory = Memory()
        entries = program.entries(order)
        gain = np.zeros((len(order), program.usage.shape[1]))
        allowed = np.zeros(gain.shape, bool)
        gain[entries.row, entries.column], allowed[entries.row, entries.column] = entries.gain, True

        def anew(memory: Memory) -> ChoiceSolution:
            fresh = ChoiceProgram(program.usage, program.capacity, program._order.group, program._order.size)
            fresh.upsert(order, gain, allowed)
            fresh._memory = memory
            return fresh.solve(order, GAP, time_limit_s=0.0)

        runs: dict[str, tuple[float, Callable[[], ChoiceSolution]]] = {
            "structured, solver alone": (0.0, lambda: anew(Memory())),
            "structured, + differential": (changes_s, lambda: cold.solve(order, GAP, time_limit_s=0.0)),
            "structured, + warm start": (changes_s, lambda: warm.solve(order, GAP, time_limit_s=0.0)),
            "structured, solver and warm": (0.0, lambda: anew(prices_alone)),
        }
        prices_alone = replace(program._memory, held=NO_BOX)  # boxes are of its rows
        for method, (before_s, run) in runs.items():
            began = time.perf_counter()
            found = run()
            self._record(method, before_s + time.perf_counter() - began, -found.bound, optimum)

    def _continual(self, program: ChoiceProgram, order: Sequence[str], optimum: float) -> None:
        linear, read_s = self._read(program, order)
        began = time.perf_counter()
        found = ContinualProgram.of(linear).solve(self.tolerance, threads=1)
        seconds = read_s + time.perf_counter() - began
        self._record("continual, solver alone", seconds, found.objective, optimum)
        began = time.perf_counter()
        self.continual.tell(program, order, Reading.of(program, order))
        tell_s = time.perf_counter() - began
        engine = self.continual.engine
        beside: ContinualProgram = pickle.loads(pickle.dumps(engine))
        for name, which, warm in (("+ differential", beside, False), ("+ warm start", engine, True)):
            began = time.perf_counter()
            solution = which.solve(self.tolerance, 1, warm=warm)
            seconds = tell_s + time.perf_counter() - began
            self._record(f"continual, {name}", seconds, -solution.objective, optimum)


def compare(gpus: int, jobs: int, types: int, rounds: int, tolerance: float, seed: int) -> Compared:
    compared = Compared(tolerance)
    policy = make_policy("sia", tolerance=0.01)
    assert isinstance(policy, ProgramPolicy)
    policy._solver = compared
    workload = Workload(cluster(gpus, types), jobs, seed=seed)
    for _ in range(rounds + 2):
        workload.step(policy.plan(workload.round()))
    return compared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=at_least(1), default=10_000)
    parser.add_argument("--jobs", type=at_least(1), default=2_000)
    parser.add_argument("--types", type=at_least(1), default=7)
    parser.add_argument("--rounds", type=at_least(1), default=12)
    parser.add_argument("--tolerance", type=float, default=1e-4, help="of the continual engine")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warm_up("sia", {})  # kernels are loaded, or compiled
    compare(64, 20, args.types, 1, args.tolerance, args.seed)
    compared = compare(args.gpus, args.jobs, args.types, args.rounds, args.tolerance, args.seed)
    # The first round starts from nothing, and in the second most jobs get their first GPUs.
    seconds = {method: np.array(compared.seconds[method][2:]) for method in METHODS}
    rows: list[list[object]] = []
    figures: dict[str, float | int | str | None] = {"gpus": args.gpus, "jobs": args.jobs}
    for method, paper in METHODS.items():
        times = seconds[BASE] / seconds[method]
        spread = [float(times.mean()), *(float(np.quantile(times, q)) for q in (0.5, 0.1, 0.9))]
        median_s = float(np.median(seconds[method]))
        rows.append([method, median_s * 1e3, *spread, paper, compared.off[method]])
        figures[f"{key(method)}_p50_s"] = float(f"{median_s:.4g}")
        for name, value in zip(("mean", "p50", "p10", "p90"), spread, strict=True):
            figures[f"{key(method)}_speedup_{name}"] = float(f"{value:.4g}")
    columns = ["LP relaxation", "median ms", "speedup: mean", "median", "p10", "p90", "COpter", "off optimum"]
    table(
        f"{args.gpus:,} GPUs of {args.types} types, {args.jobs:,} jobs, {args.rounds} rounds; COpter's over CPLEX",
        columns,
        rows,
    )
    finish("attribution", figures, "one thread")


if __name__ == "__main__":
    main()
