"""What the service `durations` reaches with sums beside boosted trees: schedules by `qssf` of what it says."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np
from coadapt.simulator.jobs.lengths import Lengths

from ..harness import table
from ..qssf_replay import Case, run

REFIT_H = 72.0
MODELS, SEEDS = ("boosted", "additive"), 3  # strict order is chaotic, so that one fit says little


def figures() -> dict[str, float]:
    """Return mean JCTs on Venus' September with each model, fitted every three days; means over seeds."""
    with ProcessPoolExecutor(2) as pool:
        ran = list(pool.map(mean_jct_s, *zip(*product(MODELS, range(SEEDS)), strict=True)))
    each = {model: ran[i * SEEDS : (i + 1) * SEEDS] for i, model in enumerate(MODELS)}
    means = {model: float(np.mean(values)) for model, values in each.items()}
    table("Mean JCT under qssf with the service durations; each seed, mean",
          ["model", *(f"seed {seed}, s" for seed in range(SEEDS)), "mean, s"],
          [[model, *map(round, values), round(means[model])] for model, values in each.items()])  # fmt: skip
    return {
        **{f"services/qssf_jct_s_{model}": mean for model, mean in means.items()},
        **{f"services/qssf_jct_s_{model}_{seed}": value
           for model, values in each.items() for seed, value in enumerate(values)},
        "services/qssf_jct_additive_over_boosted": means["additive"] / means["boosted"],
    }  # fmt: skip


def mean_jct_s(model: str, seed: int) -> float:
    """Return the mean JCT with one fit after another of a model."""
    services = {"durations": {"model": model, "refit_h": REFIT_H, "seed": seed}}
    case = Case(model, "qssf", lengths=Lengths.FORETOLD, services=services)
    return run(case).figures()["mean_jct_s"]
