"""What the service `energy` reaches with sums beside boosted trees: nodes off, on series and job by job."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from coadapt.estimators.node_series import SLOT_S
from coadapt.policies.sleeping.counts import PeakRule
from coadapt.simulator.node_series.replay import Replayed

from ..energy_by_job import WAYS, run, venus
from ..energy_saving import CASES, OURS, Case, Stretch, best
from ..harness import table
from ..node_count_data import seconds

MODELS = ("boosted", "additive")
SEEDS = 3
USUAL = PeakRule(1, 1, 6)  # what the service goes by where nobody sets anything


def figures() -> dict[str, float]:
    """Return nodes off by each model, what they cost in wake-ups, and the least share that sums reach.

    Series: means over seeds, by settings that the days before have chosen, and by those that the service begins
    with. Then Venus' jobs under `sjf`, with nodes bound to virtual clusters and boots of 5 minutes.
    """
    found, rows = dict[str, float](), []
    for name, case in CASES.items():
        for model in MODELS:
            told = on_series(case, model == "additive")
            rows.append([name, model, *told.values()])
            found |= {f"energy/{name}/{key}_{model}": value for key, value in told.items()}
    table("Nodes off by series, at settings chosen before and at the usual ones; means of three seeds",
          ["series", "model", "nodes off", "wake-ups a day", "usual: nodes off", "wake-ups a day", "fit, s"],
          rows)  # fmt: skip
    rows = []
    for model in MODELS:
        told = by_job(model)
        rows.append([model, *told.values()])
        found |= {f"energy/venus/{key}_{model}": value for key, value in told.items()}
    table("Venus' jobs under sjf", ["model", "nodes off", "wake-ups a day", "jobs that waited for a boot"], rows)
    shares = {
        f"{name}/{key}": found[f"energy/{name}/{key}_additive"] / found[f"energy/{name}/{key}_boosted"]
        for name in (*CASES, "venus")
        for key in ("nodes_off", "usual_nodes_off")
        if f"energy/{name}/{key}_boosted" in found
    }
    found |= {f"energy/{key}_additive_over_boosted": share for key, share in shares.items()}
    return found | {"services/nodes_off_additive_over_boosted": min(shares.values())}


def on_series(case: Case, additive: bool) -> dict[str, float]:
    """Return nodes off and wake-ups of a case: means over seeds of the fit."""
    series = case.read()
    first = int((seconds(case.first) - series.start_s) // SLOT_S)
    slots, chosen, grants = case.days * 144, case.chosen_days * 144, case.most_wakes
    ran = list[tuple[Replayed, Replayed, float]]()
    for seed in range(SEEDS):
        before = Stretch.of(series, first - chosen, chosen, seed, additive)
        shown = Stretch.of(series, first, slots, seed, additive)
        picked = best({rule: before.replay(rule, grants) for rule in OURS}, grants)
        ran.append((shown.replay(picked, grants), shown.replay(USUAL), shown.fit_s))
    return {
        "nodes_off": float(np.mean([one.nodes_off for one, _, _ in ran])),
        "wakes_per_day": float(np.mean([one.wakes_per_day for one, _, _ in ran])),
        "usual_nodes_off": float(np.mean([one.nodes_off for _, one, _ in ran])),
        "usual_wakes_per_day": float(np.mean([one.wakes_per_day for _, one, _ in ran])),
        "fit_s": float(np.mean([fit_s for _, _, fit_s in ran])),
    }


def by_job(model: str) -> dict[str, float]:
    """Return what slept on Venus, job by job."""
    options: Mapping[str, object] = {**WAYS["energy"], "model": model}
    ran = run(*venus(), "sjf", options)
    assert ran.power is not None
    return {
        "nodes_off": ran.power.nodes_off,
        "wakes_per_day": ran.power.wakes_per_day,
        "waited_share": ran.affected,
    }
