"""How many nodes will have a job: a forecast for several horizons at once, and how high demand may rise. Pure.

Boosted trees, or sums, foretell the change from the newest count, each horizon by some of its own. Counts of nodes
are very persistent. So they serve only where they were better than the newest count on days not seen before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .boosted import Trees
from .node_features import MEMORY, NAMES, RECENT, Calendar, features, features_now, recent_most
from .node_series import Floats, NodeSeries
from .node_sums import NodeSums

HORIZONS = (1, 3, 6, 12, 18, 24, 30)  # slots: ten minutes to five hours
# (slots, certainty): the most nodes that run within so many slots, and how sure it is that no more will.
PEAKS = ((6, 0.9), (18, 0.7), (18, 0.9), (18, 0.95), (36, 0.9), (36, 0.95), (72, 0.9), (72, 0.95))


@dataclass(frozen=True)
class Change:
    """The foreseen change of running nodes until `slots` later, as a share of all nodes.

    part: of what the trees say that is reckoned with. trees None: the newest count stays.
    """

    slots: int
    part: float = 0.0
    trees: Trees | NodeSums | None = field(default=None, repr=False)

    def of(self, rows: Floats) -> Floats:
        """Return (rows,) changes."""
        return np.zeros(len(rows)) if self.trees is None else self.part * self.trees.predict(rows)


@dataclass(frozen=True)
class Rise:
    """How far running nodes rise above the most of the last half hour, within `slots`, as a share of all nodes.

    certainty: of no more. usual: the rise if nothing else is known, which is all that trees None go by.
    """

    slots: int
    certainty: float
    usual: float
    trees: Trees | NodeSums | None = field(default=None, repr=False)

    def of(self, rows: Floats) -> Floats:
        """Return (rows,) rises; they may be below 0."""
        return np.full(len(rows), self.usual) if self.trees is None else self.trees.predict(rows)


@dataclass(frozen=True)
class NodeForecast:
    """What is foreseen of one kind of nodes at a moment.

    running: nodes at that moment. recent: the most of the last half hour.
    means: (horizons,) running nodes at `HORIZONS`. peaks: the most running nodes by (slots, certainty).
    """

    running: float
    recent: float
    means: Floats
    peaks: Mapping[tuple[int, float], float]

    def mean_over(self, slots: int) -> float:
        """Return the mean of running nodes over the next `slots`, at most those of the farthest horizon."""
        ahead = np.arange(1, min(slots, HORIZONS[-1]) + 1)
        return float(np.interp(ahead, (0, *HORIZONS), (self.running, *self.means)).mean())

    def peak(self, slots: int, certainty: float) -> float:
        """Return the most nodes that run within `slots`, with this certainty. Both are of `PEAKS`."""
        return self.peaks[slots, certainty]


@dataclass(frozen=True)
class NodeDemand:
    """A fitted model, of one kind of nodes or of several. `until_s`: what it was fitted to had ended by then."""

    until_s: float
    changes: tuple[Change, ...]
    rises: tuple[Rise, ...]
    calendar: Calendar = field(default_factory=Calendar)

    @property
    def kinds(self) -> frozenset[type]:
        """Return what it is made of: trees, sums, or neither where the newest count is best."""
        every = [*(one.trees for one in self.changes), *(one.trees for one in self.rises)]
        return frozenset(type(one) for one in every if one is not None)

    def forecast(self, seen: Sequence[NodeSeries]) -> list[NodeForecast | None]:
        """Return what is foreseen at the end of each series, by that series alone; None where nothing is known."""
        able = [i for i, series in enumerate(seen) if len(series) and math.isfinite(series.filled[-1])]
        found: list[NodeForecast | None] = [None] * len(seen)
        if able:
            tails = [seen[i].of(max(len(seen[i]) - MEMORY, 0), len(seen[i])) for i in able]
            forecasts = self._forecasts(
                features_now(tails, self.calendar),
                np.array([np.nanmax(tail.filled[-RECENT:]) for tail in tails]),
                np.array([tail.filled[-1] for tail in tails]),
                np.array([tail.filled_total[-1] for tail in tails]),
            )
            for i, forecast in zip(able, forecasts, strict=True):
                found[i] = forecast
        return found

    def forecasts(self, series: NodeSeries, first: int = 0) -> list[NodeForecast]:
        """Return what is foreseen at the end of each slot from `first` on, each by what was before it alone."""
        return self._forecasts(
            features(series, self.calendar)[first:],
            recent_most(series)[first:],
            series.filled[first:],
            series.filled_total[first:],
        )

    def _forecasts(self, rows: Floats, recent: Floats, running: Floats, total: Floats) -> list[NodeForecast]:
        means = np.array([running + total * change.of(rows) for change in self.changes])
        peaks = np.array([np.maximum(recent + total * rise.of(rows), running) for rise in self.rises])
        means, peaks = np.clip(means, 0, total), np.minimum(peaks, total)
        keys = [(rise.slots, rise.certainty) for rise in self.rises]
        return [
            NodeForecast(
                float(running[i]),
                float(recent[i]),
                means[:, i],
                dict(zip(keys, peaks[:, i].tolist(), strict=True)),
            )
            for i in range(len(running))
        ]

    def to_json(self) -> Mapping[str, Any]:
        """Return the model as plain JSON values."""
        return {
            "until_s": self.until_s,
            "features": list(NAMES),
            "changes": [
                {"slots": one.slots, "part": one.part, "trees": _document(one.trees)} for one in self.changes
            ],
            "rises": [
                {
                    "slots": one.slots,
                    "certainty": one.certainty,
                    "usual": one.usual,
                    "trees": _document(one.trees),
                }
                for one in self.rises
            ],
        }


def _document(trees: Trees | NodeSums | None) -> Any:
    return trees.to_json() if isinstance(trees, NodeSums) else None if trees is None else trees.text


def read(document: Mapping[str, Any], calendar: Calendar) -> NodeDemand:
    """Return the model that `NodeDemand.to_json` wrote.

    Raises:
        ValueError: in one sentence, for any other document.
    """
    try:
        if document["features"] != list(NAMES):
            raise ValueError("it goes by other features than those of this version")
        changes = tuple(
            Change(int(row["slots"]), _finite(row["part"]), _trees(row["trees"])) for row in document["changes"]
        )
        rises = tuple(
            Rise(int(row["slots"]), _finite(row["certainty"]), _finite(row["usual"]), _trees(row["trees"]))
            for row in document["rises"]
        )
        until_s = _finite(document["until_s"])
    except ValueError as error:
        raise ValueError(f"node demand: {error}") from None
    except (KeyError, TypeError) as error:
        raise ValueError(f"node demand: is no such model: {type(error).__name__}: {error}") from None
    have = tuple(one.slots for one in changes), tuple((one.slots, one.certainty) for one in rises)
    if have != (HORIZONS, PEAKS):
        raise ValueError("node demand: it foretells other horizons than those of this version")
    return NodeDemand(until_s, changes, rises, calendar)


def _finite(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{value} is not accepted, must be finite")
    return found


def _trees(document: Any) -> Trees | NodeSums | None:
    if isinstance(document, dict):
        return NodeSums.read(document)
    return None if document is None else Trees(document).checked(len(NAMES))
