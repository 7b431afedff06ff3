"""Sia: goodput-optimal configurations for all jobs at once (Sia, SOSP'23, section 3.3.4 and 3.5.6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field, field_validator

from .choosing.allocation_round import TIE, Values, Weights
from .choosing.eligibility import Eligibility, eligibility
from .contract.configuration import ConfigurationSet
from .contract.explanation import Explanation
from .contract.round import JobView, Plan, Round
from .contract.traits import PolicyTraits
from .program_explanation import Rules
from .provisioned_program import ProvisionedProgram, ProvisionedProgramOptions
from .registry import register

# With this least factor even a job with many restarts moves for a configuration ten times as good.
LEAST_RESTART_FACTOR = 0.1


class SiaOptions(ProvisionedProgramOptions):
    """What an operator may set."""

    p: float = Field(default=-0.5, ge=-5, le=5)  # fairness power; if negative, the objective is minimised
    lambda_: float = Field(default=1.1, ge=0, alias="lambda")  # penalty for giving a job nothing
    restart_factor: bool = True

    @field_validator("p")
    @classmethod
    def _has_a_sign(cls, p: float) -> float:
        if p == 0:
            raise ValueError("p decides by its sign whether the objective is minimised; -0.5 is usual")
        return p


def restart_factors(jobs: Sequence[JobView]) -> np.ndarray:
    """Return (jobs,) r = (T - N S) / (T + S) within [0.1, 1], for age T and N restarts of S s (equation 3.3)."""
    age = np.maximum([job.age_s for job in jobs], 0.0)
    cost = np.maximum([job.restart_cost_s for job in jobs], 0.0)
    restarts = np.array([job.restarts for job in jobs])
    whole = age + cost
    factor = (age - restarts * cost) / np.where(whole > 0, whole, 1.0)
    return np.where(whole > 0, np.clip(factor, LEAST_RESTART_FACTOR, 1.0), 1.0)


def normalised(goodput: np.ndarray, may: Eligibility, known: np.ndarray) -> np.ndarray:
    """Return (jobs, configurations) goodput over the row's smallest, times the job's minimum GPUs.

    It is 0 where a job cannot run. The smallest is over all configurations that the job can use, not only those in
    reach. So a job's scale does not change while it grows. A job without a model values its smallest
    configurations at its minimum GPUs.
    """
    rows = np.where(may.usable, goodput, 0.0)
    least = np.where(rows > 0, rows, np.inf).min(axis=1, initial=np.inf)
    rows *= np.where(np.isfinite(least), may.smallest / least, 0.0)[:, None]
    unknown = np.flatnonzero(~known)
    rows[unknown] = np.where(may.within_growth[unknown], may.smallest[unknown, None], 0.0)
    return rows


@register("sia")
class SiaPolicy(ProvisionedProgram):
    """Solves equations 3.2 to 3.5 for a whole round, then places the result.

    The program maximises gains over leaving jobs out. For p < 0, minimising the sum of A x + λ (1 - |x|) is
    maximising the sum of (λ - A) x with A = (r G)^p. For p > 0, maximising the sum of A x - λ (1 - |x|) is
    maximising the sum of (A + λ) x. A configuration that a job cannot use is no option, rather than one of small
    value. The paper leaves two points open:

    * Leaving a running job out interrupts it as a move does. So for p < 0 its λ carries the same factor r^p.
      Otherwise a small r would make idling cheaper than any move, even with GPUs free. A job that cannot stay
      where it is, because its nodes are gone, has no factor at all.
    * Time sharing multiplies λ with 1 + w. A waiting job that was served for s of the last τ seconds has
      w = (τ - s) / τ. This w rises by up to 1 while the job goes on waiting. A job in the middle of its turn has w
      = 3, so that turns are not broken off. For τ seconds after a full turn w is 0. The paper's λ = (τ - s) / τ
      alone lets GPUs idle, since a job's smallest configuration costs A = 1.
    """

    Options = SiaOptions
    traits = PolicyTraits(fixed_sizes=False, uses_models=True, preempts=True)

    def __init__(self, options: SiaOptions | None = None) -> None:
        self.options = options or SiaOptions()
        super().__init__(self.options)

    def values(
        self, jobs: Sequence[JobView], configurations: ConfigurationSet, goodput: np.ndarray, placed: np.ndarray
    ) -> Values:
        may = eligibility(jobs, configurations, goodput)
        known = np.array([job.model is not None for job in jobs], dtype=bool)
        rows = normalised(goodput, may, known)
        # A job may keep what it has, even if the doubling limit or a newer model would not offer it.
        runs = np.flatnonzero(placed >= 0)
        columns = placed[runs]
        options = may.within_growth
        options[runs, columns] = may.allowed[runs, columns]
        floor = may.smallest[runs].astype(float)
        rows[runs, columns] = np.maximum(rows[runs, columns], np.where(floor > 0, floor, 1.0))
        current = np.full(len(jobs), -1)
        current[runs] = np.where(options[runs, columns], columns, -1)
        base = np.zeros(rows.shape)
        base[options] = np.sign(self.options.p) * rows[options] ** self.options.p
        return Values(
            rows, base, options, current, np.where(current >= 0, base[np.arange(len(jobs)), current], 0.0)
        )

    def weigh(
        self, jobs: Sequence[JobView], current: np.ndarray, stay_base: np.ndarray, shares: np.ndarray
    ) -> Weights:
        """Value a move at (r G)^p and staying at G^p. The class tells the rest."""
        scale = self.scales(jobs, current)
        offset = self.options.lambda_ * shares
        if self.options.p < 0:
            resting = (self.options.timeshare_window_s is not None) & (shares <= 1.0)
            offset = offset * np.where(resting, 1.0, scale)
        offset = offset + TIE * (1 - np.arange(len(jobs)) / len(jobs))
        return Weights(offset, scale, offset + stay_base + 2 * TIE)

    def scales(self, jobs: Sequence[JobView], current: np.ndarray) -> np.ndarray:
        """Return (jobs,) r^p; 1 for a job that cannot stay where it is."""
        if not self.options.restart_factor:
            return np.ones(len(jobs))
        factors: np.ndarray = np.where(current >= 0, restart_factors(jobs), 1.0) ** self.options.p
        return factors

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its options, the prices of GPUs and its restart factor."""
        return self.explained(job, round, plan, self._rules)

    def _rules(self, job: JobView) -> Rules:
        moves = job.placement is not None and self.options.restart_factor
        factor = float(restart_factors([job])[0]) if moves else None
        return Rules(
            first=0,
            reach=2.0,
            too_far="more than twice the most it has run on so far; a job at most doubles per round",
            move=None
            if factor is None
            else f"A move pauses training, so other GPUs count {factor:.2f} of their goodput.",
            unpaid="better, but not by enough to pay for the pause of a move now",
            facts={"restart_factor": factor},
            gpu_price=self.options.gpu_price,
        )
