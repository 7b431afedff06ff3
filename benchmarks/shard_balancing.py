"""Shard load balancing, every bar of COpter's figures 5.2 and 5.3: movements, imbalance and time of each method.

    python -m benchmarks.shard_balancing [--size 1024] [--kind stateful] [--rounds 8 --skip 2] [--engine] [--full]

All methods get the same loads, each on the placement its own rounds made. Time is CPU time of a round on one
thread, so that a loaded machine blurs it little. The time of POP is the makespan of its parts over 64 cores, as
the paper estimates it, and also over two. A part has --part-limit seconds.

HiGHS solves the whole integer program only at 128 shards and 16 servers, unless --full or --method asks for it. At
1,024 shards it finds nothing of use in minutes. Ours leaves replicas where they are while they fit. LP-Relaxed is
also shown with this rule, and ours without it, so that equals can be compared. The paper's setting is --full: 100
rounds without the first 20, and 1,024 and 2,048 shards. It includes the relaxation as stated, with its hundred
thousand rows R <= X. It takes days on two cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from coadapt.estimators.blas import one_thread
from coadapt.optimizer.copter.baselines.pop import makespan_s, solve_parts
from coadapt.optimizer.copter.problems.continual import add_shards, change_shards
from coadapt.optimizer.copter.problems.shard_balancing import (
    Assignment,
    ShardPartition,
    ShardProblem,
    first_problem,
    greedy,
    keep_idle,
    place,
    relaxed_program,
    routed_of,
    shard_program,
    stay,
    zipf_loads,
)
from coadapt.optimizer.copter.problems.shard_pricing import PairPricing
from coadapt.optimizer.highs import Highs, Method

from .arguments import at_least
from .harness import PeakMemory, finish, statements, table

KINDS = ("stateless", "stateful")
CORES = 64
APART = 0.01  # of a replica, by which costs are told apart for the engine
POP_GAP = 0.1  # of POP's published runs

# One round: an assignment, and what it took if not the CPU seconds of the call: over CORES and over two cores.
Balancer = Callable[[ShardProblem], tuple[Assignment, tuple[float, float] | None]]


@dataclass(frozen=True)
class Measured:
    """Means over the rounds that count; failed: rounds in which the method found nothing in its time.

    seconds: on CORES, two_cores_s: on two; the same but for POP. p50_s, p99_s: of those on CORES.
    all_movements: in total, of every round. peak_gib: of the process, with what methods before left in it.
    """

    movements: float
    imbalance: float
    worst_imbalance: float
    seconds: float
    p50_s: float
    p99_s: float
    two_cores_s: float
    all_movements: int
    peak_gib: float
    failed: int = 0


class Exact:
    """The integer program whole."""

    def __init__(self, limit_s: float) -> None:
        self.solver = Highs(Method.EXACT, time_limit_s=limit_s)
        self.failed = 0

    def __call__(self, problem: ShardProblem) -> tuple[Assignment, None]:
        found = self.solver.solve(shard_program(problem))
        if found.x is None:
            self.failed += 1
            return stay(problem), None
        return place(problem, routed_of(found.x, problem)), None


def heuristic(problem: ShardProblem) -> tuple[Assignment, None]:
    return greedy(problem), None


def relaxed(solver: Highs, *, keep: bool, as_stated: bool = False) -> Balancer:
    def balance(problem: ShardProblem) -> tuple[Assignment, None]:
        found = solver.solve(shard_program(problem) if as_stated else relaxed_program(problem))
        if found.x is None:
            raise RuntimeError(f"the relaxation ended {found.status}")
        placed = place(problem, routed_of(found.x, problem))
        return replace(placed, replicas=keep_idle(problem, placed.replicas)) if keep else placed, None

    return balance


def pop(k: int, limit_s: float, *, equalise: bool) -> Balancer:
    solver = Highs(Method.EXACT, time_limit_s=limit_s, gap=POP_GAP)

    def balance(problem: ShardProblem) -> tuple[Assignment, tuple[float, float]]:
        found = solve_parts(ShardPartition(problem, solver, equalise), k, cores=CORES)
        rest_s = found.seconds - makespan_s(found.part_s, CORES)
        return found.whole, (found.seconds, rest_s + makespan_s(found.part_s, 2))

    return balance


def priced(*, keep: bool) -> Balancer:
    pricing = PairPricing(keep_replicas=keep)

    def balance(problem: ShardProblem) -> tuple[Assignment, None]:
        found = pricing.solve(problem)
        if found.relaxed_gap > pricing.tolerance:
            raise RuntimeError(f"the relaxation's gap is {found.relaxed_gap}, above {pricing.tolerance}")
        return found.assignment, None

    return balance


class Continual:
    """The continual engine and the shim, told of each round's changes; the time includes telling it."""

    def __init__(self) -> None:
        from coadapt.optimizer.copter.engine import ContinualProgram

        self.program = ContinualProgram()
        self.before: ShardProblem | None = None

    def __call__(self, problem: ShardProblem) -> tuple[Assignment, None]:
        if self.before is None:
            add_shards(self.program, problem, APART)
        else:
            change_shards(self.program, self.before, problem, APART)
        self.before = problem
        routed = self.program.solve(tolerance=1e-5).values.reshape(problem.held.T.shape).T
        # A first-order solution is exact to its tolerance only: a replica of less would be an artefact.
        return place(problem, np.where(routed > 1e-4, routed, 0.0)), None


def measure(balance: Balancer, shards: int, kind: str, rounds: int, skip: int, seed: int) -> Measured:
    problem = first_problem(shards, shards // 8)
    movements, imbalances, seconds, memory = [], [], [], PeakMemory()
    loads = zipf_loads(shards, "stateless" if kind == "stateless" else "stateful", seed)
    for load in islice(loads, rounds):
        problem = replace(problem, load=load)
        began = time.process_time()
        assignment, took = balance(problem)
        cpu_s = time.process_time() - began
        if not assignment.fits(problem):
            raise RuntimeError("an assignment exceeds a server's memory or leaves a shard unserved")
        movements.append(assignment.movements(problem))
        imbalances.append(assignment.imbalance(problem))
        seconds.append(took or (cpu_s, cpu_s))
        problem = replace(problem, held=assignment.replicas)
    many, two = np.array(seconds[skip:]).T
    return Measured(
        float(np.mean(movements[skip:])),
        float(np.mean(imbalances[skip:])),
        float(np.max(imbalances[skip:])),
        float(many.mean()),
        float(np.median(many)),
        float(np.quantile(many, 0.99)),
        float(two.mean()),
        int(np.sum(movements)),
        memory.gib(),
        balance.failed if isinstance(balance, Exact) else 0,
    )


def methods(shards: int, args: argparse.Namespace) -> dict[str, tuple[str, Balancer]]:
    """Return the key in the figures -> (name in the table, a fresh balancer)."""
    k = {128: 4, 1024: 8, 2048: 16}[shards]
    made: dict[str, tuple[str, Balancer]] = {
        "heuristic": ("Heuristic (E-Store)", heuristic),
        f"pop{k}": (f"POP-{k}, groups as held", pop(k, args.part_limit, equalise=False)),
        f"pop{k}_equalised": (f"POP-{k}, groups equalised", pop(k, args.part_limit, equalise=True)),
        "lp_relaxed": ("LP-Relaxed, X = R (HiGHS)", relaxed(Highs(), keep=False)),
        "lp_relaxed_keeping": ("LP-Relaxed, idle replicas kept", relaxed(Highs(), keep=True)),
        "ours_removing": ("Ours, idle replicas removed", priced(keep=False)),
        "ours": ("Ours: priced pairs, idle replicas kept", priced(keep=True)),
    }
    if args.engine:
        made["engine"] = ("Continual engine, X = R, and shim", Continual())
    named = args.method or ()
    if shards == 128 or args.full or "exact" in named:
        made["exact"] = (f"Exact (HiGHS, {args.exact_limit:g} s)", Exact(args.exact_limit))
    if args.full or "lp_relaxed_as_stated" in named:
        made["lp_relaxed_as_stated"] = (
            "LP-Relaxed as stated (HiGHS)",
            relaxed(Highs(Method.INTERIOR_POINT), keep=False, as_stated=True),
        )
    return made


def claims(found: dict[str, Measured], shards: int) -> list[tuple[str, str, bool]]:
    """Return (the paper's statement, what was measured, whether it holds)."""
    rows = []
    allowed = 0.1 + 1e-6
    ours = found["ours"]
    if "heuristic" in found:
        greedy_ = found["heuristic"]
        next_s = min(m.seconds for k, m in found.items() if k != "heuristic")
        rows += [
            (
                "Heuristic is the quickest",
                f"{greedy_.seconds:.4f} s, next {next_s:.3f} s",
                greedy_.seconds <= next_s,
            ),
            ("Heuristic misses 10 % imbalance", f"{greedy_.imbalance:.1%}", greedy_.imbalance > allowed),
        ]
    for key, parts in found.items():
        if not key.startswith("pop"):
            continue
        name = "POP, equalised," if key.endswith("equalised") else "POP"
        if "heuristic" in found and name == "POP":
            rows.append(_fewer("POP moves less than Heuristic", parts, found["heuristic"]))
        if name == "POP":
            rows.append(("POP misses 10 % imbalance", f"{parts.imbalance:.1%}", parts.imbalance > allowed))
        if "ours_removing" in found:
            rows.append(_fewer(f"Ours moves less than {name} both removing", found["ours_removing"], parts))
        for cores, pop_s in ((CORES, parts.seconds), (2, parts.two_cores_s)):
            faster = pop_s / ours.seconds
            rows.append((f"Ours is faster than {name} on {cores} cores", f"{faster:.1f} times", faster >= 1))
    rows.append(
        ("Ours keeps 10 % imbalance", f"worst {ours.worst_imbalance:.1%}", ours.worst_imbalance <= allowed)
    )
    for mine, other, rule in (
        ("ours", "lp_relaxed_keeping", "keeping"),
        ("ours_removing", "lp_relaxed", "removing"),
    ):
        if not {mine, other} <= set(found):
            continue
        us, lp = found[mine], found[other]
        rows += [
            (
                f"LP-Relaxed, {rule}, keeps 10 % imbalance",
                f"worst {lp.worst_imbalance:.1%}",
                lp.worst_imbalance <= allowed,
            ),
            _fewer(f"Ours moves no more than LP-Relaxed, both {rule}", us, lp),
            (
                "the same from round 1",
                f"{us.all_movements} against {lp.all_movements}",
                us.all_movements <= lp.all_movements,
            ),
            (
                f"Ours is faster than LP-Relaxed, {rule}" + (", 2.8 times" if shards == 2048 else ""),
                f"{lp.seconds / us.seconds:.1f} times",
                lp.seconds / us.seconds > (2.8 if shards == 2048 else 1),
            ),
        ]
    if "exact" in found and "lp_relaxed" in found:
        exact, lp = found["exact"], found["lp_relaxed"]
        rows += [
            (
                "LP-Relaxed is 2-3 times faster than Exact",
                f"{exact.seconds / lp.seconds:.1f} times",
                exact.seconds / lp.seconds >= 2,
            ),
            (
                "LP-Relaxed and Ours move less than Exact",
                f"{lp.movements:.1f}, {ours.movements:.1f} against {exact.movements:.1f}",
                max(lp.movements, ours.movements) < exact.movements,
            ),
        ]
    return rows


def _fewer(statement: str, one: Measured, other: Measured) -> tuple[str, str, bool]:
    return statement, f"{one.movements:.1f} against {other.movements:.1f}", one.movements <= other.movements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, choices=(128, 1024, 2048), action="append", help="shards; repeatable")
    parser.add_argument("--kind", action="append", choices=KINDS, help="of loads; repeatable, by default both")
    parser.add_argument("--rounds", type=at_least(1), help="by default 8, with --full 100")
    parser.add_argument(
        "--skip", type=at_least(0), help="first rounds that do not count; by default a quarter or a fifth"
    )
    parser.add_argument("--part-limit", type=float, default=5.0, help="seconds for a part of POP")
    parser.add_argument("--exact-limit", type=float, default=10.0, help="seconds for a round of Exact")
    parser.add_argument("--method", action="append", help="such as lp_relaxed; repeatable, by default all")
    parser.add_argument("--engine", action="store_true", help="also the general continual engine, on all pairs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    if args.rounds is None:
        args.rounds = 100 if args.full else 8
    if args.skip is None:
        args.skip = args.rounds // (5 if args.full else 4)
    if args.full:
        args.part_limit, args.exact_limit = max(args.part_limit, 60.0), max(args.exact_limit, 3600.0)
    if not 0 <= args.skip < args.rounds:
        parser.error(f"--skip: is {args.skip}, not below --rounds {args.rounds}")
    figures: dict[str, float | int | str | None] = {"rounds": args.rounds, "skipped": args.skip}
    for shards in args.size or ([128, 1024, 2048] if args.full else [128, 1024]):
        servers = shards // 8
        for kind in args.kind or KINDS:
            found: dict[str, Measured] = {}
            rows = []
            every = methods(shards, args)
            unknown = set(args.method or ()) - set(every)
            if unknown:
                parser.error(f"--method: {', '.join(sorted(unknown))}; accepted here: {', '.join(every)}")
            for key, (name, balance) in every.items():
                if key not in ("ours", *(args.method or every)):
                    continue  # all else is measured against ours
                with one_thread():  # others of the linear algebra would wait for each other, and count
                    m = found[key] = measure(balance, shards, kind, args.rounds, args.skip, args.seed)
                failed = f"{m.failed} of {args.rounds} rounds without an answer" if m.failed else ""
                balanced = [f"{m.imbalance:.1%}", f"{m.worst_imbalance:.1%}"]
                times = [m.seconds, m.p50_s, m.p99_s, m.two_cores_s]
                rows.append([name, m.movements, m.all_movements, *balanced, *times, m.peak_gib, failed])
                stem = f"shards_{shards}_{kind}_{key}"
                figures[f"{stem}_movements"] = round(m.movements, 2)
                figures[f"{stem}_all_movements"] = m.all_movements
                figures[f"{stem}_imbalance"] = round(m.imbalance, 4)
                figures[f"{stem}_s"] = round(m.seconds, 4)
                figures[f"{stem}_p50_s"] = round(m.p50_s, 4)
                figures[f"{stem}_p99_s"] = round(m.p99_s, 4)
                figures[f"{stem}_peak_gib"] = round(m.peak_gib, 2)
                if key.startswith("pop"):
                    figures[f"{stem}_two_cores_s"] = round(m.two_cores_s, 4)
            table(
                f"{shards:,} shards, {servers} servers, {kind}: means of rounds {args.skip + 1} to {args.rounds}",
                [
                    *("method", "movements", "from round 1", "imbalance", "worst"),
                    *("CPU s: mean", "median", "p99", "on 2 cores", "peak GiB", ""),
                ],
                rows,
            )
            held = statements("5.2.1", claims(found, shards))
            figures |= {f"shards_{shards}_{kind}_{key}": count for key, count in held.items()}
    finish(
        "shard_balancing", figures, "CPU seconds on one thread; POP's are the makespan of its parts over 64 cores"
    )


if __name__ == "__main__":
    main()
