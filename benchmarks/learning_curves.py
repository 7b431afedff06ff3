"""When will a metric reach its target? Asked of 34 measured learning curves, while they are under way.

    python -m benchmarks.learning_curves

A job ends when its metric reaches 99 % of the best value of its run, as in UniSched's evaluation. It is asked
after 20, 40, 50, 60 and 80 % of the epochs until then. The error is that of the epoch, relative to the true one.

* *maximum*: a job plans with all epochs of its script;
* *published*: the eleven families by iterated least squares from their published initial values;
* *alone*: the house's ensemble of the same families, by the job's own curve;
* *earlier*: with one earlier run of the model at another batch size, over all pairs.

`saving_at_best` and `saving_at_99` are the part of all epochs that a job saves which ends with its best value, or
with 99 % of it (Figure 1 of the paper: up to 22 and 31 %).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from coadapt.estimators.curves.curve import Curve
from coadapt.estimators.curves.forecast import Reaching, until_reached

from .harness import finish, table
from .learning_curve_data import MODELS, MeasuredCurve, measured_curves
from .published_curves import published_epoch

PARTS = (0.2, 0.4, 0.5, 0.6, 0.8)  # half of the way is where Figure 7d asks
OF_BEST = 0.99
Ask = Callable[[MeasuredCurve, int], tuple[float, float, float]]  # -> epochs: mean, low, high


def maximum(run: MeasuredCurve, done: int) -> tuple[float, float, float]:
    return run.epochs, done, run.epochs


def published(run: MeasuredCurve, done: int) -> tuple[float, float, float]:
    """Ask the peer, on the published scale: a loss is 1 - loss / first loss."""
    target, values = run.target(OF_BEST), run.values
    if run.sign > 0:
        epoch = published_epoch(values[:done], target.at_least or 0.0, run.epochs)
    else:
        goal = 1 - (target.at_most or 0.0) / values[0]
        epoch = published_epoch(1 - values[:done] / values[0], goal, run.epochs)
    return epoch, done, run.epochs


def ours(run: MeasuredCurve, done: int, earlier: Sequence[Curve] = ()) -> tuple[float, float, float]:
    found: Reaching = until_reached(run.target(OF_BEST), run.until(done), done, run.epochs, earlier)
    return done + found.left, done + found.low, done + found.high


def with_earlier(other: MeasuredCurve) -> Ask:
    known = [other.until(other.epochs)]
    return lambda run, done: ours(run, done, known)


class Errors:
    """Relative errors of one way to ask, by model; how often the band held the truth, and what an answer took."""

    def __init__(self, part: float) -> None:
        self.part = part
        self.of: dict[str, list[float]] = {model: [] for model in MODELS}
        self.within: list[bool] = []
        self.below_high: list[bool] = []
        self.took_s: list[float] = []

    def ask(self, run: MeasuredCurve, how: Ask) -> None:
        true = run.reached(run.target(OF_BEST))
        done = int(self.part * true)
        begun_s = time.perf_counter()
        answer = how(run, done)
        self.took_s.append(time.perf_counter() - begun_s)
        epoch, low, high = (min(max(round(value), done + 1), run.epochs) for value in answer)
        self.of[run.model].append(abs(epoch - true) / true)
        self.within.append(low <= true <= high)
        self.below_high.append(true <= high)

    @property
    def all(self) -> np.ndarray:
        return np.concatenate([np.array(errors) for errors in self.of.values()])


def asked(part: float) -> dict[str, Errors]:
    """Ask in all ways after a part of the epochs until the target."""
    runs = measured_curves()
    found = {name: Errors(part) for name in ("maximum", "published", "alone", "earlier")}
    for run in runs:
        found["maximum"].ask(run, maximum)
        found["published"].ask(run, published)
        found["alone"].ask(run, ours)
        for other in runs:
            if other is not run and other.model == run.model:
                found["earlier"].ask(run, with_earlier(other))
    return found


def saved(part: float) -> float:
    """Return the mean part of the epochs that runs save which end at a part of their best value."""
    return float(np.mean([1 - run.reached(run.target(part)) / run.epochs for run in measured_curves()]))


def main() -> None:
    figures: dict[str, float | int] = {"curves": len(measured_curves())}
    rows, worse = [], 0
    took_s: dict[str, list[float]] = {}
    for part in PARTS:
        found = asked(part)
        for name, errors in found.items():
            percent = round(100 * part)
            prefix = "" if name == "earlier" else f"{name}_"
            figures[f"{prefix}median_rel_err_at_{percent}"] = round(float(np.median(errors.all)), 3)
            figures[f"{prefix}mean_rel_err_at_{percent}"] = round(float(errors.all.mean()), 3)
            if name in ("alone", "earlier"):
                figures[f"{prefix}within_band_at_{percent}"] = round(float(np.mean(errors.within)), 2)
                figures[f"{prefix}below_high_at_{percent}"] = round(float(np.mean(errors.below_high)), 2)
            by_model = [float(np.median(errors.of[model])) for model in MODELS]
            rows.append([name, f"{percent} %", float(np.median(errors.all)), float(errors.all.mean()), *by_model])
        worse += np.median(found["alone"].all) > np.median(found["maximum"].all)
        for name, errors in found.items():
            took_s.setdefault(name, []).extend(errors.took_s)
    rows.sort(key=lambda row: ("maximum", "published", "alone", "earlier").index(row[0]))
    columns = ["goes by", "asked at", "median", "mean", *MODELS]
    table("relative error of the epoch of 99 % of the best value; by model: median", columns, rows)
    figures["alone_worse_than_maximum"] = int(worse)
    for name in ("published", "alone"):
        figures[f"{name}_answer_ms"] = round(1e3 * float(np.median(took_s[name])), 1)
    figures["saving_at_best"], figures["saving_at_99"] = round(saved(1.0), 3), round(saved(OF_BEST), 3)
    table(
        "epochs saved by ending at a value",
        ["ends at", "saved", "Figure 1"],
        [["the best value", figures["saving_at_best"], "up to 0.22"],
         ["99 % of it", figures["saving_at_99"], "up to 0.31"]],
    )  # fmt: skip
    finish("learning_curves", figures)


if __name__ == "__main__":
    main()
