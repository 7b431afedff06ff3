"""A policy as it is offered to users: it plans rounds, declares its traits and explains its decisions."""

from __future__ import annotations

from typing import Protocol

from .explanation import Explanation, plain_explanation
from .round import Plan, Planner, Round
from .traits import PolicyTraits


class Policy(Planner, Protocol):
    """What `register` accepts. A class that derives from this one inherits `explain`."""

    traits: PolicyTraits

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain one job's part of a plan that this policy made of the round.

        Raises:
            KeyError: if the round has no such job.
        """
        return plain_explanation(job, round, plan)
