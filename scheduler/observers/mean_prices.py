"""The mean price of a GPU of each type over past rounds, as the program has it: for value units."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress

from ...core.json_numbers import dumps
from ..store.failures import StoreFailure
from ..store.store import Store
from .hooks import CycleHook, RoundDone

FACT = "mean_prices"
HALF_LIFE_S = 86_400.0  # after a day a round counts half
SAVE_S = 600.0


class MeanPrices(CycleHook):
    """Adds up the prices of rounds. It lasts over restarts, but for the last minutes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sums: dict[str, tuple[float, float]] = _read(store)  # by type: price times weight, weight
        self._at_s: float | None = None
        self._saved_s = -math.inf

    @property
    def now(self) -> Mapping[str, float]:
        """Return the means by GPU type, named as `Plan.prices` does."""
        return {kind: total / weight for kind, (total, weight) in self._sums.items() if weight > 0}

    def planned(self, done: RoundDone) -> None:
        """Count the prices of a round."""
        prices, now = done.plan.prices, done.round.now
        if not prices:
            return
        left = 1.0 if self._at_s is None else 0.5 ** (max(now - self._at_s, 0.0) / HALF_LIFE_S)
        self._at_s = now
        for kind, price in prices.items():
            if math.isfinite(price):
                total, weight = self._sums.get(kind, (0.0, 0.0))
                self._sums[kind] = total * left + float(price), weight * left + 1.0
        if now - self._saved_s >= SAVE_S:
            self._saved_s = now
            with suppress(StoreFailure):  # the watch of the store tells it, and it is written again
                self._store.write_fact(FACT, dumps(self._sums))


def _read(store: Store) -> dict[str, tuple[float, float]]:
    try:
        found = json.loads(store.read_fact(FACT) or "{}")
        return {str(kind): (float(total), float(weight)) for kind, (total, weight) in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
