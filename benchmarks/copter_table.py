"""Sia's policy on clusters of 2,560, 10,240 and 25,600 GPUs: table 4.1 of the thesis on COpter (section 4.5).

    python -m benchmarks.copter_table [--scales 10,40,100] [--methods structured] [--hours H] [--out DIR]
    python -m benchmarks.copter_table --scales 40 --dump-rounds DIR --from-hour 3.4 --rounds 60

Jobs, goodputs and clusters are those of COpter's public code. There are 7 GPU types, 256 GPUs times the scale,
rounds of 60 s, and arrivals of the Alibaba-PAI trace over 24 h. Workloads of 10,000 jobs (scale 10) and 40,000
(scale 40) are published. The 100,000 of scale 100 are drawn from the 40,000 by seed. They are every job twice and
half of them once more, each copy up to 10 minutes earlier or later.

As in that code, sia runs with p = 0.5 and lambda = 1.1, so a configuration gains (r G)^p + lambda. Every job's
goodputs are off by up to 0.5 % each, drawn once. Three things differ from that code. Every job at most doubles the
GPUs it had, not only one that trains. Every change of a shape costs a restart. No configuration is larger than the
largest with a goodput.

A method is a value of sia's option `solver`. LP* of the paper is highs-ipm here, the faster of HiGHS's solvers
from scratch, with COpter's shim. POP is pop-ray, with its parts on two cores at once. Each method and scale runs
in a process of its own. What is done lies in `--out` and is not run again, and what was interrupted goes on. Times
are of this machine.

*Decided* is the time from the values of a round to whole picks, as the paper counts. It includes changes of the
program, telling it to the solver, solution and shim. *Solver* is the solution alone (of LPs without shim).
*Policy* is the whole round, which also values and places.

With --dump-rounds nothing is tabulated. The programs of `--rounds` consecutive rounds from `--from-hour` on are
written to DIR, to be solved again offline. `benchmarks/programs.py` has the format and a reader.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.core.cluster import Cluster
from coadapt.optimizer.allocation import ChoiceProgram, ChoiceSolution
from coadapt.policies.catalogue import make_policy
from coadapt.policies.choosing.allocation_round import ProgramPolicy
from coadapt.policies.choosing.solvers import AllocationSolver
from coadapt.policies.contract.round import Plan, Planner, Round
from coadapt.policies.warm_up import warm_up
from coadapt.simulator import resume
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.adaptive_tables import AdaptiveTableWorld
from coadapt.simulator.jobs.goodput_tables import read_tables, tables_of
from coadapt.simulator.results.identity import project
from coadapt.simulator.run import Simulation
from coadapt.simulator.traces.cluster_file import WHOLE, SimulatedCluster, cluster_of
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .allocation_scaling import Updates
from .arguments import at_least
from .harness import DATA, finish, needs, table
from .programs import Dumped

COPTER = DATA / "sia" / "copter-continuous-scheduling"
PUBLISHED = 40_000  # jobs of the workload from which others are drawn
OUT = Path(__file__).resolve().parents[1] / "out" / "copter_table"
BASE = {
    "azure": (6, 8), "aws": (8, 4), "dgx-ext": (4, 8), "quad": (8, 4), "rtx": (6, 8), "a10-pcie": (8, 4),
    "a100-pcie": (8, 4),
}  # fmt: skip
FIGURES = (
    "mean_jct_h", "makespan_h", "policy_p99_s", "decided_p50_s", "decided_p99_s", "solver_p50_s", "solver_p99_s",
    "most_pairs", "worst_gap", "peak_gib",
)  # fmt: skip
FROM_SCRATCH = ("highs", "highs-ipm", "highs-pdlp")  # HiGHS' solvers of LPs that nothing of the last round helps
JOBS = {2: 2_000, 10: 10_000, 40: 40_000, 100: 100_000}  # by scale
POLICY: dict[str, Any] = {"p": 0.5, "lambda": 1.1}
NOISE = 0.005
ROUND_S = 60.0
JITTER_S = 600.0
# Mean JCT and makespan in hours, 99th percentile of the solve time in seconds: LP*, POP and COpter of the table.
PAPER = {
    (40, "highs-ipm"): (0.35, 29.3, 233.4),
    (40, "pop"): (0.41, 31.0, 2.9),
    (40, "continual"): (0.36, 29.4, 6.5),
    (100, "highs-ipm"): (0.35, 29.3, 2277.0),
    (100, "pop"): (0.39, 30.9, 66.5),
    (100, "continual"): (0.36, 29.4, 40.3),
}


def cluster(scale: int) -> Cluster:
    return cluster_of(", ".join(f"{count * scale}x {t}:{gpus}" for t, (count, gpus) in BASE.items()))


def workload(jobs: int, seed: int) -> Workload:
    """Return the first published workload of so many jobs, or one drawn from the largest; ValueError: none."""
    published = COPTER / "workloads" / f"{jobs // 1000}kjobs_24hrs_pai" / "workload-1.csv"
    if jobs == PUBLISHED or published.exists():
        return read_trace(published)
    return drawn(workload(PUBLISHED, seed), jobs, seed)


def drawn(base: Workload, jobs: int, seed: int) -> Workload:
    """Draw whole copies of `base` and a part of another, without repeating a job in it; each time jittered."""
    rng = np.random.default_rng((seed, jobs))
    copies, rest = divmod(jobs, len(base))
    part = np.sort(rng.choice(len(base), rest, replace=False))
    at = np.concatenate([*[np.arange(len(base))] * copies, part])
    copy = np.concatenate([np.repeat(np.arange(copies), len(base)), np.full(rest, copies)])
    taken = base.select(at)
    submit_s = np.clip(taken.submit_s + rng.uniform(-JITTER_S, JITTER_S, jobs), 0.0, base.submit_s.max())
    ids = tuple(f"{id}+{k}" for id, k in zip(taken.ids, copy.tolist(), strict=True))
    return replace(taken, ids=ids, submit_s=submit_s).select(np.argsort(submit_s, kind="stable"))


UPDATES = Updates()


@dataclass
class Decided:
    """A solver, and the seconds that its last round took to be decided."""

    solver: AllocationSolver
    seconds: float = 0.0

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        changes_s = UPDATES.take()
        found = self.solver.solve(program, order, gap, time_limit_s)
        self.seconds = changes_s + found.seconds
        UPDATES.take()  # of programs that the solver makes itself: these are in its seconds
        return found


@dataclass
class Recorded:
    """A policy and what its rounds were: seconds, active jobs, variables, and how far from the optimum."""

    policy: ProgramPolicy
    rounds: list[tuple[float, ...]] = field(default_factory=list)

    COLUMNS = ("now_s", "jobs", "pairs", "policy_s", "decided_s", "solver_s", "gap")

    def __post_init__(self) -> None:
        self.decided = self.policy._solver = Decided(self.policy._solver)

    def plan(self, round: Round) -> Plan:
        began = time.perf_counter()
        plan = self.policy.plan(round)
        took_s = time.perf_counter() - began
        pairs = len(round.jobs) * len(plan.configurations or ())
        # What the policy changes behind the solution belongs to this round, not to the next one.
        decided_s, self.decided.seconds = self.decided.seconds + UPDATES.take(), 0.0
        self.rounds.append((round.now, len(round.jobs), pairs, took_s, decided_s, plan.solver_s, plan.gap))
        return plan


def simulation(jobs: Workload, scale: int, policy: Planner, seed: int) -> Simulation:
    tables = read_tables(COPTER / "profiles")

    def engine(part: Workload, on: Cluster) -> Engine:
        world = AdaptiveTableWorld(part, tables_of(part, tables), on.gpu_types, NOISE, seed)
        return Engine(world, on, policy, Timing(ROUND_S))

    return Simulation(jobs, SimulatedCluster({WHOLE: cluster(scale)}), engine)


def sia(options: Mapping[str, Any]) -> ProgramPolicy:
    policy = make_policy("sia", **options)
    assert isinstance(policy, ProgramPolicy)
    return policy


def options_of(method: str, gap: float, time_limit_s: float) -> dict[str, Any]:
    return {**POLICY, "solver": method, "gap": gap, "time_limit_s": time_limit_s}


@dataclass(frozen=True)
class Run:
    """One method on one scale, and the folder of what came of it."""

    scale: int
    method: str
    hours: float | None  # None: all jobs
    seed: int
    gap: float
    time_limit_s: float
    out: Path

    @property
    def folder(self) -> Path:
        part = "" if self.hours is None else f"-{self.hours:g}h"
        return self.out / f"{self.scale}-{self.method}-{self.seed}{part}"

    @property
    def done(self) -> Path:
        return self.folder / "figures.json"

    @property
    def is_done(self) -> bool:
        """Return whether it was run with these options; what was run with others is run again."""
        return self.done.exists() and self.about().items() <= json.loads(self.done.read_text()).items()

    def about(self) -> dict[str, Any]:
        return {"scale": self.scale, "method": self.method, "hours": self.hours, "seed": self.seed} | {
            "options": options_of(self.method, self.gap, self.time_limit_s)
        }

    def run(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        point = self.folder / resume.NAME
        about = self.about()
        jobs = workload(JOBS[self.scale], self.seed)
        if self.hours is not None:
            jobs = jobs.select(jobs.submit_s < self.hours * 3600)
        warm_up("sia", about["options"])  # or the first rounds' time limits pass with compiling
        policy = Recorded(sia(about["options"]))
        make = partial(simulation, jobs, self.scale, policy, self.seed)
        try:
            began = resume.read(point, about) if point.exists() else make()
        except ValueError:  # of other code: what is measured is measured with one version
            point.unlink()
            began = make()
        with UPDATES.watching(ChoiceProgram):
            simulated = _finished(began, point, about)
        outcome, recorded = simulated.outcome(), _recorded(simulated)
        rounds = np.array(recorded.rounds)
        columns: dict[str, Any] = {name: rounds[:, i] for i, name in enumerate(Recorded.COLUMNS)}
        np.savez_compressed(self.folder / "rounds.npz", **columns)
        peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        figures = {**figures_of(outcome, rounds), "peak_gib": peak_gib, "made_by": project(), **about}
        self.done.write_text(json.dumps(figures, indent=1))
        point.unlink(missing_ok=True)


def _finished(simulated: Simulation, point: Path, about: dict[str, Any]) -> Simulation:
    """Run it to its end, writing resume points on the way, and how far it is on stderr."""
    began = time.perf_counter()
    wait_s, written = 60.0, began
    rounds = 0
    while simulated.step():
        rounds += 1
        if (now := time.perf_counter()) - written >= wait_s:
            resume.write(simulated, point, about)
            written = time.perf_counter()
            wait_s = max(60.0, 20 * (written - now))
            print(f"  {rounds} rounds in {now - began:.0f} s: {simulated.progress()}", file=sys.stderr, flush=True)
    return simulated


def _recorded(simulated: Simulation) -> Recorded:
    policy = simulated.engines[0].policy
    if not isinstance(policy, Recorded):
        raise ValueError(f"resume point: its policy is {type(policy).__name__}, not Recorded")
    return policy


def figures_of(outcome: Outcome, rounds: np.ndarray) -> dict[str, float]:
    """Return hours and seconds: of rounds the 99th percentiles, and of the largest program."""
    jobs, pairs, policy_s, decided_s, solver_s, gap = rounds[:, 1:].T
    return {
        "jobs": float(len(outcome.workload)),
        "mean_jct_h": float(outcome.jct_s.mean() / 3600),
        "makespan_h": outcome.makespan_s / 3600,
        "restarts_per_job": float(outcome.restarts.mean()),
        "rounds": float(len(rounds)),
        "most_active": float(jobs.max()),
        "most_pairs": float(pairs.max()),
        "policy_p50_s": float(np.median(policy_s)),
        "policy_p99_s": float(np.percentile(policy_s, 99)),
        "policy_max_s": float(policy_s.max()),
        "decided_p50_s": float(np.median(decided_s)),
        "decided_p99_s": float(np.percentile(decided_s, 99)),
        "decided_max_s": float(decided_s.max()),
        "solver_p50_s": float(np.median(solver_s)),
        "solver_p99_s": float(np.percentile(solver_s, 99)),
        "mean_gap": float(np.mean(gap)),
        "worst_gap": float(np.max(gap)),
    }


def dump(args: argparse.Namespace) -> None:
    """Write jobs from `--skip-hours` on, until so many rounds from `--from-hour` on are written."""
    scale, method = args.scales[0], args.methods[0]
    args.dump_rounds.mkdir(parents=True, exist_ok=True)
    every = workload(JOBS[scale], args.seed)
    jobs = every.select(every.submit_s >= args.skip_hours * 3600)
    policy = Dumped(
        make_policy("sia", **options_of(method, args.gap, args.time_limit_s)),
        args.dump_rounds,
        args.every,
        args.from_hour * 3600,
    )
    simulated = simulation(jobs, scale, policy, args.seed)
    while policy.written < args.rounds and simulated.step():
        pass
    print(f"{policy.written} rounds in {args.dump_rounds}")


def main() -> None:
    numbers, names = (lambda text: [int(s) for s in text.split(",")]), (lambda text: text.split(","))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scales", type=numbers, default=[10, 40, 100], help="of 2, 10, 40 and 100")
    parser.add_argument("--methods", type=names, default=["structured"], help="values of sia's option solver")
    parser.add_argument("--hours", type=float, help="only the jobs submitted until then")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gap", type=float, default=1e-3, help="relative, of exact and structured solvers")
    parser.add_argument("--time-limit-s", type=float, default=5.0, help="of what searches in a round")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--dump-rounds", type=Path, metavar="DIR")
    parser.add_argument("--every", type=at_least(1), default=1)
    parser.add_argument("--skip-hours", type=float, default=0.0, help="leave out jobs submitted before")
    parser.add_argument("--from-hour", type=float, default=0.0, help="of the first round that is written")
    parser.add_argument("--rounds", type=at_least(1), default=60, help="that are written")
    parser.add_argument("--here", action="store_true", help="run in this process, and print no table")
    args = parser.parse_args()
    unknown = [scale for scale in args.scales if scale not in JOBS]
    if unknown:
        parser.error(f"--scales: {unknown[0]}; accepted: {', '.join(map(str, JOBS))}")
    for method in args.methods:
        try:
            make_policy("sia", **options_of(method, args.gap, args.time_limit_s))
        except ValueError as error:
            parser.error(f"--methods: {method}: {error}")
    needs(COPTER)
    if args.dump_rounds:
        dump(args)
        return
    runs = [
        Run(scale, method, args.hours, args.seed, args.gap, args.time_limit_s, args.out)
        for scale in args.scales
        for method in args.methods
    ]
    for run in runs:
        if run.is_done:
            continue
        if args.here:
            run.run()
        else:
            own = ["--scales", str(run.scale), "--methods", run.method, "--here"]
            own += [] if run.hours is None else ["--hours", str(run.hours)]
            own += ["--seed", str(run.seed), "--gap", str(run.gap), "--time-limit-s", str(run.time_limit_s)]
            own += ["--out", str(run.out)]
            child = subprocess.run([sys.executable, "-m", "benchmarks.copter_table", *own], check=False)
            if child.returncode:  # it has told why
                sys.exit(child.returncode)
    if not args.here:
        report(runs)


def compared(found: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return how methods of one scale stand to each other, by name; only what was run.

    * `next_over_structured_*`: time of the fastest other method over that of structured.
    * `peer_over_structured_*`: the same of the fastest that is not ours.
    * `scratch_over_continual_*`: HiGHS from scratch over the general engine.
    * `*_over_lp`: hours over those of LP*.
    """
    peers = [name for name in found if name not in ("structured", "continual")]
    sides = {
        "next_over_structured": ([name for name in found if name != "structured"], "structured"),
        "peer_over_structured": (peers, "structured"),
        "scratch_over_continual": ([name for name in FROM_SCRATCH if name in found], "continual"),
    }
    figures = {}
    for name, (others, ours) in sides.items():
        if ours in found and others:
            for key in ("solver_p50_s", "solver_p99_s", "decided_p50_s", "decided_p99_s"):
                least = min(found[other][key] for other in others)
                figures[f"{name}_{key.removesuffix('_s')}"] = least / found[ours][key]
    if "structured" in found and "highs-ipm" in found:
        for key in ("mean_jct", "makespan"):
            figures[f"structured_{key}_over_lp"] = found["structured"][f"{key}_h"] / found["highs-ipm"][f"{key}_h"]
    return figures


def report(runs: list[Run]) -> None:
    rows: list[list[Any]] = []
    figures: dict[str, float | None] = {}
    by_scale: dict[int, dict[str, Any]] = {}
    for run in runs:
        found = json.loads(run.done.read_text())
        by_scale.setdefault(run.scale, {})[run.method] = found
        paper = PAPER.get((run.scale, run.method.removesuffix("-ray")), ("", "", ""))
        rows.append([
            run.scale * 256, int(found["jobs"]), run.method,
            found["mean_jct_h"], paper[0], found["makespan_h"], paper[1],
            found["decided_p50_s"], found["decided_p99_s"], paper[2], found["solver_p50_s"], found["solver_p99_s"],
            found["policy_p99_s"],
            int(found["most_active"]), int(found["most_pairs"]), found["mean_gap"], found["worst_gap"],
            found["peak_gib"],
        ])  # fmt: skip
        name = f"{run.scale}_{run.method}"
        for key in FIGURES:
            # POP proves nothing, and JSON has no infinity.
            figures[f"{name}_{key}"] = float(f"{found[key]:.4g}") if np.isfinite(found[key]) else None
    columns = ["GPUs", "jobs", "method", "mean JCT h", "paper", "makespan h", "paper", "decided p50 s"]
    columns += ["decided p99 s", "paper", "solver p50 s", "solver p99 s", "policy p99 s", "most active"]
    columns += ["most pairs", "mean gap", "worst gap", "peak GiB"]
    table("Sia's policy in rounds of 60 s (COpter, table 4.1)", columns, rows)
    times = [(scale, *pair) for scale, methods in by_scale.items() for pair in compared(methods).items()]
    figures |= {f"{scale}_{name}": float(f"{value:.4g}") for scale, name, value in times}
    if times:
        ratios = [[scale * 256, name.replace("_", " "), value] for scale, name, value in times]
        table("How methods stand to each other", ["GPUs", "", "times"], ratios)
    made_by = {found["made_by"] for methods in by_scale.values() for found in methods.values()}
    other = "" if made_by == {project()} else f"some runs are of other code; remove them from {runs[0].out.name}"
    threads = "one thread, two for continual; parts of pop by turns, of pop-ray on two cores"
    finish("copter_table", figures, "; ".join(filter(None, (threads, other))))


if __name__ == "__main__":
    main()
