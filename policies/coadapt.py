"""Sia's program with a view ahead: of jobs' next moves, ends and gradient noise, and of jobs to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pydantic import Field

from ..core.options import NO_CHOICE
from ..estimators.goodput import GoodputModel, JobModel, goodput_matrix
from .choosing.allocation_round import TIE, Values, Weights
from .choosing.eligibility import eligibility
from .choosing.newcomers import Newcomers
from .contract.configuration import ConfigurationSet
from .contract.explanation import Explanation
from .contract.round import JobView, Plan, Round
from .contract.traits import PolicyTraits
from .program_explanation import Rules
from .provisioned_program import ProvisionedProgram, ProvisionedProgramOptions
from .registry import register

# The least value of a configuration that may be chosen, even if a move to it takes nearly all of the horizon.
LEAST_VALUE = 1e-3
MOST_EXPECTED, LEAST_CHANCE = 4, 0.1  # jobs to come: how many are looked at, and how likely they must be


class CoadaptOptions(ProvisionedProgramOptions):
    """What an operator may set."""

    p: float = Field(default=-0.03, ge=-5, lt=0)  # fairness power of normalised goodput; near 0 as its logarithm
    lambda_: float = Field(default=3.0, ge=0, alias="lambda")  # penalty for giving a job nothing
    # About 98 % of the objective is the same for every plan that serves all jobs, so the relative gap is small.
    gap: float = Field(default=2e-5, ge=0, lt=1, json_schema_extra=NO_CHOICE)

    # A move is expected to last (horizon_s + horizon_growth * age) / (restarts + 1).
    horizon_s: float = Field(default=300.0, gt=0)
    horizon_growth: float = Field(default=0.5, ge=0)
    ends: bool = True  # whether no move is expected to last beyond the end of the job
    first_replicas: int = Field(default=4, ge=1)  # most replicas that a job starts with
    reach: float = Field(default=4.0, ge=1)  # most growth of a job, as a multiple of the most replicas it ever had
    # Beyond the most replicas it ever had, a job's goodput is divided by this power of its growth.
    scaling_loss: float = Field(default=0.1, ge=0, le=1)
    # Least noise scale that plans reckon with, in initial batch sizes, as noise grows while a job trains.
    noise_ahead: float = Field(default=5.0, ge=0)
    # Weight of jobs expected within `room_s`, for which GPUs stay free that others gain less by. 0 keeps none
    # free.
    room: float = Field(default=0.2, ge=0, le=1)
    room_s: float = Field(default=300.0, gt=0)
    # Whether a simulated cluster has rounds also when a job arrives or ends, as the live service always has.
    early_rounds: bool = True


@register("coadapt")
class CoadaptPolicy(ProvisionedProgram):
    """Sia's program (equations 3.2 to 3.5, p < 0), with other values.

    * A move pauses a job for S seconds, and the job then stays for H seconds. So a configuration of goodput G is
      worth G · H / (H + S). H grows from `horizon_s` for jobs that are seldom moved, and ends with the job.
      Sia's factor depends only on a job's age and restarts, and moves jobs that are about to end.
    * Goodput is computed with the gradient noise soon to come. So a job starts on as many GPUs as it will want a
      minute later. It may start on `first_replicas` and grow by `reach`, since each doubling is a restart.
    * p near 0 values relative progress alike in jobs that scale well and in jobs that do not.
    * GPUs that nobody gains much by are kept free for jobs to come, judged by those that came lately. So fewer
      jobs give way to a newcomer, which would cost each of them a restart or two.
    * Rounds come soon after a job arrives or ends, as in the live service.
    * Jobs know what earlier jobs that trained the same model measured, as in the live service.
    """

    traits = PolicyTraits(
        fixed_sizes=False, uses_models=True, preempts=True, early_rounds=True, profile_cache=True
    )
    ageing = True  # the worth of a move depends on the job's age

    Options = CoadaptOptions

    def __init__(self, options: CoadaptOptions | None = None) -> None:
        self.options = options or CoadaptOptions()
        self.traits = replace(CoadaptPolicy.traits, early_rounds=self.options.early_rounds)
        self._newcomers = Newcomers()
        super().__init__(self.options)

    def values(
        self, jobs: Sequence[JobView], configurations: ConfigurationSet, goodput: np.ndarray, placed: np.ndarray
    ) -> Values:
        options = self.options
        goodput = np.where(goodput > 0, self._goodput_ahead(jobs, configurations, goodput), 0.0)
        may = eligibility(jobs, configurations, goodput, options.first_replicas, options.reach)
        goodput = goodput * np.maximum(may.growth, 1.0) ** -options.scaling_loss
        known = np.array([job.model is not None for job in jobs], dtype=bool)
        # A job may keep what it has, even if a limit or a newer model would not offer it.
        runs = np.flatnonzero(placed >= 0)
        choices = may.within_growth
        choices[runs, placed[runs]] = may.allowed[runs, placed[runs]]
        current = np.full(len(jobs), -1)
        current[runs] = np.where(choices[runs, placed[runs]], placed[runs], -1)

        least = np.where(may.usable & (goodput > 0), goodput, np.inf).min(axis=1, initial=np.inf)
        scale = np.where(np.isfinite(least), may.smallest / least, 0.0)
        rows = self._lasting(jobs, goodput, current) * scale[:, None]
        rows = np.where(known[:, None], rows, may.smallest[:, None].astype(float))
        rows = np.where(choices, np.maximum(rows, LEAST_VALUE), 0.0)
        base = np.where(choices, -(np.where(choices, rows, 1.0) ** options.p), 0.0)
        stay_base = np.where(current >= 0, base[np.arange(len(jobs)), current], 0.0)
        return Values(rows, base, choices, current, stay_base)

    def weigh(
        self, jobs: Sequence[JobView], current: np.ndarray, stay_base: np.ndarray, shares: np.ndarray
    ) -> Weights:
        offset = self.options.lambda_ * shares + TIE * (1 - np.arange(len(jobs)) / len(jobs))
        return Weights(offset, np.ones(len(jobs)), offset + stay_base + 2 * TIE)

    def to_come(self, jobs: Sequence[JobView], configurations: ConfigurationSet, now: float) -> np.ndarray:
        """Return (others, configurations) gains of jobs to come over a smallest configuration, times chances."""
        options = self.options
        self._newcomers.note(jobs, configurations, lambda job: self.value_of(job, configurations).rows[0], now)
        found = self._newcomers.expected(now, options.room_s, MOST_EXPECTED) if options.room else None
        if found is None:
            return super().to_come(jobs, configurations, now)
        chances, values = found
        likely = chances[chances > LEAST_CHANCE]
        return options.room * likely[:, None] * (1 - np.maximum(values, 1.0) ** options.p)

    def _goodput_ahead(
        self, jobs: Sequence[JobView], configurations: ConfigurationSet, goodput: np.ndarray
    ) -> np.ndarray:
        """Return (jobs, configurations) goodput with the noise scales soon to come; `goodput` is today's."""
        ahead = [None if job.model is None else self._ahead(job.model) for job in jobs]
        others = [i for i, (job, model) in enumerate(zip(jobs, ahead, strict=True)) if model is not job.model]
        if not others:
            return goodput
        found = goodput.copy()
        found[others] = goodput_matrix([ahead[i] for i in others], configurations.arrays)
        return np.where(np.isfinite(found), found, 0.0)

    def _ahead(self, model: GoodputModel) -> GoodputModel:
        if not isinstance(model, JobModel):
            return model  # a table knows nothing of noise
        soon = self.options.noise_ahead * model.limits.initial_batch_size
        if soon <= 0 or (model.noise_scale is not None and model.noise_scale >= soon):
            return model
        return model.with_noise_scale(soon)

    def _lasting(self, jobs: Sequence[JobView], goodput: np.ndarray, current: np.ndarray) -> np.ndarray:
        """Return (jobs, configurations) mean goodput over a move's pause and the time that the job then stays."""
        options = self.options
        age_s = np.array([max(job.age_s, 0.0) for job in jobs])
        restarts = np.array([job.restarts for job in jobs])
        horizon_s = self._horizon_s(age_s, restarts)
        left = np.array([np.inf if job.remaining is None else max(job.remaining, 1e-9) for job in jobs])
        with np.errstate(divide="ignore", invalid="ignore"):
            to_end_s = left[:, None] / goodput
        stays_s = np.broadcast_to(horizon_s[:, None], goodput.shape)
        if options.ends:
            stays_s = np.fmin(stays_s, to_end_s)
        pause_s = np.repeat(
            np.array([max(job.restart_cost_s, 0.0) for job in jobs])[:, None], goodput.shape[1], axis=1
        )
        runs = np.flatnonzero(current >= 0)
        pause_s[runs, current[runs]] = 0.0
        return goodput * stays_s / (stays_s + pause_s)

    def _horizon_s(self, age_s: np.ndarray, restarts: np.ndarray) -> np.ndarray:
        """Return (jobs,) how long a move is expected to last if the job does not end before."""
        options = self.options
        return np.asarray((options.horizon_s + options.horizon_growth * age_s) / (restarts + 1))

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its options, the prices of GPUs, and how long a move is expected to last."""
        return self.explained(job, round, plan, self._rules)

    def _rules(self, job: JobView) -> Rules:
        options, cost_s = self.options, max(job.restart_cost_s, 0.0)
        age_s = np.array([max(job.age_s, 0.0)])
        stays_s = float(self._horizon_s(age_s, np.array([job.restarts]))[0])
        until = ", or to its end if that comes sooner" if options.ends and job.remaining is not None else ""
        began = bool(job.largest_gpus) or job.placement is not None
        return Rules(
            first=options.first_replicas,
            reach=options.reach,
            too_far=f"more than {options.reach:g} times the most it has run on so far"
            if began
            else f"more than the {options.first_replicas} replicas that a job may start with",
            move=None
            if job.placement is None
            else f"A move pauses it for {cost_s:.4g} s of the {stays_s:.4g} s that it is taken to last{until}.",
            unpaid="better now, but worth less over the time it would stay, with the pause of a move",
            facts={"move_cost_s": cost_s, "move_lasts_s": stays_s},
            gpu_price=options.gpu_price,
        )
