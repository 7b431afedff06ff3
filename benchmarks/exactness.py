"""Whether the structured solver's plans and bounds are right, on thousands of small programs of twelve families.

    python -m benchmarks.exactness [--instances 10000] [--gap 1e-6] [--processes 2]

HiGHS solves every program whole, as an integer program of all options, to the very optimum or for ten seconds. The
family of many rows has a twentieth as many programs as another one. The structured solver solves each from
nothing, and once more by a program that had other capacities and half of the rows before.

A solution is wrong if the optimum is outside [objective, bound] by more than 1e-6 of it (or of 1). So is a plan
that is not within capacity, picks what is not allowed, or leaves out required rows that could all be served.

`lp_exactness` tests general linear programs. Its largest error is repeated here; `--no-lp` leaves that out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from coadapt.optimizer.allocation import ChoiceProblem, ChoiceSolution
from coadapt.optimizer.allocation.listing import Entries
from coadapt.optimizer.copter.gpu_allocation.program import linear_program
from coadapt.optimizer.highs import Highs, Method
from coadapt.optimizer.linear_program import Status

from tests.support.choice_instances import FAMILIES, LARGER, Instance, draw
from tests.support.lp_instances import generated, netlib

from .arguments import at_least
from .harness import finish, table
from .lp_exactness import compare

RELATIVE = 1e-6
CHUNK = 100
HIGHS_LIMIT_S = 10.0
LARGER_SHARE = 20  # as many times fewer
LP_LIMIT_S = 10.0  # of each program of lp_exactness
LP_DRAWS = 4  # of every family and size: 224 programs


@dataclass(frozen=True)
class Checked:
    """The worse of the two solves. shortfall: of the plan to HiGHS' optimum, relative. seconds: from nothing."""

    outside: bool
    infeasible: bool
    gap: float
    shortfall: float
    seconds: float
    highs_s: float


@dataclass(frozen=True)
class Optimum:
    """low: the gain of a plan that fits, high: what none exceeds; both -inf if what is required does not fit.

    seconds: HiGHS'.
    """

    low: float
    high: float
    seconds: float

    def outside(self, solution: ChoiceSolution) -> bool:
        if self.high == -np.inf:
            return True
        slack = RELATIVE * max(abs(self.low), 1.0)
        return solution.objective > self.high + slack or solution.bound < self.low - slack


def optimum(problem: ChoiceProblem, required: np.ndarray) -> Optimum:
    """Solve by HiGHS, over all options as they are; (rows,) required.

    Raises:
        RuntimeError: if HiGHS brings no plan, or one that does not fit.
    """
    row, column = np.nonzero(problem.allowed)
    if (required & ~problem.allowed.any(axis=1)).any():
        return Optimum(-np.inf, -np.inf, 0.0)
    if not len(row):
        return Optimum(0.0, 0.0, 0.0)
    entries = Entries(row, column, problem.value[row, column])
    linear = linear_program(entries, len(required), problem.usage, problem.capacity, required, integer=True)
    found = Highs(Method.EXACT, time_limit_s=HIGHS_LIMIT_S, gap=1e-9).solve(linear)
    if found.status is Status.INFEASIBLE:
        return Optimum(-np.inf, -np.inf, found.seconds)
    if found.x is None:
        raise RuntimeError(f"HiGHS ended with {found.status}")
    picked = found.x > 0.5
    if (problem.usage[:, column[picked]].sum(axis=1) > problem.capacity).any():
        raise RuntimeError("HiGHS' plan, rounded, does not fit")
    return Optimum(float(entries.gain[picked].sum()), -found.bound, found.seconds)


def fits(problem: ChoiceProblem, solution: ChoiceSolution) -> bool:
    """Return whether a plan is within capacity, of allowed columns, worth what it says, and complete."""
    row = np.flatnonzero(solution.choice >= 0)
    column = solution.choice[row]
    value = float(problem.value[row, column].sum())
    idle = set() if problem.required is None else set(np.flatnonzero(problem.required & (solution.choice < 0)))
    return bool(
        problem.allowed[row, column].all()
        and (problem.usage[:, column].sum(axis=1) <= problem.capacity).all()
        and abs(value - solution.objective) <= RELATIVE * max(abs(value), 1.0)
        and idle <= set(solution.unmet)
    )


def after_changes(instance: Instance, gap: float) -> ChoiceSolution:
    """Solve a program that was solved for half of the rows and other capacities before, and other gains."""
    program = instance.program()
    later = instance.ids[::2]
    program.set_capacity(np.ceil(instance.capacity * 1.5))
    program.remove(later)
    program.solve(instance.ids[1::2], gap)
    program.set_capacity(instance.capacity)
    instance.put(program, np.arange(0, len(instance.value), 2))
    program.set_weights(instance.ids[:1], instance.offset[:1], 1.01 * instance.scale[:1])
    program.solve(instance.ids, gap)
    program.set_weights(instance.ids[:1], instance.offset[:1], instance.scale[:1])
    return program.solve(instance.ids, gap)


def check(family: str, seed: int, gap: float) -> Checked:
    instance = draw(family, seed)
    problem = instance.problem()
    began = time.perf_counter()
    cold = instance.program().solve(instance.ids, gap)
    seconds = time.perf_counter() - began
    warm = after_changes(instance, gap)
    required = np.zeros(len(problem.value), bool) if problem.required is None else problem.required.copy()
    required[list(cold.unmet)] = False
    exact = optimum(problem, required)
    outside = exact.outside(cold) or exact.outside(warm) or cold.unmet != warm.unmet
    if cold.unmet and problem.required is not None:
        outside |= optimum(problem, problem.required).high > -np.inf
    worse = min(cold.objective, warm.objective)
    return Checked(
        outside,
        not (fits(problem, cold) and fits(problem, warm)),
        max(cold.gap, warm.gap),
        max(exact.low - worse, 0.0) / max(abs(exact.low), 1.0),
        seconds,
        exact.seconds,
    )


def check_all(job: tuple[str, int, int, float]) -> list[Checked]:
    family, first, last, gap = job
    return [check(family, seed, gap) for seed in range(first, last)]


def general_programs() -> dict[str, float | int]:
    """Return what `lp_exactness` says of the programs it generates, and of Netlib's where they were fetched."""
    published = list(netlib())
    if not published:
        print("without Netlib's programs: `python -m tests.support.lp_instances --fetch` brings them")
    instances = [*generated(draws=LP_DRAWS), *published]
    found = [compare(each, RELATIVE, LP_LIMIT_S) for each in instances]
    return {
        "lps": len(found),
        "lps_solved": sum(each.solved for each in found),
        "lps_wrong_status": sum(each.wrong for each in found),
        "lp_max_rel_err": float(np.nanmax([0.0, *(each.error for each in found)])),
    }


def row_of(family: str, found: Sequence[Checked]) -> list[object]:
    return [
        family,
        len(found),
        sum(each.outside for each in found),
        sum(each.infeasible for each in found),
        sum(each.gap <= RELATIVE for each in found),
        max(each.gap for each in found),
        max(each.shortfall for each in found),
        1e3 * float(np.median([each.seconds for each in found])),
        1e3 * float(np.median([each.highs_s for each in found])),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=at_least(1), default=10_000)
    parser.add_argument("--gap", type=float, default=1e-6, help="that the structured solver is asked for")
    parser.add_argument("--processes", type=at_least(1), default=2)
    parser.add_argument("--no-lp", action="store_true")
    args = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes: their matrices are small
    each = -(-args.instances // len(FAMILIES))
    counts = {**dict.fromkeys(FAMILIES, each), **dict.fromkeys(LARGER, -(-each // LARGER_SHARE))}
    jobs = [
        (family, first, min(first + CHUNK, count), args.gap)
        for family, count in counts.items()
        for first in range(0, count, CHUNK)
    ]
    found: dict[str, list[Checked]] = {family: [] for family in counts}
    with ProcessPoolExecutor(args.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for job, some in zip(jobs, pool.map(check_all, jobs), strict=True):
            found[job[0]] += some
    every = [checked for some in found.values() for checked in some]
    columns = ["family", "instances", "outside", "infeasible", "proven exact", "largest gap", "largest shortfall"]
    rows = [row_of(family, some) for family, some in found.items()]
    table(
        "Structured solver against the optimum by HiGHS",
        [*columns, "p50 ms", "HiGHS p50 ms"],
        [*rows, row_of("all", every)],
    )
    finish(
        "exactness",
        {
            "instances": len(every),
            "gap_violations": sum(checked.outside for checked in every),
            "infeasible_plans": sum(checked.infeasible for checked in every),
            "proven_exact": sum(checked.gap <= RELATIVE for checked in every),
            "max_gap": max(checked.gap for checked in every),
            "max_shortfall": max(checked.shortfall for checked in every),
            **({} if args.no_lp else general_programs()),
        },
    )


if __name__ == "__main__":
    main()
