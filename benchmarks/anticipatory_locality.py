"""Teams whose guarantees are nodes of 8 GPUs lend idle nodes, on Venus in September 2020 (Figure 16).

    python -m benchmarks.anticipatory_locality [--days 30] [--only perfect …]

Jobs lie on as few nodes as can be. The reference is strict order of submission in each team, on its own nodes.
As clusters by themselves teams have a mean JCT of 65,720 s in a public simulator. Lengths are known. No job may
be stopped. `<case>/…` is as in `anticipatory_helios`, of all jobs, and

`<case>/locality_slowdowns`: jobs at the front of their team's queue that had quota at some time, and no free cell.
`reference/rel_err`: of its mean JCT, over 65,720 s; of the whole trace. `mean_jct_over_reference`: of blocking
reservations with a perfect forecast. `locality_slowdowns_over_hived`: of these with as much as of late, over HiveD
without preemption. `--only` without names: the reference alone.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.foreseeing import Foresees
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.against import compared
from coadapt.simulator.team_samples import TeamJobs
from coadapt.simulator.traces.cluster_file import read_cluster

from .anticipatory_helios import BULK, PINNED, SIZES, TRACE, Case, venus
from .harness import finish, needs, table

CELLS = {"locality": "cells"}
PUBLISHED_S = 65_720.0
REFERENCE = Case({"rule": "strict"} | CELLS, "team_queues")
CASES: Mapping[str, Case] = {
    "perfect": Case(PINNED | CELLS, foresees=Foresees.PERFECT),
    "always": Case(PINNED | CELLS, foresees=Foresees.ALWAYS),
    "bulk/perfect": Case(BULK | CELLS, foresees=Foresees.PERFECT),
    "hived": Case({"rule": "hived"} | CELLS, "team_queues"),
}


@dataclass(frozen=True, eq=False)
class Ran:
    """A run, and whose job had quota at some time and no cell."""

    outcome: Outcome
    no_cell: frozenset[str]
    took_s: float


def ran(teams: TeamJobs, case: Case, folder: Path) -> Ran:
    """Run the jobs of teams on nodes of 8."""
    path = folder / "teams.yaml"
    path.write_text(teams.text())
    nodes = read_cluster(f"{sum(teams.gpus.values()) // 8}x gpu:8")
    jobs = replace(teams.jobs, preemptible=np.zeros(len(teams.jobs), bool))
    under = Conditions(timing=Timing(events=True), shares=path, foresees=case.foresees)
    began, missed = time.perf_counter(), set[str]()

    def watch(round: Round, plan: Plan) -> None:
        missed.update(round.columns.ids[plan.figures["no_cell"] > 0].tolist())

    made = simulation(jobs, nodes, case.policy, case.options, source_of(False, None, nodes), under)
    for engine in made.engines:
        engine.watch = watch
    return Ran(made.run(), frozenset(missed), time.perf_counter() - began)


def figures_of(run: Ran, reference: Ran) -> dict[str, float]:
    """Return the figures of a case over the reference, of all jobs."""
    found = compared(run.outcome, reference.outcome)
    return {
        "mean_jct_s": float(run.outcome.jct_s.mean()),
        "mean_jct_over_reference": float(run.outcome.jct_s.mean() / reference.outcome.jct_s.mean()),
        "geomean": found["speedup_geomean"],
        "p95": found["speedup_p95"],
        "slowed_percent": found["slowed_percent"],
        "slowdown_total_min": found["slowdown_total_min"],
        "slowdown_worst_min": found["slowdown_worst_min"],
        "locality_slowdowns": float(len(run.no_cell)),
        "took_s": run.took_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    options = parser.parse_args()
    needs(TRACE, SIZES)
    teams = venus(options.days, 0, 1.0)
    figures, rows = dict[str, float](), []
    with tempfile.TemporaryDirectory() as name:
        reference = ran(teams, REFERENCE, Path(name))
        mean_s = float(reference.outcome.jct_s.mean())
        print(f"reference: mean JCT {mean_s:,.0f} s, {len(reference.no_cell)} jobs without a cell", flush=True)
        figures |= {
            "jobs": float(len(teams.jobs)),
            "reference/mean_jct_s": round(mean_s, 1),
            "reference/rel_err": round(mean_s / PUBLISHED_S - 1, 5),
            "reference/locality_slowdowns": float(len(reference.no_cell)),
        }
        for case in options.only:
            own = figures_of(ran(teams, CASES[case], Path(name)), reference)
            print(f"{case}: {own}", flush=True)
            rows.append([case, *own.values()])
            figures |= {f"{case}/{key}": round(value, 4) for key, value in own.items()}
    if "perfect" in options.only:
        figures["mean_jct_over_reference"] = figures["perfect/mean_jct_over_reference"]
    if {"always", "hived"} <= set(options.only) and figures["hived/locality_slowdowns"]:
        ratio = figures["always/locality_slowdowns"] / figures["hived/locality_slowdowns"]
        figures["locality_slowdowns_over_hived"] = round(ratio, 5)
    if rows:
        table(f"{len(teams.jobs)} jobs of {len(teams.gpus)} teams, in cells", ["", *own], rows)
    finish("anticipatory_locality", figures)


if __name__ == "__main__":
    main()
