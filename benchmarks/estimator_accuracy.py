"""Relative error of predicted step times on measured profiles of five models on five GPU types.

    python -m benchmarks.estimator_accuracy

The first question is how well a fit to half of the placements predicts the other half, as a mean over `SPLITS`
random splits. The second is how well up to 16 replicas are predicted by a fit to at most 4. Held-out rows
are never fitted to.

Five estimators are compared:

* ours;
* ours without knowing how replicas are spread over nodes;
* ours with the links of the GPU type learned from the *other* models' profiles;
* models bootstrapped by equation 3.1;
* the published model of seven parameters, fitted anew in this run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from coadapt.estimators.bootstrap import bootstrap
from coadapt.estimators.efficiency import efficiency
from coadapt.estimators.profile import Profile
from coadapt.estimators.throughput import LinkPrior, ThroughputModel, ThroughputParams, fit, step_time_s
from scipy.optimize import minimize
from scipy.stats import kendalltau

from .harness import finish, table
from .measured_profiles import (
    GPU_TYPES,
    PARAMETERS,
    initial_batch_size,
    max_batch_size,
    measured,
    noise_scale,
)

SPLITS = 5
Predict = Callable[[Profile], np.ndarray]


def even(profile: Profile) -> Profile:
    """Return the same rows as if replicas had been spread evenly, which is all that (nodes, replicas) tell."""
    columns = {name: getattr(profile, name) for name in Profile.__dataclass_fields__}
    return Profile(**columns | {"densest": -(-profile.replicas // profile.nodes)})


def ours(profile: Profile, prior: LinkPrior | None = None, parameters: int | None = None) -> Predict:
    return predictor(fit(profile, prior=prior, parameters=parameters))


def predictor(params: ThroughputParams) -> Predict:
    return lambda rows: step_time_s(params, rows.nodes, rows.replicas, rows.local_bsz, 0, rows.densest)


def ours_even(profile: Profile) -> Predict:
    predict = ours(even(profile))
    return lambda rows: predict(even(rows))


def published(profile: Profile) -> Predict:
    """Fit Sia's seven parameters by its loss (spec: AdaptDL's fit), with bounded L-BFGS."""
    n, k, m = (x.astype(float) for x in (profile.nodes, profile.replicas, profile.local_bsz))
    compute = np.maximum(profile.step_time_s - profile.sync_time_s, 1e-8)
    single, several = (k > 1) & (n == 1), n > 1
    start = np.array([0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001])
    low, high = np.full(7, 1e-8), np.full(7, np.inf)
    low[6], high[6] = 1.0, 10.0
    if not several.any():
        start[2:4] = high[2:4] = 1e-8
    if not single.any():
        start[4:6] = high[4:6] = 1e-8
    if k.max() <= 2:
        start[[3, 5]] = high[[3, 5]] = 1e-8

    def times(x: np.ndarray, n: np.ndarray, k: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        busy = x[0] + x[1] * m
        beyond = np.maximum(k - 2, 1e-8)
        link = np.where(n > 1, x[2] + x[3] * beyond, np.where(k > 1, x[4] + x[5] * beyond, 1e-8))
        return busy, np.exp(np.logaddexp(x[6] * np.log(busy), x[6] * np.log(link)) / x[6])

    def loss(x: np.ndarray) -> float:
        busy, step = times(x, n, k, m)
        error = np.sqrt(np.mean((np.log(busy) - np.log(compute)) ** 2))
        error += np.sqrt(np.mean((np.log(step) - np.log(profile.step_time_s)) ** 2))
        return float(error + 1e-3 * (x[6] - 1) ** 2 + 1e-2 * ((x[3] / x[2]) ** 2 + (x[5] / x[4]) ** 2))

    x = minimize(loss, start, method="L-BFGS-B", bounds=list(zip(low, high, strict=True))).x
    if not several.any():
        x[2:4] = np.maximum(x[2:4], 1.1 * x[4:6])
    return lambda rows: times(x, rows.nodes, rows.replicas, rows.local_bsz)[1]


@dataclass
class Errors:
    """Relative errors per (model, GPU type), held-out rows only."""

    half: dict[tuple[str, str], list[np.ndarray]] = field(default_factory=dict)
    from_4: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    taus: list[float] = field(default_factory=list)

    def half_all(self, quantile: float) -> float:
        """Return mean over splits of a quantile over all rows."""
        splits = [np.abs(np.concatenate([e[i] for e in self.half.values()])) for i in range(SPLITS)]
        return float(np.mean([np.quantile(split, quantile) for split in splits]))

    def from_4_all(self, quantile: float) -> float:
        return float(np.quantile(np.abs(np.concatenate(list(self.from_4.values()))), quantile))


def halves(model: str, gpu_type: str, split: int) -> tuple[Profile, Profile]:
    data = measured(model, gpu_type)
    placements = np.unique(data.placement)
    chosen = np.random.default_rng([split, len(placements)]).permutation(placements)[: -(-len(placements) // 2)]
    fitted = np.isin(data.placement, chosen)
    return data.profile.select(fitted), data.profile.select(~fitted)


def by_size(model: str, gpu_type: str) -> tuple[Profile, Profile]:
    profile = measured(model, gpu_type).profile
    return profile.select(profile.replicas <= 4), profile.select(profile.replicas > 4)


def best_goodputs(model: str, rows: Profile, step_s: np.ndarray) -> dict[tuple[int, int, int], float]:
    """Return best goodput per (nodes, replicas, densest) over the local batch sizes that were measured there."""
    first, last = initial_batch_size(model), max_batch_size(model)
    batch = rows.replicas * rows.local_bsz
    goodput = batch / step_s * efficiency(batch, first, noise_scale(model))
    best: dict[tuple[int, int, int], list[float]] = {}
    for i in np.flatnonzero((batch >= first) & (batch <= last)):
        key = (int(rows.nodes[i]), int(rows.replicas[i]), int(rows.densest[i]))
        best.setdefault(key, []).append(float(goodput[i]))
    # Where several placements share a shape, the fastest row stands for it.
    return {key: max(values) for key, values in best.items()}


def evaluate(name: str, method: Callable[[Profile], Predict]) -> Errors:
    errors = Errors()
    for model in PARAMETERS:
        for split in range(SPLITS):
            truth: list[float] = []
            guess: list[float] = []
            for gpu_type in GPU_TYPES:
                fitted, held_out = halves(model, gpu_type, split)
                predicted = method(fitted)(held_out)
                relative = predicted / held_out.step_time_s - 1
                errors.half.setdefault((model, gpu_type), []).append(relative)
                true_goodput = best_goodputs(model, held_out, held_out.step_time_s)
                guessed = best_goodputs(model, held_out, predicted)
                truth += true_goodput.values()
                guess += [guessed[key] for key in true_goodput]
            errors.taus.append(float(kendalltau(truth, guess).statistic))
        for gpu_type in GPU_TYPES:
            fitted, held_out = by_size(model, gpu_type)
            if len(held_out):
                errors.from_4[model, gpu_type] = method(fitted)(held_out) / held_out.step_time_s - 1
    return errors


def with_prior() -> dict[tuple[str, str], np.ndarray]:
    """Estimate from 4 replicas; the GPU type's links are learned from all rows of the other four models."""
    errors = {}
    for gpu_type in GPU_TYPES:
        everything = {model: fit(measured(model, gpu_type).profile) for model in PARAMETERS}
        for model, parameters in PARAMETERS.items():
            fitted, held_out = by_size(model, gpu_type)
            others = [(everything[o], PARAMETERS[o]) for o in PARAMETERS if o != model]
            if len(held_out):
                predict = ours(fitted, LinkPrior.of(others), parameters)
                errors[model, gpu_type] = predict(held_out) / held_out.step_time_s - 1
    return errors


def bootstrapped() -> dict[tuple[str, str], np.ndarray]:
    """Estimate multi-replica rows from one-replica rows of a GPU type and all rows of each other type in turn."""
    errors: dict[tuple[str, str], list[np.ndarray]] = {}
    for model in PARAMETERS:
        full = {t: measured(model, t) for t in GPU_TYPES}
        for own, data in full.items():
            alone = data.profile.select(data.profile.replicas == 1)
            target = data.profile.select(data.profile.replicas > 1)
            mine = ThroughputModel(fit(alone), data.max_local_bsz)
            for other, donor in full.items():
                if other != own and donor.profile.max_replicas >= target.max_replicas:
                    model_a = ThroughputModel(fit(donor.profile), donor.max_local_bsz, donor.profile.max_replicas)
                    predicted = predictor(bootstrap(mine, model_a).params)(target)
                    errors.setdefault((model, own), []).append(predicted / target.step_time_s - 1)
    return {key: np.concatenate(value) for key, value in errors.items()}


def median(errors: np.ndarray | None) -> object:
    return "-" if errors is None or not len(errors) else float(np.median(np.abs(errors)) * 100)


def main() -> None:
    results = {name: evaluate(name, method) for name, method in
               (("ours", ours), ("ours, (n, r) only", ours_even), ("published", published))}  # fmt: skip
    mine, blind, peer = results.values()
    prior, crude = with_prior(), bootstrapped()
    rows: list[list[object]] = []
    for key in mine.half:
        held_out, theirs = (np.abs(np.concatenate(r.half[key])) for r in (mine, peer))
        rows.append([
            f"{key[0]} {key[1]}", median(held_out), float(np.quantile(held_out, 0.95) * 100), median(theirs),
            float(np.quantile(theirs, 0.95) * 100), median(mine.from_4.get(key)), median(prior.get(key)),
            median(peer.from_4.get(key)), median(crude.get(key)),
        ])  # fmt: skip
    table(
        "relative error of predicted step time, %, held-out rows only",
        [
            "model, GPU type",
            "half",
            "p95",
            "published",
            "p95",
            "from 4",
            "with link prior",
            "published",
            "eq. 3.1",
        ],
        rows,
    )
    all_prior = np.abs(np.concatenate(list(prior.values())))
    figures = {
        "median_rel_err": mine.half_all(0.5),
        "p95_rel_err": mine.half_all(0.95),
        "median_rel_err_from_4": mine.from_4_all(0.5),
        "kendall_tau": float(np.mean(mine.taus)),
        "p95_rel_err_from_4": mine.from_4_all(0.95),
        "median_rel_err_from_4_link_prior": float(np.median(all_prior)),
        "p95_rel_err_from_4_link_prior": float(np.quantile(all_prior, 0.95)),
        "kendall_tau_least": min(mine.taus),
        "median_rel_err_bootstrapped": float(np.median(np.abs(np.concatenate(list(crude.values()))))),
        "median_rel_err_even_spread": blind.half_all(0.5),
        "p95_rel_err_even_spread": blind.half_all(0.95),
        "median_rel_err_from_4_even_spread": blind.from_4_all(0.5),
        "published_median_rel_err": peer.half_all(0.5),
        "published_p95_rel_err": peer.half_all(0.95),
        "published_median_rel_err_from_4": peer.from_4_all(0.5),
        "published_kendall_tau": float(np.mean(peer.taus)),
    }
    table("all rows", ["figure", "value"], [[name, value] for name, value in figures.items()])
    finish("estimator_accuracy", figures)


if __name__ == "__main__":
    main()
