"""Themis: finish-time fairness by partial auctions among the worst-off jobs (Mahajan et al., NSDI'20)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import Field

from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import JobColumns, Plan, Round
from .contract.traits import PolicyTraits
from .provisioning.options import provisioned
from .provisioning.told import told
from .queueing import ProvisionedOptions, served
from .registry import register


class ThemisOptions(ProvisionedOptions):
    # f of the paper: GPUs are first offered to the fraction (1 - f) of jobs that are worst off.
    fairness_knob: float = Field(default=0.8, ge=0, lt=1)
    # How long a winner keeps its GPUs before they are auctioned again.
    lease_s: float = Field(default=1200.0, ge=0)


def finish_time_fairness(columns: JobColumns, now: float, capacity: int) -> np.ndarray:
    """Return (jobs,) ρ: time in the shared cluster over time on a 1/N share of it, for N active jobs.

    A job is taken to run to its end from now on. A job of unknown length is taken to have as much left as it has
    done.
    """
    age_s = np.maximum(now - columns.submitted_s, 0.0)
    done_s = columns.attained_gpu_s / np.maximum(columns.gpus, 1)
    left_s = np.where(np.isnan(columns.remaining_s), np.maximum(done_s, 1.0), columns.remaining_s)
    share = capacity / max(len(age_s), 1)
    alone_s = (done_s + left_s) * np.maximum(columns.gpus / share, 1.0)
    return np.asarray((age_s + left_s) / np.maximum(alone_s, 1e-9), float)


@register("themis")
class ThemisPolicy:
    """Auctions GPUs whose leases have ended among jobs of fixed size. The worst-off jobs bid first.

    A bid's value is how much GPUs now lower log ρ against waiting one round more, per GPU. So winners maximise
    the product of fairness. GPUs that are left go to the other jobs by ρ.
    """

    Options = ThemisOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=True, needs_expected=True)

    def __init__(self, options: ThemisOptions | None = None) -> None:
        self.options = options or ThemisOptions()
        self.traits = provisioned(self.traits, self.options)
        self._until: dict[str, float] = {}  # when a job's lease ends

    def plan(self, round: Round) -> Plan:
        columns, capacity = round.columns, sum(round.cluster.capacity().values())
        count = len(columns.gpus)
        if count == 0:
            return Plan({})
        rho = finish_time_fairness(columns, round.now, capacity)
        later = finish_time_fairness(columns, round.now + round.length, capacity)
        value = (np.log(np.maximum(later, 1e-9)) - np.log(np.maximum(rho, 1e-9))) / columns.gpus
        leased = np.zeros(count, bool)
        for i in np.flatnonzero(columns.held > 0).tolist():
            leased[i] = self._until.get(round.jobs[i].id, 0.0) > round.now
        offered = np.zeros(count, bool)
        worst = np.lexsort((np.arange(count), -rho))
        offered[worst[: max(int(np.ceil((1 - self.options.fairness_knob) * count)), 1)]] = True
        # Leases come first, then bidders by value, then everybody else by ρ. Ties go by submission.
        order = np.lexsort((columns.submitted_s, np.where(offered, -value, -rho), ~offered, ~leased))
        plan = served(round, order, self.options, preempts=True)
        ends = round.now + self.options.lease_s
        until = np.full(count, np.nan)
        held = np.flatnonzero(leased).tolist()
        until[held] = [self._until[round.jobs[i].id] for i in held]
        running = {round.jobs[i].id for i in held}
        self._until = {id: self._until[id] if id in running else ends for id in plan.placements}
        return replace(plan, figures={**plan.figures, "rho": rho, "offered": offered, "leased_until_s": until})

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its finish-time fairness, by the auction and by its lease."""
        i = job_of(job, round)
        rho, offered = plan.figures["rho"], plan.figures["offered"]
        worse = int((rho > rho[i]).sum())
        until_s = float(plan.figures["leased_until_s"][i])
        standing = [
            f"Its finish-time fairness is {rho[i]:.3g}, and {worse} of {len(rho)} jobs are worse off.",
            f"GPUs are first offered to the {int(offered.sum())} jobs that are worst off; "
            f"it is {'one of them' if offered[i] else 'not one of them'}.",
        ]
        length, expected = expectation(round.jobs[i], "it is taken to need as long as it has had")
        standing.append(length)
        facts = {"rho": float(rho[i]), "worse_off": worse, "offered": bool(offered[i]), **expected}
        if not np.isnan(until_s):
            standing.append(f"Its lease on its GPUs runs for {until_s - round.now:.0f} s more.")
            facts["lease_left_s"] = until_s - round.now
        provisioned, found = told(job, round, plan)
        return explained(job, round, plan, [*standing, *provisioned], {**facts, **found})
