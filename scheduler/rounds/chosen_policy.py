"""Holds the policy that plans now. An operator may choose another one while the scheduler runs."""

from __future__ import annotations

from functools import partial

from ...core.settings import Settings
from ...policies.catalogue import make_policy
from ...policies.per_pool import PerPool


class ChosenPolicy:
    """The policy of one service. `now`: the one that plans."""

    def __init__(self, settings: Settings) -> None:
        self.now = planner_of(settings)


def planner_of(settings: Settings) -> PerPool:
    """Return the policy of these settings, for each pool. Raises: ValueError for options it does not accept."""
    return PerPool(partial(make_policy, settings.policy, **settings.policy_options))
