"""Teams that lend idle GPUs, on made-up bursts: base and eight variants, and what wrong forecasts cost.

    python -m benchmarks.anticipatory_synthetic [--seeds 10] [--variants base more_queues …]

Jobs are drawn as the paper's appendices say, over three days. Lengths are known. Figures are medians over seeds.
The reference is strict order of submission in each team, with nothing lent.

`<variant>/<policy>/geomean`, `ratio`: speed-up of jobs over the reference, and of mean JCTs.
`<variant>/<policy>/slowed_percent`, `slowdown_total_min`, `slowdown_worst_min`: of jobs that end later than there.
`ablation/<forecast>_min`: minutes of slowdown in all, of base, under `anticipatory` as published (Figure 15a).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from coadapt.simulator.bursts import VARIANTS, bursts, teams_file
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.foreseeing import Foresees
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.against import compared
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import Workload

from .anticipatory_helios import BULK, CASES, PINNED, REFERENCE, Case
from .arguments import at_least
from .harness import finish, table

POLICIES: Mapping[str, Case] = {
    REFERENCE: CASES[REFERENCE],
    "anticipatory": Case(BULK, foresees=Foresees.PERFECT),
    "blocking": Case(PINNED, foresees=Foresees.PERFECT),
    "virtual_clock": Case({}, "virtual_clock", foresees=Foresees.PERFECT),
    "max_min": CASES["max_min"],
    "ssf": CASES["ssf"],
    "gssf": CASES["gssf"],
}
ABLATION: Mapping[str, Case] = {
    "exact": POLICIES["anticipatory"],
    "always": Case(BULK, foresees=Foresees.ALWAYS),
    "random": Case(BULK, foresees=Foresees.RANDOM),
    "nothing": Case(BULK, foresees=Foresees.NOTHING),
    "max_min": CASES["max_min"],
}


def simulated(jobs: Workload, teams: str, gpus: int, case: Case, folder: Path, seed: int) -> Outcome:
    path = folder / "teams.yaml"
    path.write_text(teams)
    nodes = read_cluster(f"{gpus // 8}x t4:8")
    under = Conditions(timing=Timing(events=True), shares=path, foresees=case.foresees, seed=seed)
    return simulation(jobs, nodes, case.policy, case.options, source_of(False, None, nodes), under).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=at_least(1), default=10)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    options = parser.parse_args()
    figures: dict[str, float] = {}
    keys = ("speedup_geomean", "speedup_of_means", "slowed_percent", "slowdown_total_min", "slowdown_worst_min")
    with tempfile.TemporaryDirectory() as name:
        for variant in options.variants:
            how = VARIANTS[variant]
            gpus, teams = how.queues * how.gpus, teams_file(how, "t4")
            found: dict[str, list[dict[str, float]]] = {}
            for seed in range(options.seeds):
                jobs = bursts(how, seed)
                reference = simulated(jobs, teams, gpus, POLICIES[REFERENCE], Path(name), seed)
                cases = {policy: case for policy, case in POLICIES.items() if policy != REFERENCE}
                if variant == "base":
                    cases |= {f"ablation/{forecast}": case for forecast, case in ABLATION.items()}
                for policy, case in cases.items():
                    outcome = simulated(jobs, teams, gpus, case, Path(name), seed)
                    found.setdefault(policy, []).append(compared(outcome, reference))
            rows = []
            for policy, runs in found.items():
                medians = {key: median(run[key] for run in runs) for key in keys}
                if policy.startswith("ablation/"):
                    figures[f"{policy}_min"] = round(medians["slowdown_total_min"], 2)
                else:
                    short = [key.removeprefix("speedup_").replace("of_means", "ratio") for key in keys]
                    figures |= {
                        f"{variant}/{policy}/{key}": round(value, 4)
                        for key, value in zip(short, medians.values(), strict=True)
                    }
                rows.append([policy, *medians.values()])
            table(f"{variant}, medians of {options.seeds} seeds", ["", *keys], rows)
    finish("anticipatory_synthetic", figures)


if __name__ == "__main__":
    main()
