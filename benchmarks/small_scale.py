"""Policy `sia` on 64 GPUs: the structured solver against HiGHS, over whole traces.

    python -m benchmarks.small_scale [--first 1] [--traces GLOB] [--processes 2]

The traces are those of Sia's evaluation that lie beside the checkout: Philly, Helios' Saturn and newTrace. They
run on its cluster of 64 GPUs of three types, from measured profiles. All solve each round to a gap of 1e-4. `ilp`
is HiGHS with the whole integer program, and `milp` is HiGHS with what the reduced costs of the LP leave open of
it.

* `mean_jct_ratio`: structured over ilp, of means over the traces; `mean_jct_ratio_milp`: over milp.
* `policy_time_ratio`: the same of the seconds of all rounds together, with goodput, program and placement;
  `policy_cpu_ratio`: of the CPU's seconds, which do not depend on what else the machine does.
* `solver_time_ratio`: of the solvers alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from coadapt.policies.contract.round import Plan, Planner, Round
from coadapt.policies.warm_up import warm_up
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.replay import baseline_of, kept, simulation
from coadapt.simulator.run import Simulation
from coadapt.simulator.traces.readers import read_trace

from .arguments import at_least
from .better_than_sia import SETS, SIA, name_of, traces_of, world
from .harness import finish, needs, table

SOLVERS = ("structured", "milp", "ilp")


@dataclass
class Timed:
    """A policy, and of each of its rounds the clock's and the CPU's seconds, and those of its solver.

    Models are fitted before the clock starts. The live service fits them as jobs report, whatever solves the
    round.
    """

    policy: Planner
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    solver_s: list[float] = field(default_factory=list)
    gap: float = 0.0  # the largest

    def plan(self, round: Round) -> Plan:
        round = replace(round, jobs=list(round.jobs))
        began, cpu = time.perf_counter(), time.process_time()
        plan = self.policy.plan(round)
        self.seconds.append(time.perf_counter() - began)
        self.cpu_s.append(time.process_time() - cpu)
        self.solver_s.append(plan.solver_s)
        self.gap = max(self.gap, plan.gap)
        return plan


@dataclass(frozen=True)
class Measured:
    mean_jct_h: float
    restarts: float
    seconds: np.ndarray  # (rounds,)
    cpu_s: np.ndarray
    solver_s: np.ndarray
    gap: float


def prepared(trace: Path, solver: str) -> tuple[Simulation, Timed]:
    nodes, source = world(SIA / "traces")
    made = simulation(read_trace(trace), nodes, "sia", {"solver": solver}, source, Conditions(Timing()))
    (engine,) = made.engines
    timed = Timed(engine.policy)
    engine.policy = timed
    return made, timed


def run(trace: Path, solver: str) -> Measured:
    warm_up("sia", {"solver": solver})
    made, timed = prepared(trace, solver)
    outcome = made.run()
    figures = kept(solver, outcome, baseline_of(world(SIA / "traces")[1]), {}).figures()
    return Measured(
        figures["mean_jct_h"],
        figures["restarts_per_job"],
        np.array(timed.seconds),
        np.array(timed.cpu_s),
        np.array(timed.solver_s),
        timed.gap,
    )


def row(label: str, runs: Sequence[Measured]) -> list[object]:
    seconds = np.concatenate([m.seconds for m in runs])
    return [
        label,
        float(np.mean([m.mean_jct_h for m in runs])),
        float(np.mean([m.restarts for m in runs])),
        len(seconds),
        float(seconds.sum()),
        1e3 * float(np.median(seconds)),
        1e3 * float(np.percentile(seconds, 99)),
        1e3 * float(np.mean(np.concatenate([m.cpu_s for m in runs]))),
        1e3 * float(np.median(np.concatenate([m.solver_s for m in runs]))),
        max(m.gap for m in runs),
    ]


def ratios(ours: Sequence[Measured], theirs: Sequence[Measured]) -> dict[str, float]:
    def total(name: str) -> float:
        return float(sum(getattr(m, name).sum() for m in ours) / sum(getattr(m, name).sum() for m in theirs))

    jct = np.mean([m.mean_jct_h for m in ours]) / np.mean([m.mean_jct_h for m in theirs])
    return {
        "mean_jct_ratio": round(float(jct), 5),
        "policy_time_ratio": round(total("seconds"), 4),
        "policy_cpu_ratio": round(total("cpu_s"), 4),
        "solver_time_ratio": round(total("solver_s"), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", metavar="GLOB", help="CSV files of Sia's format")
    parser.add_argument("--first", type=at_least(1), default=1, metavar="N", help="traces of each set")
    parser.add_argument("--processes", type=at_least(1), default=2)
    args = parser.parse_args()
    if args.traces:
        pattern = Path(args.traces)
        traces = sorted(Path(pattern.anchor or ".").glob(str(pattern.relative_to(pattern.anchor))))
    else:
        needs(SIA)
        traces = [trace for name in SETS for trace in traces_of(name)[: args.first]]
    if not traces:
        parser.error(f"--traces: no file is {args.traces}")
    for trace in traces:
        try:
            read_trace(trace)
        except ValueError as error:
            parser.error(f"--traces: {trace}: {error}")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes: their matrices are small
    found: dict[str, list[Measured]] = {solver: [] for solver in SOLVERS}
    with ProcessPoolExecutor(args.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [(t, s, pool.submit(run, t, s)) for t in traces for s in SOLVERS]
        for trace, solver, future in futures:
            one = future.result()
            found[solver].append(one)
            print(
                f"{name_of(trace):22s} {solver:12s} mean JCT {one.mean_jct_h:.4f} h, policy "
                f"{one.seconds.sum():.1f} s of {len(one.seconds)} rounds, solver {one.solver_s.sum():.1f} s",
                flush=True,
            )
    columns = ["solver", "mean JCT h", "restarts", "rounds", "policy s", "p50 ms", "p99 ms", "mean CPU ms"]
    table(
        f"sia on 64 GPUs, {len(traces)} traces",
        [*columns, "solver p50 ms", "largest gap"],
        [row(solver, runs) for solver, runs in found.items()],
    )
    figures = ratios(found["structured"], found["ilp"])
    figures |= {f"{name}_milp": value for name, value in ratios(found["structured"], found["milp"]).items()}
    for solver, runs in found.items():
        seconds = np.concatenate([m.seconds for m in runs])
        figures[f"policy_p50_ms_{solver}"] = round(1e3 * float(np.median(seconds)), 2)
    finish("small_scale", {**figures, "traces": len(traces)})


if __name__ == "__main__":
    main()
