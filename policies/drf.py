"""Dominant-resource fairness over jobs (Ghodsi et al., NSDI'11), by their demands of GPUs, CPUs and memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .contract.explanation import Explanation, explained, job_of
from .contract.round import Plan, Round
from .contract.traits import PolicyTraits
from .demanding import demands_of
from .provisioning.options import provisioned
from .provisioning.told import told
from .queueing import ProvisionedOptions, served
from .registry import register

KINDS = ("GPUs", "CPUs", "memory")


@register("drf")
class DrfPolicy:
    """Admits the jobs of the smallest dominant share: the largest part that one asks for of any amount.

    Each job counts as a user (as in Synergy, OSDI'22, section 5.7). A job demands what it asks for, and with the
    option `provisioning` its best case. With `greedy` it gets just that, as under the published scheduler.
    """

    Options = ProvisionedOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=True)

    def __init__(self, options: ProvisionedOptions | None = None) -> None:
        self.options = options or ProvisionedOptions()
        self.traits = provisioned(self.traits, self.options)

    def plan(self, round: Round) -> Plan:
        """Serve jobs by priority, then by dominant share."""
        parts = demands_of(round, self.options).parts
        dominant = parts.max(axis=1) if len(parts) else np.zeros(0)
        plan = served(round, round.columns.by(dominant), self.options, preempts=True)
        return replace(
            plan, figures={**plan.figures, "dominant_share": dominant, "dominant": parts.argmax(axis=1)}
        )

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its dominant share."""
        i = job_of(job, round)
        share, kind = float(plan.figures["dominant_share"][i]), KINDS[int(plan.figures["dominant"][i])]
        said = [f"Its dominant share is {share:.3g} of the cluster's {kind}; the jobs of the smallest run first."]
        provisioned, facts = told(job, round, plan)
        found = {"dominant_share": share, "dominant": kind, **facts}
        return explained(job, round, plan, [*said, *provisioned], found)
