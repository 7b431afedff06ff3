"""How long deciding a round takes at any size, and how good the decision is, by every solver there is.

    python -m benchmarks.allocation_scaling [--gpus 10000] [--jobs 2000] [--types 7] [--churn 0.01] [--learn 0.04]
        [--rounds 30] [--budget-s 90] [--methods structured,highs,…] [--seed 0]

The rounds are those of sia over the jobs of benchmarks/large_rounds.py. In every round the gains of every running
job change, as its restart factor grows with its age. `churn` of the jobs are replaced, and `learn` of them are
valued anew. Every method decides the same rounds, in a process of its own, until `--rounds` or `--budget-s` are
spent. A hot or continual one goes on from its own last round. The time of `structured` is that of every change of
the program and its solution. The time of the others is that of reading and handing over the program, solution and
shim. All of them get the program without options that can never matter. Where a method stopped early its figures
are of fewer rounds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from coadapt.optimizer.allocation import ChoiceProgram, ChoiceSolution
from coadapt.policies.catalogue import make_policy
from coadapt.policies.choosing.allocation_round import ProgramPolicy
from coadapt.policies.choosing.solvers import SOLVERS, AllocationSolver, Structured, allocation_solver
from coadapt.policies.warm_up import warm_up

from .arguments import at_least, share, some_of
from .harness import finish, table
from .large_rounds import Workload, cluster

METHODS = (
    "structured",
    "highs",
    "highs-ipm",
    "highs-pdlp",
    "highs-hot",
    "highs-pdlp-hot",
    "continual",
    "pop-ray",
    "milp",
    "ilp",
)
LIMIT_S = 60.0  # of one round, for methods that can be stopped
CHANGES = ("upsert", "remove", "set_weights", "set_incumbents", "set_limits")


class Updates:
    """Seconds spent in changes of a program, or of all, since they were last asked for."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def take(self) -> float:
        seconds, self.seconds = self.seconds, 0.0
        return seconds

    def watch(self, program: ChoiceProgram | type[ChoiceProgram]) -> None:
        for name in CHANGES:
            setattr(program, name, self._timed(getattr(program, name)))

    @contextmanager
    def watching(self, programs: type[ChoiceProgram]) -> Iterator[None]:
        """Watch all programs meanwhile, and these alone."""
        before = {name: getattr(programs, name) for name in CHANGES}
        self.take()
        self.watch(programs)
        try:
            yield
        finally:
            for name, change in before.items():
                setattr(programs, name, change)

    def _timed(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **more: Any) -> Any:
            began = time.perf_counter()
            found = change(*args, **more)
            self.seconds += time.perf_counter() - began
            return found

        return timed


class Measured:
    """Decides by `structured`, so that all methods meet the same rounds, and lets a method decide beside it."""

    def __init__(self, method: str) -> None:
        self.structured = Structured()
        self.peer: AllocationSolver | None = None if method == "structured" else allocation_solver(method)
        self.updates = Updates()
        self.watched: ChoiceProgram | None = None
        self.rounds: list[tuple[float, float, float, int]] = []

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        if self.watched is not program:
            self.updates.watch(program)
            self.watched = program
        updates_s = self.updates.take()
        began = time.perf_counter()
        found = self.structured.solve(program, order, gap, time_limit_s)
        seconds, mine = updates_s + time.perf_counter() - began, found
        if self.peer is not None:
            began = time.perf_counter()
            mine = self.peer.solve(program, order, gap, LIMIT_S)
            # POP's own count: its parts run one after another here, and side by side in its time.
            seconds = mine.seconds if mine.seconds > 0 else time.perf_counter() - began
        own_gap = mine.gap if np.isfinite(mine.gap) else float("nan")
        self.rounds.append((seconds, own_gap, mine.objective / found.bound, found.entries))
        self.updates.take()
        return found


def measure(args: argparse.Namespace) -> dict[str, float]:
    """Measure one method, in this process."""
    measured = Measured(args.method)
    _warm_up(args)
    policy = make_policy("sia", tolerance=0.01)
    assert isinstance(policy, ProgramPolicy)
    policy._solver = measured
    workload = Workload(cluster(args.gpus, args.types), args.jobs, args.churn, args.learn, args.seed)
    began = time.monotonic()
    # The first round starts from nothing and is left out; so is the next, in which most jobs get their first GPUs.
    while len(measured.rounds) < args.rounds + 2 and (
        len(measured.rounds) < 3 or time.monotonic() - began < args.budget_s
    ):
        workload.step(policy.plan(workload.round()))
    first, rounds = measured.rounds[0], np.array(measured.rounds[2:])
    return {
        "rounds": len(rounds),
        "first_s": first[0],
        "p50_s": float(np.median(rounds[:, 0])),
        "p99_s": float(np.quantile(rounds[:, 0], 0.99)),
        "gap": float(np.max(rounds[:, 1])),
        "objective_ratio": float(np.mean(rounds[:, 2])),
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "options": float(np.mean(rounds[:, 3])),
    }


def _warm_up(args: argparse.Namespace) -> None:
    """Load or compile the kernels, those of the structured solver too, which decides."""
    for solver in dict.fromkeys(("structured", args.method)):
        warm_up("sia", {"solver": solver})
    policy = make_policy("sia", solver=args.method)
    workload = Workload(cluster(64, args.types), 20, seed=args.seed)
    for _ in range(2):
        workload.step(policy.plan(workload.round()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=at_least(1), default=10_000)
    parser.add_argument("--jobs", type=at_least(1), default=2_000)
    parser.add_argument("--types", type=at_least(1), default=7)
    parser.add_argument("--churn", type=share, default=0.01)
    parser.add_argument("--learn", type=share, default=0.04)
    parser.add_argument("--rounds", type=at_least(1), default=30)
    parser.add_argument("--budget-s", type=float, default=90.0, help="of one method")
    parser.add_argument("--methods", type=some_of(SOLVERS), default=[*METHODS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--method", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.method:
        print(json.dumps(measure(args)))
        return
    found: dict[str, dict[str, float]] = {}
    for method in args.methods:
        command = [sys.executable, "-m", "benchmarks.allocation_scaling", *sys.argv[1:], "--method", method]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            print(f"{method}: failed: {ran.stderr.strip().splitlines()[-1:]}")
            continue
        found[method] = json.loads(ran.stdout.splitlines()[-1])
        print(f"{method}: {found[method]['rounds']:.0f} rounds, median {found[method]['p50_s']:.3g} s", flush=True)
    columns = ("rounds", "first_s", "p50_s", "p99_s", "gap", "objective_ratio", "peak_gib")
    fastest = found.get("structured", {}).get("p50_s", float("nan"))
    rows = [[name, *(each[c] for c in columns), each["p50_s"] / fastest] for name, each in found.items()]
    options = next(iter(found.values()))["options"] if found else 0
    table(
        f"{args.gpus:,} GPUs of {args.types} types, {args.jobs:,} jobs, {options:,.0f} options, "
        f"churn {args.churn}, learn {args.learn}",
        ["", *columns, "times structured"],
        rows,
    )
    keep = ("rounds", "p50_s", "p99_s", "gap", "objective_ratio", "peak_gib")
    figures = {
        f"{name.replace('-', '_')}_{c}": float(f"{each[c]:.5g}") if np.isfinite(each[c]) else None
        for name, each in found.items()
        for c in keep
    }
    finish(
        "allocation_scaling",
        {"gpus": args.gpus, "jobs": args.jobs, **figures},
        "one thread, two for continual and Ray",
    )


if __name__ == "__main__":
    main()
