"""Who stops at a rung: ASHA, successive halving and HyperBand. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


def levels(grace: int, reduction: int, epochs: int) -> list[int]:
    """Return the epochs at which trials are compared, below the last: grace, grace * reduction, …"""
    found, at = [], grace
    while at < epochs:
        found.append(at)
        at *= reduction
    return found


def expected_epochs(epoch: int, until: int, rungs: Sequence[int], reduction: int) -> float:
    """Return how many epochs a trial still trains in the mean, if one of `reduction` goes on at each rung."""
    found, part = 0.0, 1.0
    for after in [*(rung for rung in rungs if epoch < rung < until), until]:
        found, epoch, part = found + part * (after - epoch), after, part / reduction
    return found


def goodness(metric: float | None, mode: str) -> float:
    """Return what is better where it is larger. None and NaN are the worst."""
    if metric is None or not math.isfinite(metric):
        return -math.inf
    return metric if mode == "max" else -metric


def best_first(metrics: Mapping[int, float | None], mode: str) -> list[int]:
    """Return trials from the best to the worst; of equal ones the lower number comes first."""
    return sorted(metrics, key=lambda trial: (-goodness(metrics[trial], mode), trial))


def asha_stops(
    arrived: Iterable[int], recorded: Mapping[int, float | None], reduction: int, mode: str
) -> list[int]:
    """Return which of the trials that arrived at a rung stop there.

    A trial goes on if it is not below the (1 - 1 / reduction) quantile of all that ever came to the rung. Those
    that arrive together are recorded together, as trials of a group do. So a group of new trials loses its worse
    part, where one after another the first would always go on. A trial alone goes on, unless it is NaN.

    Args:
        arrived: numbers of the trials that are decided on.
        recorded: the metric at this rung of every trial that came to it, the arrived included.
    """
    known = np.array([goodness(one, mode) for one in recorded.values()])
    finite = known[np.isfinite(known)]
    if not len(finite):
        return sorted(arrived)
    lowest = float(finite.min()) - 1.0  # NaN counts as worse than the worst
    bar = float(np.quantile(np.where(np.isfinite(known), known, lowest), 1 - 1 / reduction))
    return sorted(trial for trial in arrived if (own := goodness(recorded[trial], mode)) < bar or own == -math.inf)


def halving_keeps(metrics: Mapping[int, float | None], reduction: int, mode: str) -> list[int]:
    """Return the trials of a rung that go on: the best of all that reached it, at least one. NaN never does."""
    keep = max(len(metrics) // reduction, 1)
    return sorted(one for one in best_first(metrics, mode)[:keep] if goodness(metrics[one], mode) > -math.inf)


@dataclass(frozen=True)
class Bracket:
    """Trials that are halved together: how many, and the epochs at which they are, the last included."""

    trials: int
    ends: tuple[int, ...]


def brackets(algorithm: str, trials: int, grace: int, reduction: int, epochs: int) -> list[Bracket]:
    """Return the brackets of a study: one for successive halving, several for HyperBand, none else.

    HyperBand (Li et al. 2018, algorithm 1) spends the same on each. Bracket s starts s rungs below the top, with
    about (s_max + 1) / (s + 1) * reduction**s trials. These numbers are scaled to all trials of the study.
    """
    if algorithm == "halving":
        return [Bracket(trials, (*levels(grace, reduction, epochs), epochs))]
    if algorithm != "hyperband":
        return []
    rungs = levels(grace, reduction, epochs)
    most = len(rungs)
    sizes = [math.ceil((most + 1) / (s + 1) * reduction**s) for s in range(most, -1, -1)]
    counts = shares(sizes, trials)
    ends = [(*rungs[most - s :], epochs) for s in range(most, -1, -1)]
    return [Bracket(count, end) for count, end in zip(counts, ends, strict=True) if count]


def bracket_of(trial: int, of: Sequence[Bracket]) -> int:
    """Return the index of a trial's bracket; the first trials are of the first."""
    for index, bracket in enumerate(of):
        if trial < bracket.trials:
            return index
        trial -= bracket.trials
    raise ValueError(f"no bracket has a trial {trial}")


def shares(weights: Sequence[float], total: int) -> list[int]:
    """Return whole numbers that sum to `total`, in proportion to weights, by largest remainders."""
    whole = sum(weights)
    exact = [total * weight / whole for weight in weights]
    found = [math.floor(one) for one in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (found[i] - exact[i], i))
    for i in by_remainder[: total - sum(found)]:
        found[i] += 1
    return found
