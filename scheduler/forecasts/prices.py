"""What a GPU of each type was worth in the rounds of the last day: the mean of the program's duals."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Mapping

DAY_S = 86_400.0
MOST = 5000  # rounds


class Prices:
    """Prices of rounds, as they come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rounds: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=MOST)

    def add(self, now_s: float, prices: Mapping[str, float]) -> None:
        """Take note of the prices of a round."""
        known = {t: float(price) for t, price in prices.items() if math.isfinite(price)}
        with self._lock:
            self._rounds.append((now_s, known))

    def mean(self, now_s: float) -> dict[str, float]:
        """Return the mean price of each GPU type over a day; {}: no policy of rounds had prices."""
        with self._lock:
            rounds = [prices for at_s, prices in self._rounds if at_s > now_s - DAY_S and prices]
        types = sorted({gpu_type for prices in rounds for gpu_type in prices})
        found = {}
        for gpu_type in types:
            known = [prices[gpu_type] for prices in rounds if gpu_type in prices]
            found[gpu_type] = sum(known) / len(known)
        return found if any(price > 0 for price in found.values()) else {}
