"""Teams drawn at random from Venus and Philly lend idle GPUs (Figures 13 and 14 of the anticipatory paper).

    python -m benchmarks.anticipatory_pools [--draws 100] [--teams 4 …] [--foresees perfect …] [--days 7] [--bulk]

Each draw takes virtual clusters at random, a week of each, and guarantees that load them by 0.6 to 1.1. Lengths
are known, rounds come as jobs arrive and end, and jobs of the first two days do not count. No job may be stopped.
The reference is strict order of submission in each team, with nothing lent. Figures of draws of 4 teams have no
prefix; others have `<teams>_teams/`.

`<forecast>/…` is `anticipatory` with blocking reservations under a forecast. `--bulk`: `bulk/<forecast>/…` is as
published.
`…/geomean`, `p50`, `p90`, `p95`, `p99`: of the speed-up of jobs, medians over draws. `ratio`: of mean JCTs.
`…/slowed_percent`, `slowdown_worst_min`: of jobs that end later than in the reference; the worst draw.
`…/slowdown_total_min`: in all draws together. `…/slowdown_over_max_min`: that over what max-min has.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from coadapt.simulator.engine.foreseeing import Foresees
from coadapt.simulator.results.against import compared
from coadapt.simulator.team_samples import drawn_teams
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.tables import DAY_S
from coadapt.simulator.traces.workload import Workload

from .anticipatory_helios import BULK, CASES, PINNED, REFERENCE, TRACE, WARM_UP_DAYS, Case, simulated
from .arguments import at_least
from .harness import DATA, finish, needs, table

PHILLY = DATA / "philly" / "philly_jobs_pollux_82k.csv.gz"
PLAIN = 4  # teams of a draw whose figures have no prefix
PEERS = ("max_min", "hived", "themis")
MEDIANS = {
    "speedup_geomean": "geomean", "speedup_of_means": "ratio", "speedup_p5": "p5", "speedup_p50": "p50",
    "speedup_p90": "p90", "speedup_p95": "p95", "speedup_p99": "p99",
}  # fmt: skip

Found = Mapping[str, float]


def traces() -> dict[str, Workload]:
    """Return Venus and Philly by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"venus": read_trace(TRACE), "philly": read_trace(PHILLY)}


def cases_of(forecasts: Sequence[str], with_bulk: bool) -> dict[str, Case]:
    """Return the cases by name, without the reference."""
    blocking = {name: Case(PINNED, foresees=Foresees(name)) for name in forecasts}
    bulk = {f"bulk/{name}": Case(BULK, foresees=Foresees(name)) for name in forecasts if with_bulk}
    return blocking | bulk | {name: CASES[name] for name in PEERS}


def figures_of(runs: Mapping[str, Sequence[Found]]) -> dict[str, dict[str, float]]:
    """Return the figures of each case over all draws."""
    found = {}
    most = sum(run["slowdown_total_min"] for run in runs["max_min"])
    for case, of in runs.items():
        total = sum(run["slowdown_total_min"] for run in of)
        found[case] = {short: median(run[key] for run in of) for key, short in MEDIANS.items()} | {
            "slowed_percent": max(run["slowed_percent"] for run in of),
            "slowdown_worst_min": max(run["slowdown_worst_min"] for run in of),
            "slowdown_total_min": total,
            "slowdown_over_max_min": total / most if most else 0.0,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=at_least(1), default=100)
    parser.add_argument("--teams", type=at_least(1), nargs="+", default=[PLAIN])
    parser.add_argument(
        "--foresees", choices=[str(one) for one in Foresees], nargs="+", default=["perfect", "always"]
    )
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--bulk", action="store_true")
    options = parser.parse_args()
    needs(TRACE, PHILLY)
    from_, figures = traces(), dict[str, float]()
    with tempfile.TemporaryDirectory() as name:
        for count in options.teams:
            runs: dict[str, list[Found]] = {}
            began = time.perf_counter()
            for seed in range(options.draws):
                teams = drawn_teams(from_, count, seed, options.days)
                reference, _ = simulated(teams, CASES[REFERENCE], Path(name))
                for case, how in cases_of(options.foresees, options.bulk).items():
                    outcome, _ = simulated(teams, how, Path(name))
                    runs.setdefault(case, []).append(compared(outcome, reference, WARM_UP_DAYS * DAY_S))
                told = f"{seed + 1} draws of {count} teams, {len(teams.jobs)} jobs in the last"
                if seed % 10 == 9:
                    print(figures_of(runs), flush=True)
                print(f"{told}, {time.perf_counter() - began:.0f} s", flush=True)
            found = figures_of(runs)
            prefix = "" if count == PLAIN else f"{count}_teams/"
            figures |= {f"{prefix}draws": float(options.draws)}
            figures |= {
                f"{prefix}{case}/{key}": round(value, 5)
                for case, own in found.items()
                for key, value in own.items()
            }
            columns = ["", *next(iter(found.values()))]
            table(
                f"{options.draws} draws of {count} teams",
                columns,
                [[case, *own.values()] for case, own in found.items()],
            )
    finish("anticipatory_pools", figures)


if __name__ == "__main__":
    main()
