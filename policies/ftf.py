"""Finish-time fairness: the jobs that are worst off against their share of the cluster run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import Plan, Round
from .contract.traits import PolicyTraits
from .provisioning.options import provisioned
from .provisioning.told import told
from .queueing import ProvisionedOptions, served
from .registry import register
from .themis import finish_time_fairness


@register("ftf")
class FtfPolicy:
    """Runs the jobs of the highest ρ: time in the shared cluster over time on a 1/N share of it, for N jobs.

    ρ is that of Themis (NSDI'20), without its auctions, as Synergy orders jobs by it (OSDI'22, section 5.1).
    """

    Options = ProvisionedOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=True, needs_expected=True)

    def __init__(self, options: ProvisionedOptions | None = None) -> None:
        self.options = options or ProvisionedOptions()
        self.traits = provisioned(self.traits, self.options)

    def plan(self, round: Round) -> Plan:
        """Serve jobs by priority, then by ρ, largest first."""
        columns = round.columns
        rho = finish_time_fairness(columns, round.now, sum(round.cluster.capacity().values()))
        plan = served(round, columns.by(-rho), self.options, preempts=True)
        return replace(plan, figures={**plan.figures, "rho": rho})

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its finish-time fairness."""
        i, rho = job_of(job, round), plan.figures["rho"]
        worse = int(np.count_nonzero(rho > rho[i]))
        length, expected = expectation(round.jobs[i], "it is taken to need as long as it has had")
        standing = [
            f"Its finish-time fairness is {rho[i]:.3g}, and {worse} of {len(rho)} jobs are worse off.",
            "The jobs that are worst off run.",
            length,
        ]
        provisioned, facts = told(job, round, plan)
        found = {"rho": float(rho[i]), "worse_off": worse, **expected, **facts}
        return explained(job, round, plan, [*standing, *provisioned], found)
