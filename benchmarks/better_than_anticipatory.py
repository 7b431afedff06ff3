"""What is ours beside the published way to lend: blocking reservations, and borrowers that may be stopped.

    python -m benchmarks.better_than_anticipatory [--traces venus …] [--days 30] [--seeds 10] [--draws 10]

Reservations are compared under the same forecast: on Venus in September 2020, on made-up bursts, and on teams
drawn at random from Venus and Philly (`anticipatory_helios`, `_synthetic`, `_pools`).

`<trace>/<forecast>/geomean_ratio`: the speed-up over nothing lent, of blocking over bulk reservations; the median.
`<trace>/<forecast>/slowdown_ratio`: minutes of slowdown in all, medians and a minute more, of blocking over bulk.
`geomean_ratio`, `slowdown_ratio`: the least and the largest of these.
`<trace>/stops/mean_jct_ratio`: with borrowers that may be stopped, over bulk reservations with a perfect forecast.
`<trace>/stops/slowdown_worst_restarts`: the latest job there, in restarts of 30 s. `restarts`: of all jobs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median

import numpy as np
from coadapt.simulator.bursts import BASE, bursts
from coadapt.simulator.engine.foreseeing import Foresees
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.results.against import compared
from coadapt.simulator.team_samples import TeamJobs, drawn_teams
from coadapt.simulator.traces.tables import DAY_S

from .anticipatory_helios import BULK, CASES, PINNED, REFERENCE, SIZES, TRACE, WARM_UP_DAYS, Case, simulated, venus
from .anticipatory_pools import PHILLY, PLAIN, traces
from .arguments import at_least
from .harness import finish, needs, table

RESTART_S = 30.0
STOPS, PERFECT = "stops", "perfect"
Found = Mapping[str, float]


def cases_of(forecasts: list[str]) -> dict[str, Case]:
    """Return the cases by name, without the reference."""
    found = {STOPS: CASES["stops_borrowers"]}
    for name in forecasts:
        found |= {f"bulk/{name}": Case(BULK, foresees=Foresees(name))}
        found |= {f"blocking/{name}": Case(PINNED, foresees=Foresees(name))}
    return found


def figures_of(outcome: Outcome, reference: Outcome, warm_up_s: float) -> Found:
    """Return the figures of a run over the reference, of jobs after the warm-up."""
    counts = outcome.workload.submit_s >= outcome.workload.submit_s.min() + warm_up_s
    own = {"mean_jct_s": float(outcome.jct_s[counts].mean()), "restarts": float(np.sum(outcome.preemptions))}
    return compared(outcome, reference, warm_up_s) | own


def of_trace(runs: Mapping[str, list[Found]], forecasts: list[str]) -> dict[str, float]:
    """Return the figures of all seeds of a trace."""
    found = {}
    for name in forecasts:
        bulk, blocking = runs[f"bulk/{name}"], runs[f"blocking/{name}"]
        pairs = list(zip(blocking, bulk, strict=True))
        late = [median(run["slowdown_total_min"] for run in of) for of in (blocking, bulk)]
        found |= {
            f"{name}/geomean_ratio": median(a["speedup_geomean"] / b["speedup_geomean"] for a, b in pairs),
            f"{name}/slowdown_ratio": (late[0] + 1) / (late[1] + 1),
        }
    stops, perfect = runs[STOPS], runs[f"bulk/{PERFECT}"]
    pairs = list(zip(stops, perfect, strict=True))
    return found | {
        "stops/mean_jct_ratio": median(a["mean_jct_s"] / b["mean_jct_s"] for a, b in pairs),
        "stops/slowdown_worst_restarts": max(60 * run["slowdown_worst_min"] / RESTART_S for run in stops),
        "stops/slowed_percent": median(run["slowed_percent"] for run in stops),
        "stops/restarts": sum(run["restarts"] for run in stops),
    }


def instances(name: str, options: argparse.Namespace) -> Iterator[tuple[TeamJobs, float]]:
    """Yield the jobs of each seed of a trace, and seconds of its warm-up."""
    if name == "venus":
        yield venus(options.days, 0, 1.0), WARM_UP_DAYS * DAY_S
    elif name == "synthetic":
        for seed in range(options.seeds):
            yield TeamJobs(bursts(BASE, seed), {f"team-{at}": BASE.gpus for at in range(BASE.queues)}), 0.0
    else:
        from_ = traces()
        for seed in range(options.draws):
            yield drawn_teams(from_, PLAIN, seed, days=7.0), WARM_UP_DAYS * DAY_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["venus", "synthetic", "teams"]
    parser.add_argument("--traces", nargs="+", choices=names, default=names)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--seeds", type=at_least(1), default=10)
    parser.add_argument("--draws", type=at_least(1), default=10)
    options = parser.parse_args()
    needs(TRACE, SIZES, PHILLY)
    forecasts = [PERFECT, "always"]
    figures, rows = dict[str, float](), []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.traces:
            runs: dict[str, list[Found]] = {}
            for teams, warm_up_s in instances(name, options):
                reference, _ = simulated(teams, CASES[REFERENCE], Path(folder))
                for case, how in cases_of(forecasts).items():
                    outcome, _ = simulated(teams, how, Path(folder))
                    runs.setdefault(case, []).append(figures_of(outcome, reference, warm_up_s))
                print(f"{name}: {of_trace(runs, forecasts)}", flush=True)
            own = of_trace(runs, forecasts)
            rows += [[f"{name}/{key}", value] for key, value in own.items()]
            figures |= {f"{name}/{key}": round(value, 4) for key, value in own.items()}
    ends: tuple[tuple[str, Callable[..., float]], ...] = (("geomean_ratio", min), ("slowdown_ratio", max))
    for key, end in ends:
        figures[key] = end(value for name, value in figures.items() if name.endswith(key))
    table("ours over what is published", ["", "figure"], rows)
    finish("better_than_anticipatory", figures)


if __name__ == "__main__":
    main()
