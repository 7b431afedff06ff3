"""Robustness: fewer rows, disturbed features, whole thresholds; and a correction with its effect."""

from __future__ import annotations

import numpy as np
from coadapt.estimators.durations.sums import NAMES
from coadapt.estimators.interpretable import additive_fit, tree_fit
from coadapt.estimators.interpretable.corrections import Monotone, corrected, is_monotone_in
from coadapt.estimators.interpretable.table import Floats, Table, named

from ..harness import table
from .accuracy import SEEDS, schedule_jct_s
from .fits import PEERS, additive, peer
from .tasks import task


def noisy(rows: Floats, kept: int, share: float, seed: int = 0) -> Floats:
    """Return rows with normal noise on all features but one; `share`: of each feature's deviation."""
    noise = np.random.default_rng(seed).standard_normal(rows.shape) * np.nanstd(rows, axis=0) * share
    noise[:, kept] = 0.0
    return rows + noise


def figures() -> dict[str, float]:
    of, found, rows = task("arrivals"), dict[str, float](), []
    tenth = of.taught.of(np.random.default_rng(0).uniform(size=len(of.taught.target)) < 0.1)
    disturbed = noisy(of.judged.rows, 2, 0.2)  # what was submitted ten minutes before stays as it is
    for who in ("ours", *PEERS):
        fit = (lambda t: additive(t, of.settings)) if who == "ours" else (lambda t, who=who: peer(who, t))
        whole = fit(of.taught)
        error = of.error(whole(of.judged.rows))
        fewer, noise = of.error(fit(tenth)(of.judged.rows)) / error - 1, of.error(whole(disturbed)) / error - 1
        rows.append([who, error, fewer, noise])
        found |= {f"ten_percent_data_loss/{who}": fewer, f"noise_loss/{who}": noise}
    table("Arrivals: error, and how much it grows", ["model", "error", "a tenth of the rows", "noise"], rows)
    random = np.random.default_rng(0)
    whole_rows = random.integers(0, 100, (4000, 5)).astype(float)
    target = whole_rows[:, 0] + (whole_rows[:, 1] > 40) * 30 + random.normal(size=4000)
    grown = tree_fit.fit(Table(named("abcde"), whole_rows, target), 1e-3)
    fresh = random.integers(-20, 140, (100_000, 5)).astype(float)
    found["quantised_diff"] = float(np.abs(grown.quantised().predict(fresh) - grown.predict(fresh)).max())
    return found


def correction() -> dict[str, float]:
    """Return what it changes that more GPUs never make a length shorter, and whether it outlives a refit.

    Means over seeds of the fit; a refit is a fit with another seed.
    """
    of, gpus, change = task("durations"), list(NAMES).index("gpus"), [Monotone("gpus", pairs="drop")]
    models = [additive_fit.fit(of.taught, of.settings, seed=seed, tails=None) for seed in range(SEEDS)]
    better = [corrected(model, change) for model in models]
    logs, rows, ways = of.logs(of.judged.target), of.judged.rows, (models, better)
    said = [[of.logs(model.predict(rows)) for model in way] for way in ways]
    r2 = [np.mean([1 - ((one - logs) ** 2).mean() / logs.var() for one in way]) for way in said]
    jct_s = [[schedule_jct_s(one) for one in way] for way in said]
    ratios = np.array(jct_s[1]) / np.array(jct_s[0])
    found = {
        "monotone/r2_before": float(r2[0]),
        "monotone/r2_gain": float(r2[1] / r2[0] - 1),
        "monotone/qssf_jct_ratio": float(np.mean(jct_s[1]) / np.mean(jct_s[0])),
        "monotone/qssf_jct_ratio_least": float(ratios.min()),
        "monotone/qssf_jct_ratio_most": float(ratios.max()),
        "monotone/was_so_already": float(is_monotone_in(models[0], gpus, "increasing")),
        "correction_survives_refit": float(all(is_monotone_in(model, gpus, "increasing") for model in better)),
    }
    table("gpus monotone in lengths (thesis: R2 up by 2.6 %, queue down by 3.9 %)", ["figure", "measured"],
          [[name, value] for name, value in found.items()])  # fmt: skip
    return found
