"""How long policies of teams take: a decision with 600 waiting jobs of 15 teams, and Venus in September 2020.

    python -m benchmarks.anticipatory_time [--only max_min …] [--waiting 600] [--rounds 30] [--days 30]

Times are those of the CPU, which other processes do not lengthen.
`<policy>/decision_median_ms`: one decision in which all but a few GPUs are held, 600 jobs wait and forecasts are
perfect; the same jobs have other lengths and teams each time. `<policy>/september_s`: of a run of the trace.
`decision_median_ms`: the slowest policy's. `september_s`: that of the policies but `virtual_clock`.
`--days 0` leaves the trace out.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
from coadapt.core.expected import Expected, ExpectedSource
from coadapt.core.job import JobSpec
from coadapt.core.placement import NodeShare, Placement
from coadapt.estimators.new_load import by_team
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.foresight import ForeseenJob
from coadapt.policies.contract.round import JobView, Round
from coadapt.policies.contract.sharing import Sharing, TeamTerms
from coadapt.simulator.engine.foreseeing import Foresees, ForesightSource
from coadapt.simulator.traces.cluster_file import cluster_of

from .anticipatory_helios import CASES, REFERENCE, SIZES, TRACE, Case, simulated, venus
from .arguments import at_least
from .harness import finish, needs, table

TEAMS, NODES = 15, 45
IDLE = 12  # GPUs of the decision
NAMES = (
    REFERENCE, "anticipatory/perfect", "blocking/perfect", "stops_borrowers", "max_min", "ssf", "sjf", "gssf",
    "hived", "virtual_clock",
)  # fmt: skip
CLUSTER = cluster_of(f"{NODES}x gpu:8")
POLICIES: Mapping[str, Case] = dict(CASES) | {
    "virtual_clock": Case({}, "virtual_clock", foresees=Foresees.PERFECT)
}


@cache
def spec_of(id: str, gpus: int, stoppable: bool) -> JobSpec:
    """Return what a user asks for; it stays from one decision to the next."""
    return JobSpec.model_validate(
        {"name": id, "script": "x.py", "resources": {"gpus": gpus}, "preemptible": stoppable,
         "training": {"adaptivity": "rigid"}}
    )  # fmt: skip


def made_round(waiting: int, seed: int, stoppable: bool) -> Round:
    """Return a round of 15 teams with 24 GPUs each: nearly all GPUs are held, and many jobs wait."""
    random, sizes = np.random.default_rng(seed), np.random.default_rng(0)
    terms = {f"team-{at}": TeamTerms({"gpu": 8 * NODES // TEAMS}) for at in range(TEAMS)}
    nodes = [node.id for node in CLUSTER.nodes for _ in range(node.gpus)]
    held = len(nodes) - IDLE
    jobs, team, known, at = list[JobView](), dict[str, str](), list[ForeseenJob](), 0
    for number in range(held + waiting):
        running = at < held
        gpus = 1 if running else int(sizes.choice([1, 2, 4, 8], p=[0.7, 0.1, 0.15, 0.05]))
        takes_s = float(np.exp(random.uniform(np.log(60), np.log(200_000))))
        id, of = f"job-{number:05d}", f"team-{int(random.integers(TEAMS))}"
        placement = Placement("gpu", (NodeShare(nodes[at], 1),)) if running else None
        at += gpus if running else 0
        spec = spec_of(id, gpus, stoppable)
        expected = Expected.exactly(takes_s, ExpectedSource.TRACE)
        jobs.append(JobView(id, spec, placement=placement, submitted_s=float(number), expected=expected))
        known.append(ForeseenJob(id, of, float(number), takes_s, gpus))
        team[id] = of
    arrivals = by_team(
        [one.submitted_s for one in known], [one.gpus for one in known], [one.team for one in known]
    )
    source = ForesightSource(arrivals, Foresees.PERFECT, random, tuple(known))
    now = float(len(jobs))
    return Round(now, 60.0, CLUSTER, jobs, sharing=Sharing(terms, team), foresight=source.at(now))


def decisions_ms(case: Case, rounds: int, waiting: int) -> list[float]:
    """Return the milliseconds of each decision. The columns of a round are made before, as the engine does."""
    policy, found = make_policy(case.policy, **case.options), []
    for seed in range(rounds):
        round = made_round(waiting, seed, case.stoppable)
        _ = round.columns
        began = time.process_time()
        policy.plan(round)
        found.append(1e3 * (time.process_time() - began))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--waiting", type=at_least(1), default=600)
    parser.add_argument("--rounds", type=at_least(1), default=30)
    parser.add_argument("--days", type=float, default=30.0)
    options = parser.parse_args()
    figures, rows = dict[str, float](), []
    with tempfile.TemporaryDirectory() as name:
        if options.days:
            needs(TRACE, SIZES)
            teams = venus(options.days, 0, 1.0)
            figures["jobs"] = float(len(teams.jobs))
        for policy in options.only:
            case = POLICIES[policy]
            own = {"decision_median_ms": median(decisions_ms(case, options.rounds, options.waiting))}
            if options.days:
                began = time.process_time()
                simulated(teams, case, Path(name))
                own["september_s"] = time.process_time() - began
            print(f"{policy}: {own}", flush=True)
            rows.append([policy, *own.values()])
            figures |= {f"{policy}/{key}": round(value, 3) for key, value in own.items()}
    for key in own:
        counted = [p for p in options.only if key == "decision_median_ms" or p != "virtual_clock"]
        figures[key] = max(figures[f"{p}/{key}"] for p in counted)
    table(f"{options.waiting} waiting jobs of {TEAMS} teams", ["", *own], rows)
    finish("anticipatory_time", figures)


if __name__ == "__main__":
    main()
