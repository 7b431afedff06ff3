"""GENIE: jobs with a deadline by the least laxity, then all others, and nothing that runs is stopped.

Its GPU counts are those that jobs ask for (Chen et al., TPDS 2021, as UniSched has it as a peer).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import Plan, Round
from .contract.traits import PolicyTraits
from .leases.due import due_of, planned
from .queueing import QueueingOptions, served
from .registry import register


@register("genie")
class GeniePolicy:
    """Starts jobs with a deadline in the order of their slack, and others where none of these waits."""

    Options = QueueingOptions
    traits = PolicyTraits(
        fixed_sizes=True, uses_models=False, preempts=False, needs_expected=True, serves_deadlines=True
    )

    def __init__(self, options: QueueingOptions | None = None) -> None:
        self.options = options or QueueingOptions()

    def plan(self, round: Round) -> Plan:
        columns = round.columns
        by_s = due_of(columns, round.now, columns.remaining_s).by_s
        slack_s = by_s - round.now - np.nan_to_num(columns.remaining_s)
        order = np.lexsort((columns.submitted_s, slack_s))
        plan = served(round, order, self.options, preempts=False)
        return replace(plan, figures={"slack_s": slack_s}, deadlines=planned(columns, by_s))

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its slack."""
        i = job_of(job, round)
        slack_s = float(plan.figures["slack_s"][i])
        told = f"Its slack is {slack_s:.0f} s, and least slack is served first."
        if np.isinf(slack_s):
            told = "It has no deadline that it can meet, and comes after those that have."
        length, facts = expectation(round.jobs[i], "it is taken to need nothing")
        return explained(job, round, plan, [told, length], {"slack_s": slack_s, **facts})
