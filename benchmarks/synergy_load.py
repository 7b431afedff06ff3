"""Mean completion times over loads on 128 GPUs (Synergy, OSDI'22, Figures 7 to 9).

    python -m benchmarks.synergy_load [--seeds 10] [--curve-seeds 2] [--multi-seeds 1] [--processes 2]

Jobs are derived from Philly's shape, split (20,70,10); figures are of jobs 4000-4999 for jobs of 1 GPU, and of
jobs 2000-2999 for jobs of 1 to 16 GPUs. Rounds of 300 s; a restart costs nothing. Ratios are the mean of
`proportional` over that of a mechanism, medians over seeds.
* fifo_single/{tune,priced,saturated}/ratio_at_baseline_81h: at the load of each seed where `proportional` takes
  81 h, within 5. Paper: 81 to 22 h, 3.7. `saturated`: every job has all that it gains by, which none can beat.
* fifo_single/{load}/{mechanism}/mean_jct_h and best_ratio over all loads; paper: up to 3.4.
* {las,srtf,ftf}_multi/{load}/{mechanism}/mean_jct_h, best_ratio (paper: 1.6, FTF 2) and las_multi/p95_long_ratio
  at load 4: the 95th percentile of jobs above 4 h (paper: 2).
* worst_ratio: the least ratio of `tune` and of `priced` over all policies and loads.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from coadapt.simulator.derived import PHILLY_GPUS, SINGLE, Derived, derived
from coadapt.simulator.traces.workload import Workload

from .arguments import at_least
from .harness import finish, needs, table
from .synergy_runs import (
    HOUR,
    PROFILES,
    SATURATED,
    Asked,
    Found,
    best_speeds,
    proportional_fifo_s,
    run_all,
)

GPUS = 128
WINDOW, MULTI_WINDOW = (4000, 5000), (2000, 3000)
BASELINE_H, WITHIN_H = 81.0, 5.0
LOADS = (7.0, 9.5, 10.5)
MULTI = (("las", (4.0, 5.5, 6.5)), ("srtf", (5.5,)), ("ftf", (5.5,)))
LONG_S = 4 * HOUR


def single(load: float, seed: int) -> Workload:
    return derived(Derived(WINDOW[1], load, gpus=SINGLE), seed)


def multi(load: float, seed: int) -> Workload:
    return derived(Derived(MULTI_WINDOW[1], load, gpus=PHILLY_GPUS), seed)


def baseline_h(load: float, seed: int) -> float:
    """Return the mean JCT of `proportional` under FIFO, h."""
    return float(proportional_fifo_s(single(load, seed), GPUS)[slice(*WINDOW)].mean()) / HOUR


def saturated_h(load: float, seed: int) -> float:
    """Return the same if every job had all that it gains by."""
    work = single(load, seed)
    times = proportional_fifo_s(work, GPUS, best_speeds(work))
    return float(times[slice(*WINDOW)].mean()) / HOUR


def load_of(seed: int) -> float:
    """Return the load at which a seed's baseline takes 81 h, nearly."""
    low, high = 7.0, 11.0
    for _ in range(12):
        load = (low + high) / 2
        low, high = (load, high) if baseline_h(load, seed) < BASELINE_H else (low, load)
    return load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=at_least(1), default=10)
    parser.add_argument("--curve-seeds", type=at_least(1), default=2)
    parser.add_argument("--multi-seeds", type=at_least(0), default=1)
    parser.add_argument("--processes", type=at_least(1), default=2)
    options = parser.parse_args()
    needs(PROFILES)
    figures: dict[str, float] = {}
    ratios: dict[str, list[float]] = {"tune": [], "priced": []}
    _at_baseline(figures, ratios, options.seeds, options.processes)
    _single_curve(figures, ratios, options.curve_seeds, options.processes)
    if options.multi_seeds:
        _multi_curves(figures, ratios, options.multi_seeds, options.processes)
    for name, found in ratios.items():
        figures[f"{name}/worst_ratio"] = min(found)
    finish("synergy_load", figures)


def _at_baseline(figures: dict[str, float], ratios: dict[str, list[float]], seeds: int, processes: int) -> None:
    loads = [load_of(seed) for seed in range(seeds)]
    asked = [
        Asked(partial(single, load, seed), "fifo", name, GPUS, window=WINDOW)
        for seed, load in enumerate(loads)
        for name in ratios
    ]
    found = iter(run_all(asked, processes))
    rows, by_name = [], {name: list[float]() for name in (*ratios, SATURATED)}
    for seed, load in enumerate(loads):
        prop = baseline_h(load, seed)
        means = {name: next(found).mean_h for name in ratios} | {SATURATED: saturated_h(load, seed)}
        for name, mean in means.items():
            by_name[name].append(prop / mean)
            if name in ratios:
                ratios[name].append(prop / mean)
        rows.append([seed, load, prop, *means.values()])
    table("FIFO, 1 GPU, at the baseline of 81 h: mean JCT, h", ["seed", "load", "prop", *by_name], rows)
    for name, of in by_name.items():
        figures[f"fifo_single/{name}/ratio_at_baseline_81h"] = float(np.median(of))
        figures[f"fifo_single/{name}/ratio_at_baseline_81h_least"] = min(of)
        figures[f"fifo_single/{name}/ratio_at_baseline_81h_most"] = max(of)
    figures["fifo_single/baseline_h"] = float(np.median([row[2] for row in rows]))


def _single_curve(figures: dict[str, float], ratios: dict[str, list[float]], seeds: int, processes: int) -> None:
    asked = [
        Asked(partial(single, load, seed), "fifo", name, GPUS, window=WINDOW)
        for load in LOADS
        for seed in range(seeds)
        for name in ratios
    ]
    found = iter(run_all(asked, processes))
    rows, best = [], dict.fromkeys((*ratios, SATURATED), 0.0)
    for load in LOADS:
        means: dict[str, list[float]] = {"proportional": [], **{name: [] for name in (*ratios, SATURATED)}}
        for seed in range(seeds):
            means["proportional"].append(baseline_h(load, seed))
            for name in ratios:
                means[name].append(next(found).mean_h)
            means[SATURATED].append(saturated_h(load, seed))
        for name, of in means.items():
            figures[f"fifo_single/{load:g}/{name}/mean_jct_h"] = float(np.median(of))
        for name in best:
            each = [a / b for a, b in zip(means["proportional"], means[name], strict=True)]
            best[name] = max(best[name], float(np.median(each)))
            if name in ratios:
                ratios[name] += each
        rows.append([load, *(float(np.median(of)) for of in means.values())])
    table("FIFO, 1 GPU: mean JCT, h", ["load", "prop", *best], rows)
    for name, ratio in best.items():
        figures[f"fifo_single/{name}/best_ratio"] = max(
            ratio, figures[f"fifo_single/{name}/ratio_at_baseline_81h"]
        )


def _multi_curves(figures: dict[str, float], ratios: dict[str, list[float]], seeds: int, processes: int) -> None:
    names = ("proportional", *ratios)
    points = [(policy, load) for policy, loads in MULTI for load in loads]
    asked = [
        Asked(partial(multi, load, seed), policy, name, GPUS, window=MULTI_WINDOW)
        for policy, load in points
        for seed in range(seeds)
        for name in names
    ]
    found = iter(run_all(asked, processes))
    rows = []
    for policy, load in points:
        of: dict[str, list[Found]] = {name: [] for name in names}
        for _ in range(seeds):
            for name in names:
                of[name].append(next(found))
        means = {name: [one.mean_h for one in runs] for name, runs in of.items()}
        key = f"{policy}_multi"
        for name in names:
            figures[f"{key}/{load:g}/{name}/mean_jct_h"] = float(np.median(means[name]))
        for name in ratios:
            each = [a / b for a, b in zip(means["proportional"], means[name], strict=True)]
            ratios[name] += each
            best = f"{key}/{name}/best_ratio"
            figures[best] = max(figures.get(best, 0.0), float(np.median(each)))
            if policy == "las" and load == 4.0:
                figures[f"{key}/{name}/p95_long_ratio"] = float(
                    np.median([_p95(a) / _p95(b, a) for a, b in zip(of["proportional"], of[name], strict=True)])
                )
        rows.append([policy, load, *(float(np.median(means[name])) for name in names)])
    table("1 to 16 GPUs: mean JCT, h", ["policy", "load", *names], rows)


def _p95(of: Found, by: Found | None = None) -> float:
    """Return the 95th percentile of the jobs that took above 4 h in the baseline's run."""
    return float(np.percentile(of.jct_s[(by or of).jct_s > LONG_S], 95))


if __name__ == "__main__":
    main()
