"""What teams have used of late, in value units, where what lies back longer counts less."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...core.placement import Placement
from ...core.teams import kind_of, price_of


def units_per_hour(
    placement: Placement, pool: str | None, prices: Mapping[str, float], duals: Mapping[str, float]
) -> float:
    """Return the value units that a placement in a pool takes an hour: GPUs times the price of their type.

    A shared GPU counts by its part.

    Args:
        prices, duals: by GPU type as a100@lab.
    """
    return placement.weight * price_of(prices, duals, kind_of(placement.gpu_type, pool))


@dataclass
class DecayedUse:
    """Value units by team, which count half after each half-life.

    half_life_s: seconds.
    """

    half_life_s: float
    _units: dict[str, float] = field(default_factory=dict)
    _at_s: float = -math.inf

    def begin(self, units: Mapping[str, float], at_s: float) -> None:
        """Begin with decayed value units by team that are known already."""
        self._units, self._at_s = dict(units), at_s

    def add(self, rates: Mapping[str, float], until_s: float) -> None:
        """Add what teams used from the last moment to `until_s`, at constant rates in value units an hour."""
        took_s = until_s - self._at_s
        if math.isfinite(took_s) and took_s > 0:
            left = 0.5 ** (took_s / self.half_life_s)
            self._units = {team: units * left for team, units in self._units.items()}
            for team, rate in rates.items():
                grown = rate / 3600 * self.half_life_s / math.log(2) * (1 - left)
                self._units[team] = self._units.get(team, 0.0) + grown
        self._at_s = max(self._at_s, until_s)

    @property
    def units(self) -> Mapping[str, float]:
        """Return the decayed value units of each team that used any."""
        return self._units
