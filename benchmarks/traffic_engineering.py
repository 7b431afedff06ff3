"""Traffic engineering, every bar of COpter's figures 5.5 and 5.6: total flow, runtime and gap of each method.

    python -m benchmarks.traffic_engineering [--topology kdl] [--matrix bimodal] [--demands 30000] [--full]

Four edge-disjoint shortest paths per demand, as in Teal; demands change by up to 10 % a round. Kdl and ASN are
random graphs of their sizes and distances (`copter/problems/topology.py`), or a Topology Zoo file: --graphml. The
paths are found once, before the rounds. --demands takes a random part of all pairs of nodes, at the same load of
the network. POP relies on demands that are small relative to a part's capacities. It is judged with the paper's 64
and 128 parts. On a sample it is also shown with fewer parts, so that each has as many demands as it would have of
all pairs.

--full takes all pairs, 568 thousand of Kdl and 3 million of ASN, for 20 rounds, of which the first 5 do not count.
It includes LP-All only if --lp-all is given too. HiPO (of `pip install highspy-extras`) solves it if --lp-by says
so. Only HiPO ends on all of Kdl's Bimodal demands. --method and --rounds choose less.

POP and LPs from scratch remember nothing of a round, so they are solved only in rounds that count. Ours is shown
to --tolerance and, as ours_loose, to ten times that, which shows what it allocates in the least time. Time is CPU
time of a round, so that load blurs it little. HiGHS has one thread, and the time of ours is over all --threads.
The time of POP is the makespan of its parts over 64 cores, as the paper estimates it, and also over two.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from coadapt.estimators.blas import one_thread
from coadapt.optimizer.copter.baselines.pop import makespan_s, solve_parts
from coadapt.optimizer.copter.problems.continual import add_traffic, change_traffic
from coadapt.optimizer.copter.problems.path_flow import PathFlow
from coadapt.optimizer.copter.problems.paths import Paths, edge_disjoint_paths
from coadapt.optimizer.copter.problems.topology import Topology, asn_like, kdl_like, read_graphml
from coadapt.optimizer.copter.problems.traffic_engineering import (
    TrafficPartition,
    TrafficProblem,
    fill,
    perturbed,
    scaled_to_load,
    top_and_pinned,
    traffic_matrix,
    traffic_program,
)
from coadapt.optimizer.highs import Highs, Method

from .arguments import at_least, file
from .harness import PeakMemory, finish, statements, table

PATHS = 4
CORES = 64
PARTS = {"kdl": 64, "asn": 128}
REMEMBER = {"ours", "ours_loose", "engine"}  # of the methods those that begin where the round before ended
LOOSER = 10.0  # how many times wider the gap of "ours_loose" may be, which looks for its end twice as often

# One round: a flow (paths,), and what it took over CORES and two cores where that is not the call's CPU seconds.
Router = Callable[[TrafficProblem], tuple[np.ndarray, tuple[float, float] | None]]


@dataclass(frozen=True)
class Measured:
    """flow: total of each round that counts; seconds: likewise; first_s: of the first round that was solved.

    two_cores_s: what differs from `seconds` for POP alone.
    peak_gib: of the process, with demands, paths and what methods before left in it.
    """

    flow: np.ndarray
    seconds: np.ndarray
    two_cores_s: np.ndarray
    first_s: float
    peak_gib: float


def lp_all(method: Method, limit_s: float) -> Router:
    """Solve the whole program by interior point, which is far faster than simplex; without crossover."""
    solver = Highs(method, crossover=False, time_limit_s=limit_s)

    def route(problem: TrafficProblem) -> tuple[np.ndarray, None]:
        found = solver.solve(traffic_program(problem))
        return fill(problem, np.zeros(problem.paths.count) if found.x is None else found.x), None

    return route


def lp_top(*, pinned_first: bool) -> Router:
    solver = Highs(Method.INTERIOR_POINT, crossover=False)

    def route(problem: TrafficProblem) -> tuple[np.ndarray, None]:
        return top_and_pinned(problem, solver, pinned_first=pinned_first), None

    return route


def pop(k: int) -> Router:
    solver = Highs(Method.INTERIOR_POINT, crossover=False)
    seeds = iter(range(10**6))  # new random parts every round

    def route(problem: TrafficProblem) -> tuple[np.ndarray, tuple[float, float]]:
        found = solve_parts(TrafficPartition(problem, solver), k, seed=next(seeds), cores=CORES)
        rest_s = found.seconds - makespan_s(found.part_s, CORES)
        return found.whole, (found.seconds, rest_s + makespan_s(found.part_s, 2))

    return route


def ours(tolerance: float, threads: int, *, warm: bool, check: int = 20) -> Router:
    solver = PathFlow(tolerance=tolerance, threads=threads, warm=warm, check=check)

    def route(problem: TrafficProblem) -> tuple[np.ndarray, None]:
        found = solver.solve(problem)
        if found.gap > tolerance:
            raise RuntimeError(f"the gap is {found.gap}, above {tolerance}, after {found.passes} passes")
        return found.flow, None

    return route


class Continual:
    """The general continual engine, told of each round's demands; the time includes telling it."""

    def __init__(self, tolerance: float, threads: int) -> None:
        from coadapt.optimizer.copter.engine import ContinualProgram

        self.program, self.tolerance, self.threads = ContinualProgram(), tolerance, threads
        self.before: TrafficProblem | None = None

    def __call__(self, problem: TrafficProblem) -> tuple[np.ndarray, None]:
        if self.before is None:
            add_traffic(self.program, problem)
        else:
            change_traffic(self.program, self.before, problem)
        self.before = problem
        found = self.program.solve(tolerance=self.tolerance, threads=self.threads)
        return fill(problem, found.values), None


def measure(
    route: Router, first: TrafficProblem, rounds: int, skip: int, seed: int, *, remembers: bool = True
) -> Measured:
    """Measure the rounds after the first `skip`, in which a method that remembers nothing is not asked either."""
    flows, seconds, unasked, memory = [], [], 0 if remembers else skip, PeakMemory()
    for demand in islice(perturbed(first.demand, seed), unasked, rounds):
        problem = TrafficProblem(demand, first.capacity, first.paths)
        began = time.process_time()
        flow, took = route(problem)
        cpu_s = time.process_time() - began
        if problem.excess(flow) > 1e-9:
            raise RuntimeError(f"a flow exceeds a demand or capacity by {problem.excess(flow)}")
        flows.append(float(flow.sum()))
        seconds.append(took or (cpu_s, cpu_s))
    many, two = np.array(seconds).T
    counted = slice(skip - unasked, None)
    return Measured(np.array(flows[counted]), many[counted], two[counted], float(many[0]), memory.gib())


def demands_of(topology: Topology, count: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (source, target) of `count` random pairs of nodes, or of all of them."""
    pairs = topology.nodes * (topology.nodes - 1)
    rng = np.random.default_rng(seed)
    every = count is None or count >= pairs
    some = np.arange(pairs) if every else np.sort(rng.choice(pairs, count, replace=False))
    source, target = some // (topology.nodes - 1), some % (topology.nodes - 1)
    return source.astype(np.int32), (target + (target >= source)).astype(np.int32)


def compile_kernels() -> None:
    """Compile what numba compiles on first use, which is no part of any time."""
    small = Topology(3, np.array([0, 1, 2]), np.array([1, 2, 0]), np.ones(3))
    source, target = np.array([0, 1], dtype=np.int32), np.array([2, 0], dtype=np.int32)
    problem = TrafficProblem(np.ones(2), small.capacity, edge_disjoint_paths(small, source, target, PATHS))
    PathFlow(max_passes=20).solve(problem)


def claims(found: dict[str, Measured], name: str, matrix: str) -> list[tuple[str, str, bool]]:
    """Return (the paper's statement, what was measured, whether it holds), of the methods that were run."""
    flow = {key: float(m.flow.mean()) for key, m in found.items()}
    time_s = {key: float(m.seconds.mean()) for key, m in found.items()}
    best = flow.get("lp_all", flow["ours"])
    against = "LP-All" if "lp_all" in flow else "ours"
    k, rows = PARTS[name], []
    if "lp_top" in flow:
        top = flow["lp_top"] / best
        if matrix == "bimodal":
            rows.append(("LP-Top fails to allocate above 90 %", f"{top:.2%} of {against}", top <= 0.9))
        elif name == "kdl":
            rows.append(("LP-Top allocates as much as LP-All", f"{top:.2%} of {against}", top > 0.99))
        else:
            rows.append(("LP-Top reaches only 90 % of COpter (ours)", f"{top:.2%} of {against}", top < 0.95))
    if f"pop{k}" in flow:
        parts_flow, parts_s = flow[f"pop{k}"], time_s[f"pop{k}"]
        two_s, more = float(found[f"pop{k}"].two_cores_s.mean()), flow["ours"] / parts_flow - 1
        if matrix == "poisson":
            share = parts_flow / best
            rows.append((f"POP-{k} allocates above 99 %", f"{share:.2%} of {against}", share > 0.99))
        elif name == "asn":
            rows.append((f"Ours allocates 1.5 % more than POP-{k}", f"{more:.2%}", more >= 0.015))
            faster = parts_s / time_s["ours"]
            rows.append((f"Ours is 30 times faster than POP-{k}", f"{faster:.2f} times", faster >= 30))
        rows.append((f"Ours allocates more than POP-{k}", f"{more:+.2%}", more > 0))
        for cores, pop_s in ((CORES, parts_s), (2, two_s)):
            faster = pop_s / time_s["ours"]
            rows.append((f"Ours is faster than POP-{k} on {cores} cores", f"{faster:.2f} times", faster >= 1))
        if "ours_loose" in flow:
            more, faster = flow["ours_loose"] / parts_flow - 1, parts_s / time_s["ours_loose"]
            rows.append(
                (
                    f"Ours to the wider gap: more than POP-{k}, and faster on {CORES} cores",
                    f"{more:+.2%}, {faster:.2f} times",
                    more > 0 and faster >= 1,
                )
            )
    if "lp_all" in flow:
        share = flow["ours"] / flow["lp_all"]
        rows.append(("Ours allocates above 99.9 % of optimal", f"{share:.3%}", share > 0.999 - 1e-6))
        faster = time_s["lp_all"] / time_s["ours"]
        rows.append(("Ours is faster than LP-All", f"{faster:.1f} times", faster > 1))
    if "lp_all" in flow and "lp_top" in flow and name == "kdl":
        times, faster = 100 if matrix == "poisson" else 10, time_s["lp_all"] / time_s["lp_top"]
        rows.append((f"LP-Top is {times} times faster than LP-All", f"{faster:.1f} times", faster >= times))
    others = [value for key, value in flow.items() if not key.startswith("ours") and key != "lp_all"]
    if name == "asn" and others:
        ahead = flow["ours"] / max(others) - 1
        rows.append(("Ours allocates most but for LP-All", f"{ahead:+.2%} on the next", ahead > 0))
    rows.append(("Ours runs within a minute", f"{time_s['ours']:.2f} s", time_s["ours"] < 60))
    return rows


def find_paths(name: str, topology: Topology, source: np.ndarray, target: np.ndarray, threads: int) -> Paths:
    began = time.perf_counter()
    paths = edge_disjoint_paths(topology, source, target, PATHS, threads)
    print(
        f"{name}: {topology.nodes:,} nodes, {topology.edges:,} edges; {len(source):,} demands of "
        f"{topology.nodes * (topology.nodes - 1):,}, {paths.count:,} paths of {len(paths.edge) / paths.count:.1f} "
        f"hops, found in {time.perf_counter() - began:.1f} s",
        flush=True,
    )
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", choices=("kdl", "asn"), action="append", help="repeatable; default both")
    parser.add_argument("--matrix", choices=("poisson", "bimodal"), action="append", help="repeatable")
    parser.add_argument("--graphml", type=file, help="a Topology Zoo file in place of Kdl")
    parser.add_argument("--demands", type=at_least(1), default=30_000)
    parser.add_argument("--rounds", type=at_least(1), help="by default 3, with --full 20")
    parser.add_argument(
        "--skip", type=at_least(0), help="first rounds that do not count; by default a third or a quarter"
    )
    parser.add_argument("--load", type=float, default=0.7, help="of all capacity, if all took shortest paths")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="gap of ours")
    parser.add_argument("--threads", type=at_least(1), default=2)
    parser.add_argument("--lp-all", action="store_true", help="LP-All also with --full")
    parser.add_argument("--lp-limit", type=float, default=600.0, help="seconds for a round of LP-All")
    parser.add_argument("--lp-by", choices=("ipm", "hipo"), default="ipm", help="LP-All's interior point method")
    parser.add_argument("--method", action="append", help="such as ours or pop64; repeatable, by default all")
    parser.add_argument("--engine", action="store_true", help="also the general continual engine")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true", help="all demands, 20 rounds, 5 of them skipped")
    args = parser.parse_args()
    if args.full:
        args.demands = None
    if args.rounds is None:
        args.rounds = 20 if args.full else 3
    if args.skip is None:
        args.skip = args.rounds // (4 if args.full else 3)
    if not 0 <= args.skip < args.rounds:
        parser.error(f"--skip: is {args.skip}, not below --rounds {args.rounds}")
    try:
        Highs(Method(args.lp_by))
    except ValueError as error:
        parser.error(f"--lp-by: {error}")
    compile_kernels()
    figures: dict[str, float | int | str | None] = {"rounds": args.rounds, "skipped": args.skip}
    for name in args.topology or ["kdl", "asn"]:
        if name == "kdl":
            topology = kdl_like(args.seed) if args.graphml is None else read_graphml(args.graphml)
        else:
            topology = asn_like(args.seed)
        source, target = demands_of(topology, args.demands, args.seed)
        paths = find_paths(name, topology, source, target, args.threads)
        figures[f"te_{name}_demands"] = len(source)
        for matrix in args.matrix or ["poisson", "bimodal"]:
            volumes = traffic_matrix(topology, matrix, source, target, args.seed)
            problem = scaled_to_load(TrafficProblem(volumes, topology.capacity, paths), args.load)
            k = PARTS[name]
            few = max(2, round(k * len(source) / (topology.nodes * (topology.nodes - 1))))
            routers: dict[str, tuple[str, Router]] = {
                "ours": (f"Ours, warm, to {args.tolerance:g}", ours(args.tolerance, args.threads, warm=True)),
            }
            looser = LOOSER * args.tolerance
            routers["ours_loose"] = (
                f"Ours, warm, to {looser:g}",
                ours(looser, args.threads, warm=True, check=10),
            )
            routers["ours_cold"] = ("Ours, cold every round", ours(args.tolerance, args.threads, warm=False))
            routers["lp_top"] = ("LP-Top (10 %)", lp_top(pinned_first=False))
            routers["lp_top_pinned_first"] = ("LP-Top, pinned first", lp_top(pinned_first=True))
            routers[f"pop{k}"] = (f"POP-{k}", pop(k))
            if few != k:
                routers[f"pop{few}"] = (f"POP-{few}, as many demands a part", pop(few))
            if args.engine:
                routers["engine"] = ("Continual engine", Continual(args.tolerance, args.threads))
            if not args.full or args.lp_all:
                routers["lp_all"] = (f"LP-All (HiGHS {args.lp_by})", lp_all(Method(args.lp_by), args.lp_limit))
            unknown = set(args.method or ()) - set(routers)
            if unknown:
                parser.error(f"--method: {', '.join(sorted(unknown))}; accepted here: {', '.join(routers)}")
            # All else is measured against ours.
            routers = {key: it for key, it in routers.items() if key in ("ours", *(args.method or routers))}
            with one_thread():  # others of the linear algebra would wait for each other, and count
                found: dict[str, Measured] = {}
                for key, (label, route) in routers.items():
                    found[key] = measure(
                        route, problem, args.rounds, args.skip, args.seed, remembers=key in REMEMBER
                    )
                    print(f"{name}, {matrix}: {label}: {found[key].seconds.mean():.3g} s a round", flush=True)
            best = found.get("lp_all", found["ours"]).flow
            rows = []
            for key, m in found.items():
                gap = float((1 - m.flow / best).mean())
                total, seconds, two_s = (float(a.mean()) for a in (m.flow, m.seconds, m.two_cores_s))
                p50_s, p99_s = float(np.median(m.seconds)), float(np.quantile(m.seconds, 0.99))
                times = [seconds, p50_s, p99_s, two_s, m.first_s]
                rows.append([routers[key][0], f"{total:,.1f}", f"{gap:.3%}", *times, m.peak_gib])
                stem = f"te_{name}_{matrix}_{key}"
                figures[f"{stem}_flow"] = round(total, 1)
                figures[f"{stem}_gap"] = round(gap, 6)
                figures[f"{stem}_s"] = round(seconds, 3)
                figures[f"{stem}_p50_s"] = round(p50_s, 3)
                figures[f"{stem}_p99_s"] = round(p99_s, 3)
                figures[f"{stem}_peak_gib"] = round(m.peak_gib, 2)
                if key.startswith("pop"):
                    figures[f"{stem}_two_cores_s"] = round(two_s, 3)
                figures[f"{stem}_first_s"] = round(m.first_s, 3)
            volume = f"{len(source):,} demands of {problem.demand.sum():,.0f} units of flow in all"
            gap_to = f"gap to {'LP-All' if 'lp_all' in found else 'ours'}"
            table(
                f"{name}, {matrix}: {volume}, means of rounds {args.skip + 1} to {args.rounds}",
                [
                    "method",
                    "total flow",
                    gap_to,
                    "CPU s: mean",
                    "median",
                    "p99",
                    "on 2 cores",
                    "first",
                    "peak GiB",
                ],
                rows,
            )
            held = statements("5.2.2", claims(found, name, matrix))
            figures |= {f"te_{name}_{matrix}_{key}": count for key, count in held.items()}
    finish(
        "traffic_engineering",
        figures,
        f"CPU seconds, ours on {args.threads} thread(s), HiGHS on one; POP's: makespan of its parts over 64 cores",
    )


if __name__ == "__main__":
    main()
