"""Teams that lend idle GPUs, on Venus in September 2020: 15 virtual clusters as teams on interchangeable GPUs.

    python -m benchmarks.anticipatory_helios [--only NAME …] [--days 30] [--apart 0] [--size 1.0]

The reference is strict order of submission in each team, with nothing lent. Lengths are known, rounds come as jobs
arrive and end, and jobs of the first two days do not count. No job may be stopped, but under *stops borrowers*,
where a restart takes 30 s.

`<policy>/geomean`, `p95`, `p5`: of the speed-up of jobs, JCT under the reference over JCT. `ratio`: of mean JCTs.
`<policy>/slowed_percent`, `slowdown_total_min`, `slowdown_worst_min`: of jobs that end later than there, by 1 s.
`<policy>/decision_median_ms`, `september_s`: of a decision, and of the whole trace.
`learned_over_perfect`, `<policy>/learned_days/…`: of jobs after the first 12 days, which a forecast was fitted to.
`--apart N`: the N largest teams take no part. `--size F`: each guarantee is F times as large.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.foreseeing import Foresees
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.against import compared
from coadapt.simulator.team_samples import TeamJobs
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.readers import read_trace

from .arguments import at_least
from .harness import DATA, finish, needs, table

TRACE, SIZES = DATA / "helios" / "venus_sept2020_gpu_jobs.csv.gz", DATA / "lucid" / "venus_vc_config.csv"
DAY_S, WARM_UP_DAYS = 86_400.0, 2.0
REFERENCE = "reference"


@dataclass(frozen=True)
class Case:
    """A policy, what is foreseen, and whether jobs may be stopped."""

    options: Mapping[str, Any]
    policy: str = "anticipatory"
    foresees: Foresees | None = None
    stoppable: bool = False
    services: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


PINNED = {"stops_borrowers": False}
BULK = PINNED | {"reservations": "bulk"}
LEARNED_DAYS = 12.0
# Fitted once, to the first 12 days, of which the newest decide whether it is taken; or each day anew, as live.
ONCE = {"team_load": {"least_days": LEARNED_DAYS, "refit_h": 1000.0}}
DAILY: Mapping[str, Mapping[str, Any]] = {"team_load": {}}
CASES: Mapping[str, Case] = {
    REFERENCE: Case({"rule": "strict"}, "team_queues"),
    "anticipatory/perfect": Case(BULK, foresees=Foresees.PERFECT),
    "anticipatory/learned": Case(BULK, foresees=Foresees.LEARNED, services=ONCE),
    "anticipatory/learned_daily": Case(BULK, foresees=Foresees.LEARNED, services=DAILY),
    "anticipatory/always": Case(BULK, foresees=Foresees.ALWAYS),
    "anticipatory/random": Case(BULK, foresees=Foresees.RANDOM),
    "blocking/perfect": Case(PINNED, foresees=Foresees.PERFECT),
    "blocking/learned": Case(PINNED, foresees=Foresees.LEARNED, services=ONCE),
    "blocking/always": Case(PINNED, foresees=Foresees.ALWAYS),
    "blocking/unknown": Case(PINNED),
    "stops_borrowers": Case({}, foresees=Foresees.ALWAYS, stoppable=True),
    "max_min": Case({"rule": "max_min"}, "team_queues"),
    "ssf": Case({"rule": "shortest_service"}, "team_queues"),
    "sjf": Case({"rule": "shortest_job"}, "team_queues"),
    "gssf": Case({"rule": "shortest_service_of_all"}, "team_queues"),
    "hived": Case({"rule": "hived"}, "team_queues"),
    "themis": Case({"rule": "themis"}, "team_queues"),
}


def venus(days: float, apart: int, size: float) -> TeamJobs:
    """Return the jobs of the first days, of all teams but the largest ones."""
    with SIZES.open(newline="") as file:
        rows = [(name, 8 * int(nodes)) for name, nodes in list(csv.reader(file))[1:]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jobs = read_trace(TRACE)
    teams = TeamJobs(jobs.select(jobs.submit_s < jobs.submit_s.min() + days * DAY_S), dict(rows))
    return teams.without_donors(apart).sized(size)


def simulated(teams: TeamJobs, case: Case, folder: Path) -> tuple[Outcome, float]:
    """Return what became of the jobs, and how many seconds the run took."""
    path = folder / "teams.yaml"
    path.write_text(teams.text())
    whole, rest = divmod(sum(teams.gpus.values()), 8)
    nodes = read_cluster(f"{whole}x gpu:8" + (f", 1x gpu:{rest}" if rest else ""))
    jobs = replace(teams.jobs, preemptible=np.full(len(teams.jobs), case.stoppable))
    under = Conditions(timing=Timing(events=True), shares=path, foresees=case.foresees, services=case.services)
    began = time.perf_counter()
    made = simulation(jobs, nodes, case.policy, case.options, source_of(False, None, nodes), under)
    return made.run(), time.perf_counter() - began


def speedups_of(reference: Outcome, outcome: Outcome, after_days: float) -> dict[str, float]:
    """Return how jobs that were submitted after so many days fared, against the reference."""
    found = compared(outcome, reference, after_days * DAY_S)
    named = {"speedup_geomean": "geomean", "speedup_of_means": "ratio", "speedup_p95": "p95", "speedup_p5": "p5"}
    kept = (*named, "slowed_percent", "slowdown_total_min", "slowdown_worst_min")
    return {named.get(key, key): found[key] for key in kept}


def figures_of(reference: Outcome, outcome: Outcome) -> dict[str, float]:
    """Return the figures of jobs that were submitted after the warm-up."""
    return speedups_of(reference, outcome, WARM_UP_DAYS) | {
        "mean_jct_h": float(outcome.jct_s.mean()) / 3600,
        "restarts": float(outcome.preemptions.sum()),
        "decision_median_ms": 1e3 * float(np.median(outcome.policy_s)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--apart", type=at_least(0), default=0)
    parser.add_argument("--size", type=float, default=1.0)
    options = parser.parse_args()
    needs(TRACE, SIZES)
    teams = venus(options.days, options.apart, options.size)
    prefix = ("two_pools_apart/" if options.apart else "") + (
        f"pool_size_{options.size:g}/" if options.size != 1 else ""
    )
    figures: dict[str, float] = {f"{prefix}jobs": float(len(teams.jobs))}
    rows, later = [], dict[str, dict[str, float]]()
    with tempfile.TemporaryDirectory() as name:
        reference, took_s = simulated(teams, CASES[REFERENCE], Path(name))
        print(f"reference: mean JCT {reference.jct_s.mean() / 3600:.3f} h in {took_s:.1f} s", flush=True)
        for case in [case for case in options.only if case != REFERENCE]:
            outcome, took_s = simulated(teams, CASES[case], Path(name))
            own = figures_of(reference, outcome) | {"september_s": took_s}
            later[case] = speedups_of(reference, outcome, LEARNED_DAYS)
            print(f"{case}: {own}", flush=True)
            rows.append([case, *own.values()])
            figures |= {f"{prefix}{case}/{key}": round(value, 4) for key, value in own.items()}
    for case in [case for case in later if "learned" in case]:
        figures |= {f"{prefix}{case}/learned_days/{key}": round(value, 4) for key, value in later[case].items()}
        if (perfect := later.get(case.split("/")[0] + "/perfect")) is not None:
            figures[f"{prefix}{case}_over_perfect"] = round(later[case]["geomean"] / perfect["geomean"], 4)
            print(f"{case}, after {LEARNED_DAYS:g} days: {later[case]}\nperfect: {perfect}", flush=True)
    table(f"{len(teams.jobs)} jobs of {len(teams.gpus)} teams", ["", *own], rows)
    finish("anticipatory_helios", figures)


if __name__ == "__main__":
    main()
