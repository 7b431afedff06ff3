"""What wrong forecasts cost teams that lend idle GPUs, on made-up bursts (Figure 15a).

    python -m benchmarks.anticipatory_ablation [--seeds 10]

`anticipatory` lends as published, with bulk reservations. Jobs are drawn as the base of `anticipatory_synthetic`.
The reference is strict order of submission in each team, with nothing lent. Figures are medians over seeds.

`<forecast>/slowdown_total_min`: minutes that jobs end later than there, in all. `<forecast>/geomean`: speed-up.
* exact: loads to come and lengths are known. true_arrivals: whether jobs come is known; how many: the most of
  late. random_arrivals: whether jobs come is tossed for. both_random: so are classes of lengths, once a job.
* virtual_clock: every job is known. always: jobs always come. nothing: none ever do. max_min: no forecast.
`steps_in_order`: of exact <= true_arrivals <= random_arrivals <= both_random, how many hold, of three.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
from coadapt.estimators.new_load import TeamArrivals
from coadapt.policies.contract.foresight import ForeseenJob
from coadapt.simulator.bursts import BASE, bursts, teams_file
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.foreseeing import Foresees, ForesightSource, SimulatedForesight
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.lengths import Lengths
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.against import compared
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import Workload

from .anticipatory_helios import BULK, CASES, REFERENCE, Case
from .arguments import at_least
from .harness import finish, table

STEPS = ("exact", "true_arrivals", "random_arrivals", "both_random")
FORECASTS: Mapping[str, Case] = {
    REFERENCE: CASES[REFERENCE],
    "exact": Case(BULK, foresees=Foresees.PERFECT),
    "true_arrivals": Case(BULK, foresees=Foresees.ALWAYS),
    "random_arrivals": Case(BULK, foresees=Foresees.RANDOM),
    "both_random": Case(BULK, foresees=Foresees.RANDOM),
    "virtual_clock": Case({}, "virtual_clock", foresees=Foresees.PERFECT),
    "always": Case(BULK, foresees=Foresees.ALWAYS),
    "nothing": Case(BULK, foresees=Foresees.NOTHING),
    "max_min": CASES["max_min"],
}
CLASSES_S = (300.0, 3600.0, 43_200.0, 86_400.0)  # the longest of each class; the last one is of no window


@dataclass(frozen=True, eq=False)
class KnownToCome(SimulatedForesight):
    """Says truly whether jobs come, and then as many as of late."""

    def jobs(self) -> tuple[ForeseenJob, ...] | None:
        return None

    def new_load(self, team: str, horizon_s: float) -> float:
        own: TeamArrivals | None = self.arrivals.get(team)
        if own is None or not own.after(self.now, self.now + horizon_s):
            return 0.0
        return own.estimate(self.now, horizon_s)


@dataclass(frozen=True, eq=False)
class KnownSource(ForesightSource):
    """Makes `KnownToCome` at each moment."""

    def at(self, now: float) -> KnownToCome:
        return KnownToCome(self.arrivals, self.foresees, now, self.draws, self.known)


def random_classes(jobs: Workload, seed: int, path: Path) -> Path:
    """Write a file of estimates in which each job is of a class of lengths drawn at random."""
    drawn = np.random.default_rng([seed, 15]).choice(CLASSES_S, len(jobs))
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["job_id", "estimate_s"])
        rows.writerows(zip(jobs.ids, drawn.tolist(), strict=True))
    return path


def simulated(jobs: Workload, forecast: str, folder: Path, seed: int) -> Outcome:
    """Return what became of the jobs of a seed under a forecast."""
    case, teams = FORECASTS[forecast], folder / "teams.yaml"
    teams.write_text(teams_file(BASE, "t4"))
    nodes, estimates, lengths = read_cluster(f"{BASE.queues * BASE.gpus // 8}x t4:8"), None, Lengths.TOLD
    if forecast == "both_random":
        estimates, lengths = random_classes(jobs, seed, folder / "estimates.csv"), Lengths.ESTIMATED
    under = Conditions(
        timing=Timing(events=True),
        shares=teams,
        foresees=case.foresees,
        seed=seed,
        lengths=lengths,
        estimates=estimates,
    )
    made = simulation(jobs, nodes, case.policy, case.options, source_of(False, None, nodes), under)
    if forecast == "true_arrivals":
        for engine in made.engines:
            known = engine.foresight
            assert known is not None
            engine.foresight = KnownSource(known.arrivals, known.foresees, known.draws)
    return made.run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=at_least(1), default=10)
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in FORECASTS if name != REFERENCE}
    with tempfile.TemporaryDirectory() as name:
        for seed in range(options.seeds):
            jobs = bursts(BASE, seed)
            reference = simulated(jobs, REFERENCE, Path(name), seed)
            for forecast, runs in found.items():
                runs.append(compared(simulated(jobs, forecast, Path(name), seed), reference))
            print(
                f"seed {seed}: { ({key: round(runs[-1]['slowdown_total_min']) for key, runs in found.items()}) }",
                flush=True,
            )
    figures, rows = dict[str, float](), []
    keys = {
        "slowdown_total_min": "slowdown_total_min",
        "slowed_percent": "slowed_percent",
        "speedup_geomean": "geomean",
    }
    for forecast, runs in found.items():
        own = {short: median(run[key] for run in runs) for key, short in keys.items()}
        rows.append([forecast, *own.values()])
        figures |= {f"{forecast}/{key}": round(value, 3) for key, value in own.items()}
    minutes = [figures[f"{step}/slowdown_total_min"] for step in STEPS]
    figures["steps_in_order"] = float(sum(early <= late for early, late in pairwise(minutes)))
    table(f"base, medians of {options.seeds} seeds", ["", *keys.values()], rows)
    finish("anticipatory_ablation", figures)


if __name__ == "__main__":
    main()
