"""What one solve of a choice program leaves for the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from .near import Box, Near, furthest, near_around, no_box
from .problem import TOLERANCE
from .rows import Floats
from .simplex import Entering
from .snapshot import Snapshot

# How far prices are expected to go, as a part of them: so many times as far as at last, within limits.
_AHEAD, _LEAST_REACH, _MOST_REACH = 2.0, 0.02, 0.15


@dataclass(eq=False)
class Memory:
    """Prices, the box in which the states of the program's rows hold, a basis.

    worth: of a row, on average; moved: by what part prices changed at last; left: (limits,) by the plan.
    """

    prices: Floats | None = None
    worth: float = 1.0
    moved: float = 0.0
    held: Box = field(default_factory=no_box)
    basic: Entering | None = None
    left: Floats | None = None

    def near(self, snapshot: Snapshot, prices: Floats, reach: float) -> Near:
        """Around `prices`, by so large a part of them; in the box there was while it serves."""
        given = *snapshot.frame, *snapshot.known
        near, self.held = near_around(*given, self.held, prices, reach, self.typical(snapshot))
        return near

    @property
    def ahead(self) -> float:
        """By how large a part of them prices are expected to move."""
        return min(max(_AHEAD * self.moved, _LEAST_REACH), _MOST_REACH)

    def learn(self, snapshot: Snapshot, prices: Floats, dual: float) -> None:
        """What the rows are worth now, and how far prices are from the last ones."""
        if self.prices is not None:
            self.moved = furthest(self.prices, prices, self.typical(snapshot))
        self.worth = max(abs(dual) / max(len(snapshot.rows.order), 1), TOLERANCE)

    def typical(self, snapshot: Snapshot) -> float:
        """What a unit of a limit costs, about."""
        return self.worth * len(snapshot.rows.order) / max(sum(snapshot.capacity.tolist()), 1.0)
