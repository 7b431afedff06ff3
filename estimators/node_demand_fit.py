"""Fits the forecast of running nodes to what was counted up to a moment. Pure.

The newer part of the history is foretold first, in folds, each by trees of what was before it. Trees serve only
those horizons of which they did that better than what is simpler. Then they are fitted once more, to all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from . import boosted
from .boosted import Trees
from .node_demand import HORIZONS, PEAKS, Change, NodeDemand, Rise
from .node_features import Calendar, features, recent_most
from .node_series import SLOT_S, Bools, Floats, NodeSeries
from .node_sums import NodeSums, fit_sums

LEAST_SLOTS = 432  # known ones, of all series together, below which nothing is fitted: three days of one series
MOST_SLOTS = 120_000  # of all series together, the newest
MOST_ROWS = 12_000  # that trees are fitted to, spread evenly over the slots: neighbours are nearly alike
_FOLDS = (0.5, 0.75, 1.0)  # of the history: each part from the first on is foretold by what was before it
_FIRST = 144  # slots of a series whose features know too little: one day
_PARTS = (0.5, 1.0)  # of the foreseen change that may be reckoned with
_Settings = Mapping[str, Any]
_Strengths = Sequence[tuple[_Settings, float]]
# Counts with a shape by the day need large trees, and those that wander need small ones: the folds choose.
_SMALL: _Settings = {
    "num_leaves": 4, "min_data_in_leaf": 300, "learning_rate": 0.015, "feature_fraction": 0.3,
    "bagging_fraction": 0.5, "bagging_freq": 1, "lambda_l2": 10.0,
}  # fmt: skip
_LARGE: _Settings = {
    "num_leaves": 15, "min_data_in_leaf": 40, "learning_rate": 0.08, "feature_fraction": 0.5,
    "bagging_fraction": 0.7, "bagging_freq": 1,
}  # fmt: skip
# Each with the share of what is simpler that its error may have at most: large trees must be clearly better.
_STRENGTHS = ((_SMALL, 1.0), (_LARGE, 0.95))
_SUMS: _Strengths = (({"additive": True}, 1.0),)
_TREES = 100


@dataclass(frozen=True)
class _Rows:
    """The moments of all series: features, counts, and when each was."""

    features: Floats  # (rows, features)
    running: Floats
    recent: Floats
    total: Floats
    end_s: Floats
    usable: Bools  # whether somebody counted then, and a day before is known
    ahead: Mapping[int, Floats]  # horizon -> (rows,) nodes that ran so many slots later; nan where it is not known
    most: Mapping[int, Floats]  # slots -> (rows,) the most that ran within them

    def change(self, slots: int) -> Floats:
        """Return (rows,) the change of running nodes until so many slots later, as a share of all."""
        return (self.ahead[slots] - self.running) / self.total

    def rise(self, slots: int) -> Floats:
        """Return (rows,) how far they rise above the most of the last half hour, likewise."""
        return (self.most[slots] - self.recent) / self.total


def fit(
    history: Sequence[NodeSeries],
    now: float,
    *,
    calendar: Calendar | None = None,
    in_use: NodeDemand | None = None,
    seed: int = 0,
    additive: bool = False,
) -> NodeDemand | None:
    """Return a model of what had been counted by `now`; None: too little was.

    `in_use` is returned as it is where the new model foretells the held-back part worse. Slots that began before
    the last fit of `in_use` are not compared. `additive`: sums that people can read, in place of boosted trees.
    """
    most = MOST_SLOTS // max(len(history), 1)
    ended = [series.until(now) for series in history]
    seen = [series.of(max(len(series) - most, 0), len(series)) for series in ended if series.known.any()]
    if sum(int(series.known.sum()) for series in seen) < LEAST_SLOTS:
        return None
    days = calendar or Calendar()
    rows = _rows(seen, days)
    begin, end = min(series.start_s for series in seen), max(series.end_s for series in seen)
    folds = [begin + part * (end - begin) for part in _FOLDS]
    strengths = _SUMS if additive else _STRENGTHS
    changes = [_change(rows, folds, slots, seed, strengths) for slots in HORIZONS]
    rises = [_rise(rows, folds, slots, certainty, seed, strengths) for slots, certainty in PEAKS]
    if in_use is not None and _worse(rows, changes, rises, in_use):
        return in_use
    return NodeDemand(end, tuple(one for one, _ in changes), tuple(one for one, _ in rises), days)


def _rows(seen: Sequence[NodeSeries], calendar: Calendar) -> _Rows:
    every = -(-sum(len(series) for series in seen) // MOST_ROWS)
    return _Rows(
        np.concatenate([features(series, calendar) for series in seen]),
        np.concatenate([series.filled for series in seen]),
        np.concatenate([recent_most(series) for series in seen]),
        np.concatenate([np.maximum(series.filled_total, 1.0) for series in seen]),
        np.concatenate([series.start_s + SLOT_S * np.arange(1, len(series) + 1) for series in seen]),
        np.concatenate([series.known & _taught(series, every) for series in seen]),
        {slots: np.concatenate([_ahead(series, slots)[:, -1] for series in seen]) for slots in HORIZONS},
        {slots: np.concatenate([_ahead(series, slots).max(axis=1) for series in seen]) for slots, _ in PEAKS},
    )


def _taught(series: NodeSeries, every: int) -> Bools:
    """Return (slots,) every so many of the slots of which a day before is known."""
    slots = np.arange(len(series))
    return (slots >= _FIRST) & (slots % every == 0)


def _ahead(series: NodeSeries, slots: int) -> Floats:
    """Return (moments, slots) nodes that ran later; nan where not all is known, and where nodes came or went."""
    running, total = (np.concatenate([of, np.full(slots, np.nan)]) for of in (series.filled, series.filled_total))
    known = np.concatenate([series.known, np.zeros(slots, bool)])
    good = sliding_window_view(known, slots)[1:].all(axis=1)
    good &= (sliding_window_view(total, slots + 1) == total[: len(series), None]).all(axis=1)
    return np.where(good[:, None], sliding_window_view(running, slots)[1:], np.nan)


def _change(
    rows: _Rows, folds: Sequence[float], slots: int, seed: int, strengths: _Strengths
) -> tuple[Change, Floats]:
    """Return what is foreseen of one horizon, and (rows,) what was foretold in the folds, nan elsewhere."""
    target, unknown = rows.change(slots), np.full(len(rows.running), np.nan)
    best, part, said, least = None, 0.0, unknown, math.inf
    for settings, most in strengths:
        found = unknown.copy()
        for taught, held in _folds(rows, target, folds, slots):
            trees = _trees(rows, taught, target, {**settings, "objective": "l1"}, seed)
            found[held] = 0.0 if trees is None else trees.predict(rows.features[held])
        for tried in (0.0, *_PARTS):
            if (loss := _mean(np.abs(target - tried * found), rows.total)) < most * least:
                best, part, said, least = settings, tried, tried * found, loss
    if best is None or not part:
        return Change(slots), said
    taught = rows.usable & np.isfinite(target)
    return Change(slots, part, _trees(rows, taught, target, {**best, "objective": "l1"}, seed)), said


def _rise(
    rows: _Rows, folds: Sequence[float], slots: int, certainty: float, seed: int, strengths: _Strengths
) -> tuple[Rise, Floats]:
    """Return how far counts rise within some slots, and (rows,) what was foretold in the folds, nan elsewhere."""
    target, objective = rows.rise(slots), {"objective": "quantile", "alpha": certainty}
    pairs = list(_folds(rows, target, folds, slots))
    said = np.full(len(target), np.nan)
    for taught, held in pairs:
        said[held] = np.quantile(target[taught], certainty)
    best, least = None, _mean(_pinball(target - said, certainty), rows.total)
    for settings, most in strengths:
        found = np.full(len(target), np.nan)
        for taught, held in pairs:
            trees = _trees(rows, taught, target, {**settings, **objective}, seed)
            found[held] = said[held] if trees is None else trees.predict(rows.features[held])
        if (loss := _mean(_pinball(target - found, certainty), rows.total)) < most * least:
            best, said, least = settings, found, loss
    taught = rows.usable & np.isfinite(target)
    usual = float(np.quantile(target[taught], certainty)) if taught.any() else 0.0
    if best is None:
        return Rise(slots, certainty, usual), said
    return Rise(slots, certainty, usual, _trees(rows, taught, target, {**best, **objective}, seed)), said


def _folds(rows: _Rows, target: Floats, folds: Sequence[float], slots: int) -> Iterator[tuple[Bools, Bools]]:
    """Yield which rows teach and which are foretold. What teaches was known before any of the others."""
    able = rows.usable & np.isfinite(target)
    for begin_s, end_s in pairwise(folds):
        taught = able & (rows.end_s + SLOT_S * slots <= begin_s)
        held = able & (rows.end_s > begin_s) & (rows.end_s <= end_s)
        if taught.any() and held.any():
            yield taught, held


def _worse(
    rows: _Rows,
    changes: Sequence[tuple[Change, Floats]],
    rises: Sequence[tuple[Rise, Floats]],
    in_use: NodeDemand,
) -> bool:
    """Return whether rows that the model in use has not seen were foretold worse than it does."""
    unseen = rows.end_s > in_use.until_s
    if not unseen.any():
        return False
    more = 0.0
    for (one, said), old in zip(changes, in_use.changes, strict=True):
        target = rows.change(one.slots)
        held = unseen & np.isfinite(said)
        new_loss = np.abs(target - said)[held]
        more += _mean(new_loss - np.abs(target - old.of(rows.features))[held], rows.total[held])
    for (of, rose), before in zip(rises, in_use.rises, strict=True):
        target, sure = rows.rise(of.slots), of.certainty
        held = unseen & np.isfinite(rose)
        loss = _pinball(target - rose, sure)[held]
        more += _mean(loss - _pinball(target - before.of(rows.features), sure)[held], rows.total[held])
    return more > 0


def _trees(rows: _Rows, taught: Bools, target: Floats, settings: _Settings, seed: int) -> Trees | NodeSums | None:
    if "additive" in settings:
        return fit_sums(
            rows.features[taught],
            target[taught],
            rows.end_s[taught],
            seed=seed,
            weights=rows.total[taught],
            certainty=settings.get("alpha"),
        )
    return boosted.fit(
        rows.features[taught],
        target[taught],
        settings=settings,
        trees=_TREES,
        seed=seed,
        weights=rows.total[taught],
    )


def _mean(losses: Floats, weight: Floats) -> float:
    known = np.isfinite(losses)
    return float(np.average(losses[known], weights=weight[known])) if known.any() else 0.0


def _pinball(above: Floats, certainty: float) -> Floats:
    """Return the losses of quantiles that were passed by `above`."""
    return np.where(above > 0, certainty * above, (certainty - 1) * above)
