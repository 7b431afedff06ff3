"""Least laxity: jobs whose slack runs out, then those without a deadline, then the others with one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import Field

from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import Plan, Round
from .contract.traits import PolicyTraits
from .leases.due import due_of, planned
from .queueing import QueueingOptions, served
from .registry import register


class LaxityOptions(QueueingOptions):
    # A deadline whose slack is less than this, and a round, is served first.
    urgent_s: float = Field(default=300.0, ge=0)


@register("laxity")
class LaxityPolicy:
    """Serves deadlines when they need it, and best effort by the time that is left before that."""

    Options = LaxityOptions
    traits = PolicyTraits(
        fixed_sizes=True, uses_models=False, preempts=True, needs_expected=True, serves_deadlines=True
    )

    def __init__(self, options: LaxityOptions | None = None) -> None:
        self.options = options or LaxityOptions()

    def plan(self, round: Round) -> Plan:
        columns = round.columns
        due = due_of(columns, round.now, columns.remaining_s)
        slack_s = due.by_s - round.now - np.nan_to_num(columns.remaining_s)
        urgent, best_effort = slack_s <= self.options.urgent_s + round.length, np.isinf(slack_s)
        tier = np.where(urgent, 0, np.where(best_effort, 1, 2))
        key = np.where(best_effort, np.nan_to_num(columns.remaining_s, nan=np.inf), slack_s)
        order = np.lexsort((columns.submitted_s, key, tier))
        plan = served(round, order, self.options, preempts=True)
        return replace(plan, figures={"slack_s": slack_s, "tier": tier}, deadlines=planned(columns, due.by_s))

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its slack and by what is served before it."""
        i = job_of(job, round)
        slack_s, tier = float(plan.figures["slack_s"][i]), int(plan.figures["tier"][i])
        standing = [
            f"Its slack is {slack_s:.0f} s: it is served first, as that runs out."
            if tier == 0
            else "It has no deadline that it can meet: it comes after those whose slack runs out."
            if tier == 1
            else f"Its slack is {slack_s:.0f} s: it comes last, as it can wait."
        ]
        length, facts = expectation(round.jobs[i], "it comes last of its kind")
        return explained(job, round, plan, [*standing, length], {"slack_s": slack_s, "tier": tier, **facts})
