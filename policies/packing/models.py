"""What a policy that packs jobs is told by models: Sharing Scores, speeds of pairs, and what is to arrive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ...core.usage import Usage
from ...estimators.affinity import pair_speeds, sharing
from ...estimators.affinity.labels import Thresholds
from ...estimators.affinity.uses import row_of
from ..contract.arrivals import Arrivals

SLOT_S = 600.0  # of the forecast of arrivals
AHEAD = 5  # slots


@dataclass(frozen=True)
class PackingModels:
    """The models that a policy goes by.

    score: the Sharing Score of a job by its use of GPUs: 0 tiny, 1 medium, 2 jumbo.
    speeds: how fast each of two jobs is beside the other, over how fast it is alone; None: nobody foretells it.
    ahead: the mean of the next `AHEAD` slots, at a time on the clock of rounds; None: as the round tells, and as
        many as in the last hour where it tells nothing.
    """

    score: Callable[[Usage], int]
    speeds: Callable[[Usage, Usage], tuple[float, float]] | None = None
    ahead: Callable[[float], Arrivals] | None = None


@cache
def default_models(thresholds: tuple[float, float]) -> PackingModels:
    """Return the models that were fitted to Gavel's pairs, with other thresholds where these are given."""
    speeds = pair_speeds.default()
    scores = (
        sharing.default() if thresholds == (0.85, 0.95) else sharing.fit_to_speeds(speeds, Thresholds(*thresholds))
    )

    def score(usage: Usage) -> int:
        return int(scores.of(row_of(usage)[None, :])[0])

    def both(new: Usage, old: Usage) -> tuple[float, float]:
        rows = row_of(new)[None, :], row_of(old)[None, :]
        return float(speeds.of(*rows)[0]), float(speeds.of(*rows[::-1])[0])

    return PackingModels(score, both)
