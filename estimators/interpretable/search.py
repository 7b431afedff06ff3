"""Bayesian search of settings: a Gaussian process over what was tried, and the greatest expected improvement next.

Source: Primo, ATC'22, equation 5.3 and section on the search. Its score adds lambda·C^gamma, which would reward
complexity where a higher performance is better. So here it is performance less lambda·C^gamma.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from .needs import library
from .table import Floats, Ints, Table

Point = Mapping[str, float]
FIRST = 4  # points of chance before the process is asked
_CANDIDATES = 1000  # of which the greatest expected improvement is taken
_NEARBY = 200  # more of them, around the best so far
_FEW = 5  # of more settings than so many, only a few change at a time around the best


@dataclass(frozen=True)
class Dimension:
    """One setting. `log`: it is searched by its logarithm. `whole`: it takes whole numbers.

    Raises:
        ValueError: for ends that are not in order, and for a logarithm of what is not above 0.
    """

    name: str
    low: float
    high: float
    log: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(f"{self.name}: {self.low} to {self.high} is not accepted, must be in ascending order")

    def at(self, share: float) -> float:
        """Return the value at a share of the way from low to high."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = low + share * (high - low)
        value = math.exp(value) if self.log else value
        return float(round(value)) if self.whole else min(max(value, self.low), self.high)

    def share(self, value: float) -> float:
        """Return how far a value lies on the way from low to high."""
        low, high, at = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        return min(max((at - low) / (high - low), 0.0), 1.0)


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and the score that they had."""

    point: Point
    score: float


@dataclass(frozen=True)
class Found:
    """What a search has tried, in order."""

    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        """Return the trial with the highest score, the first of equal ones."""
        return max(self.trials, key=lambda trial: trial.score)


def score(performance: float, complexity: float, lambda_: float = 0.0, gamma: float = 0.5) -> float:
    """Return performance less lambda·complexity^gamma; higher is better, and complexity 0 costs nothing.

    Raises:
        ValueError: in one sentence, for lambda or gamma below 0.
    """
    if not lambda_ >= 0 or not gamma >= 0:
        raise ValueError(f"lambda, gamma: {lambda_}, {gamma} are not accepted, must be 0 or more")
    return performance - (lambda_ * complexity**gamma if complexity > 0 else 0.0)


def search(
    objective: Callable[[Point], float],
    space: Sequence[Dimension],
    budget: int,
    *,
    seed: int = 0,
    known: Sequence[Point] = (),
    at_once: int = 1,
    chance: bool = False,
) -> Found:
    """Try settings, and return what was tried; with one seed the same is tried.

    Args:
        objective: the score of settings, higher is better.
        budget: trials.
        known: settings that are tried first, as the defaults.
        at_once: trials in threads beside each other; each counts as of the mean score until it has ended.
        chance: draw all settings at random, for comparison.

    Raises:
        ValueError: in one sentence, for a budget or number of threads below 1, and for a score that is not finite.
        LibraryMissing: where the extra is not installed.
    """
    for name, given in (("budget", budget), ("at_once", at_once)):
        if given < 1:
            raise ValueError(f"{name}: {given} is not accepted, must be a whole number of at least 1")
    random = np.random.default_rng(seed)
    waiting = [np.array([one.share(float(point[one.name])) for one in space]) for point in known]
    tried, scores = list[Floats](), list[float]()
    trials = list[Trial]()
    with ThreadPoolExecutor(at_once) as threads:
        while len(trials) < budget:
            count = min(at_once, budget - len(trials))
            shares, points = list[Floats](), list[dict[str, float]]()
            for _ in range(count):
                if waiting:
                    share = waiting.pop(0)
                elif chance or len(tried) + len(shares) < FIRST + len(known):
                    share = random.uniform(size=len(space))
                else:
                    share = _next([*tried, *shares], [*scores, *[float(np.mean(scores))] * len(shares)], random)
                points.append({one.name: one.at(float(x)) for one, x in zip(space, share, strict=True)})
                # Whole numbers are where they were rounded to, so that the process knows what was tried.
                shares.append(np.array([one.share(points[-1][one.name]) for one in space]))
            # One at a time runs here, so that Ctrl-C breaks it off.
            values = map(objective, points) if at_once == 1 else threads.map(objective, points)
            for share, point, value in zip(shares, points, values, strict=True):
                if not math.isfinite(value):
                    raise ValueError(f"score: {value} of {point} is not accepted, must be finite")
                tried.append(share)
                scores.append(value)
                trials.append(Trial(point, value))
    return Found(tuple(trials))


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return how much more than the best is expected of each; 0 where nothing is in doubt."""
    sure = deviation <= 0
    safe = np.where(sure, 1.0, deviation)
    z = (mean - best) / safe
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return np.where(sure, 0.0, (mean - best) * ndtr(z) + safe * density)


def _next(tried: Sequence[Floats], scores: Sequence[float], random: np.random.Generator) -> Floats:
    """Return the shares with the greatest expected improvement among candidates of chance."""
    processes, kernels = library("sklearn.gaussian_process"), library("sklearn.gaussian_process.kernels")
    known, values = np.array(tried), np.array(scores)
    spread = float(values.std()) or 1.0
    values = (values - values.mean()) / spread
    # A few awful scores would flatten all others, so they count as bad and no worse.
    values = np.maximum(values, np.median(values) - 2 * float(np.median(np.abs(values - np.median(values)))) - 0.5)
    kernel = kernels.ConstantKernel(1.0, (0.01, 100)) * kernels.Matern(
        np.full(known.shape[1], 0.3), (0.02, 10.0), nu=2.5
    ) + kernels.WhiteKernel(1e-4, (1e-8, 1.0))
    process = processes.GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=1, random_state=int(random.integers(2**31))
    )
    near = known[int(values.argmax())] + 0.1 * random.standard_normal((_NEARBY, known.shape[1]))
    if known.shape[1] > _FEW:  # of many settings most stay as they are best so far
        near = _few_changed(known[int(values.argmax())], near, random)
    candidates = np.vstack([random.uniform(size=(_CANDIDATES, known.shape[1])), near.clip(0, 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a width at its bound is fine
        process.fit(known, values)
        mean, deviation = process.predict(candidates, return_std=True)
    best = float(process.predict(known).max())
    return np.asarray(candidates[int(expected_improvement(mean, deviation, best).argmax())], float)


def _few_changed(best: Floats, near: Floats, random: np.random.Generator) -> Floats:
    """Return points in which a few settings differ from the best, half of those anywhere between their ends."""
    anywhere = random.uniform(size=near.shape) < 0.5
    moved = np.where(anywhere, random.uniform(size=near.shape), near)
    return np.where(random.uniform(size=near.shape) < _FEW / 2 / near.shape[1], moved, best)


def folds(table: Table, count: int = 3, seed: int = 0) -> Iterator[tuple[Ints, Ints]]:
    """Yield (rows to fit, rows to judge). With times, what is judged is newer than what is fitted.

    Raises:
        ValueError: for fewer than two folds, and for fewer rows than folds need.
    """
    if count < 2 or len(table.target) < 2 * (count + 1):
        raise ValueError(f"folds: {count} of {len(table.target)} rows are not accepted, must be at least 2")
    order = table.in_order(seed)
    parts = np.array_split(order, count + 1 if table.times_s is not None else count)
    for number in range(count):
        if table.times_s is not None:
            yield np.concatenate(parts[: number + 1]), parts[number + 1]
        else:
            yield np.concatenate([part for at, part in enumerate(parts) if at != number]), parts[number]
