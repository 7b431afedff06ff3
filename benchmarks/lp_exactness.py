"""Whether ContinualProgram solves general linear programs as HiGHS does: status, objective, proven bound, time.

    python -m tests.support.lp_instances --fetch                       # once, for Netlib's
    python -m benchmarks.lp_exactness [--time-limit-s 10] [--tolerance 1e-6] [--families netlib,diet]

Every program is solved cold. An error is |objective - HiGHS'| / max(|HiGHS'|, 1), over programs that both call
optimal. A status is wrong if it is neither HiGHS' nor `stopped`; if HiGHS gives none, that of the construction
counts. A program that stopped at the time limit counts as not solved.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from dataclasses import dataclass

import highspy
import numpy as np
from coadapt.optimizer.copter.engine import ContinualProgram
from coadapt.optimizer.linear_program import LinearProgram, LinearSolution, Status

from tests.support.lp_instances import FAMILIES, NETLIB_FAMILIES, Instance, generated, netlib

from .arguments import some_of
from .harness import finish, table

FAMILY_NAMES = (*FAMILIES, *NETLIB_FAMILIES)

EXACT = 1e-4
HIGHS_LIMIT_S = 60.0  # of simplex, and then of its interior point method
STATUS = {
    highspy.HighsModelStatus.kOptimal: Status.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: Status.UNBOUNDED,
}


def model(program: LinearProgram) -> highspy.HighsLp:
    lp, matrix = highspy.HighsLp(), program.matrix.tocsc()
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    return lp


def highs(program: LinearProgram, solver: str = "choose", time_limit_s: float = 600.0) -> LinearSolution:
    """Solve by HiGHS from scratch, on one thread; STOPPED for whatever else it says."""
    began = time.perf_counter()
    solver_ = highspy.Highs()
    solver_.silent()
    solver_.setOptionValue("solver", solver)
    solver_.setOptionValue("threads", 1)
    solver_.setOptionValue("time_limit", time_limit_s)
    solver_.setOptionValue("allow_unbounded_or_infeasible", False)
    solver_.passModel(model(program))
    set_up = time.perf_counter()
    solver_.run()
    ended = time.perf_counter()
    status = STATUS.get(solver_.getModelStatus(), Status.STOPPED)
    objective = solver_.getInfo().objective_function_value
    return LinearSolution(status, objective=objective, seconds=ended - began, setup_s=set_up - began)


@dataclass(frozen=True)
class Compared:
    instance: Instance
    status: Status
    expected: Status
    error: float  # nan where there is no optimum to compare
    broken_bound: bool  # a bound that is above HiGHS' optimum
    seconds: float
    highs_s: float

    @property
    def solved(self) -> bool:
        """Return whether it is as HiGHS says; what HiGHS did not solve either is known to no one."""
        has_error = not np.isnan(self.error) or self.expected is not Status.OPTIMAL
        return self.status is self.expected and has_error and not self.error > EXACT

    @property
    def wrong(self) -> bool:
        return self.status not in (self.expected, Status.STOPPED)


def compare(instance: Instance, tolerance: float, time_limit_s: float) -> Compared:
    theirs = highs(instance.program, time_limit_s=HIGHS_LIMIT_S)
    if theirs.status is Status.STOPPED:
        theirs = highs(instance.program, "ipx", HIGHS_LIMIT_S)
    program = ContinualProgram.of(instance.program)
    ours = program.solve(tolerance=tolerance, threads=1, time_limit_s=time_limit_s)
    expected = instance.status if theirs.status is Status.STOPPED and instance.status else theirs.status
    unit = max(abs(theirs.objective), 1.0)
    both = ours.status is Status.OPTIMAL and theirs.status is Status.OPTIMAL
    return Compared(
        instance,
        ours.status,
        expected,
        abs(ours.objective - theirs.objective) / unit if both else np.nan,
        theirs.status is Status.OPTIMAL and ours.bound > theirs.objective + 1e-6 * unit,
        ours.seconds,
        theirs.seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit-s", type=float, default=10.0)
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument(
        "--families", type=some_of(FAMILY_NAMES), default=[*FAMILY_NAMES], help="only these, separated by commas"
    )
    parser.add_argument("--verbose", action="store_true", help="a line for every program that was not solved")
    args = parser.parse_args()
    instances = [i for i in generated() if i.family in args.families]
    if any(name in args.families for name in NETLIB_FAMILIES):
        print("Netlib's programs are read", flush=True)
        instances += [i for i in netlib() if i.family in args.families]
        if not any(i.family in NETLIB_FAMILIES for i in instances):
            print("there are none; python -m tests.support.lp_instances --fetch brings them", flush=True)
    if not instances:
        parser.error(f"--families: there is no program of {', '.join(args.families)}")
    compare(instances[0], args.tolerance, 60.0)  # kernels are loaded
    by_family: dict[str, list[Compared]] = defaultdict(list)
    for instance in instances:
        found = compare(instance, args.tolerance, args.time_limit_s)
        by_family[instance.family].append(found)
        if args.verbose and not found.solved:
            print(
                f"{instance.name}: {found.status}, expected {found.expected}, error {found.error:.1e}", flush=True
            )
    rows = []
    for family, each in by_family.items():
        ratios = [c.seconds / c.highs_s for c in each if c.solved]
        rows.append(
            [
                family,
                len(each),
                sum(c.solved for c in each),
                sum(c.wrong for c in each),
                float(np.nanmax([0.0, *[c.error for c in each]])),
                float(np.median([c.seconds for c in each])) * 1e3,
                float(np.median([c.highs_s for c in each])) * 1e3,
                float(np.median(ratios)) if ratios else float("nan"),
            ]
        )
    columns = [
        "family",
        "programs",
        "solved",
        "wrong status",
        "worst error",
        "p50 ms",
        "HiGHS p50 ms",
        "p50 ratio",
    ]
    table("ContinualProgram from scratch beside HiGHS", columns, rows)
    every = [c for each in by_family.values() for c in each]
    ratios = [c.seconds / c.highs_s for c in every if c.solved]
    finish(
        "lp_exactness",
        {
            "instances": len(every),
            "lp_solved": sum(c.solved for c in every),
            "lp_stopped": sum(c.status is Status.STOPPED for c in every),
            "lp_max_rel_err": float(np.nanmax([0.0, *[c.error for c in every]])),
            "wrong_status": sum(c.wrong for c in every),
            "broken_bounds": sum(c.broken_bound for c in every),
            "netlib": len(by_family["netlib"]),
            "netlib_solved": sum(c.solved for c in by_family["netlib"]),
            "netlib_infeasible": len(by_family["netlib-infeasible"]),
            "netlib_infeasible_solved": sum(c.solved for c in by_family["netlib-infeasible"]),
            "lp_p50_time_over_highs": round(float(np.median(ratios)), 2) if ratios else None,
        },
    )


if __name__ == "__main__":
    main()
