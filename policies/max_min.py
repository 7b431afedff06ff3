"""Max-min fairness over shares of time, by water filling (Gavel, OSDI'20, sections 4.1 and 4.3)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from .gavel import GavelOptions, GavelPolicy, Objective
from .registry import register


class MaxMinOptions(BaseModel):
    """What an operator may set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # A share of time is worth the same on every GPU type: shares are equal, not the progress that is made in them.
    type_blind: bool = False
    # False: once the worst-off job is as well off as can be, what is left goes to anybody.
    water_filling: bool = True
    # Seconds that shares are kept at least, though jobs arrive or end. A job without a share waits until then.
    least_hold_s: float = Field(default=0.0, ge=0.0)
    # Of the order in which a type-blind policy fills GPU types, drawn anew each round.
    seed: int = 0


OBJECTIVES = {  # (type_blind, water_filling) -> what Gavel's code calls it
    (False, False): Objective.MAX_MIN_FAIRNESS_PERF,
    (False, True): Objective.WATER_FILLING_PERF,
    (True, False): Objective.MAX_MIN_FAIRNESS,
    (True, True): Objective.WATER_FILLING,
}


@register("max_min")
class MaxMinPolicy(GavelPolicy):
    """Nobody's progress, over that with an equal share of every GPU type, can grow but at the cost of a worse-off.

    The shares are handed out in rounds as Gavel's are.
    """

    Options = MaxMinOptions

    def __init__(self, options: MaxMinOptions | None = None) -> None:
        asked = options or MaxMinOptions()
        objective = OBJECTIVES[asked.type_blind, asked.water_filling]
        super().__init__(GavelOptions(objective=objective, least_hold_s=asked.least_hold_s, seed=asked.seed))
