"""Max-min fairness over shares of time, by water filling (Gavel, OSDI'20, sections 4.1 and 4.3)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from .gavel import GavelOptions, GavelPolicy, Objective
from .registry import register


class MaxMinOptions(BaseModel):
    """What an operator may set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Whether shares of time are made equal, rather than the progress within them.
    type_blind: bool = False
    # Whether the next worst-off job is served best too, and so on. If not, anybody gets what the worst-off leaves.
    water_filling: bool = True
    # Least seconds that shares are kept, even if jobs arrive or end. A job without a share waits until then.
    least_hold_s: float = Field(default=0.0, ge=0.0)
    # Seed of the order in which a type-blind policy fills GPU types; it is drawn anew each round.
    seed: int = 0


OBJECTIVES = {  # by (type_blind, water_filling)
    (False, False): Objective.MAX_MIN_FAIRNESS_PERF,
    (False, True): Objective.WATER_FILLING_PERF,
    (True, False): Objective.MAX_MIN_FAIRNESS,
    (True, True): Objective.WATER_FILLING,
}


@register("max_min")
class MaxMinPolicy(GavelPolicy):
    """Makes the worst-off job as well off as can be, then the next worst-off, and so on.

    A job's progress is measured relative to that with an equal share of every GPU type. Shares are handed out in
    rounds, as in Gavel.
    """

    Options = MaxMinOptions

    def __init__(self, options: MaxMinOptions | None = None) -> None:
        asked = options or MaxMinOptions()
        objective = OBJECTIVES[asked.type_blind, asked.water_filling]
        super().__init__(GavelOptions(objective=objective, least_hold_s=asked.least_hold_s, seed=asked.seed))
