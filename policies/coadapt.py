"""Sia's program, looking ahead: to jobs' next moves, ends and gradient noise, and to jobs to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pydantic import Field

from ..estimators.goodput import GoodputModel, JobModel, goodput_matrix
from .choosing.allocation_round import TIE, ProgramOptions, ProgramPolicy, Values, Weights
from .choosing.eligibility import eligibility
from .choosing.newcomers import Newcomers
from .contract.configuration import ConfigurationSet
from .contract.explanation import Explanation
from .contract.round import JobView, Plan, Round
from .contract.traits import PolicyTraits
from .program_explanation import Rules, explain_program
from .registry import register

# A configuration that may be chosen is worth something, however little of the horizon a move to it would leave.
LEAST_VALUE = 1e-3
MOST_EXPECTED, LEAST_CHANCE = 4, 0.1  # of jobs to come


class CoadaptOptions(ProgramOptions):
    """What an operator may set."""

    p: float = Field(default=-0.03, ge=-5, lt=0)  # fairness power of normalised goodput; near 0: its logarithm
    lambda_: float = Field(default=3.0, ge=0, alias="lambda")  # penalty for giving a job nothing
    # Relative to an objective of which about 98 % is the same for every plan that serves all jobs.
    gap: float = Field(default=2e-5, ge=0, lt=1)

    # How long a move is taken to last: so many seconds, and this share of its age, over the restarts it had.
    horizon_s: float = Field(default=300.0, gt=0)
    horizon_growth: float = Field(default=0.5, ge=0)
    ends: bool = True  # no move is taken to last beyond the end of the job
    first_replicas: int = Field(default=4, ge=1)  # most that a job starts with
    reach: float = Field(default=4.0, ge=1)  # most that it may grow to, times the most it ever had
    # Beyond the most replicas it ever had a job scales worse than its model says, by this power of the ratio.
    scaling_loss: float = Field(default=0.1, ge=0, le=1)
    # A noise scale below so many initial batch sizes is taken to grow to that much soon; unknown, to be that much.
    noise_ahead: float = Field(default=5.0, ge=0)
    # Weight of jobs expected within `room_s`: GPUs that nobody gains more by are kept free for them. 0: none are.
    room: float = Field(default=0.2, ge=0, le=1)
    room_s: float = Field(default=300.0, gt=0)
    # In a simulated cluster, rounds also where a job arrives or ends; the live service has them always.
    early_rounds: bool = True


@register("coadapt")
class CoadaptPolicy(ProgramPolicy):
    """Sia's program (equations 3.2 to 3.5, p < 0), with other values.

    * A move to a configuration costs S seconds of the H that the job will stay there: it is worth
      G · H / (H + S). H is `horizon_s`, longer for jobs that were seldom moved, and at most the time to the
      job's end. (Sia's factor depends on a job's age and restarts only, and moves jobs that are about to end.)
    * Goodput is that of the gradient noise soon to come, so that a job starts on as many GPUs as it will want a
      minute later. It may start on `first_replicas` and grow by `reach`, since each doubling is a restart.
    * p near 0 values relative progress alike in jobs that scale well and in jobs that do not.
    * Room is kept for jobs that are expected, judged by those that came lately, where nobody gains much by it.
      Fewer jobs then have to give way to a newcomer, which costs each of them a restart or two.
    * Rounds come early where a job arrives or ends, as the live service's do.
    * Jobs know what earlier ones that trained the same model measured, as those of the live service do.
    """

    traits = PolicyTraits(
        fixed_sizes=False, uses_models=True, preempts=True, early_rounds=True, profile_cache=True
    )
    ageing = True  # a move's worth depends on how long a job will stay

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
        # What a job has it may keep, even where a limit or a model learnt since would not offer it.
        runs = np.flatnonzero(placed >= 0)
        choices = may.reachable
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
        """Return the gains of jobs to come over one smallest configuration, by how likely they are."""
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
        """Return (jobs, configurations) goodput with the noise scales soon to come; `goodput`: with today's."""
        ahead = [None if job.model is None else self._ahead(job.model) for job in jobs]
        others = [i for i, (job, model) in enumerate(zip(jobs, ahead, strict=True)) if model is not job.model]
        if not others:
            return goodput
        found = goodput.copy()
        found[others] = goodput_matrix([ahead[i] for i in others], configurations.arrays)
        return np.where(np.isfinite(found), found, 0.0)

    def _ahead(self, model: GoodputModel) -> GoodputModel:
        if not isinstance(model, JobModel):
            return model  # a table knows of no noise
        soon = self.options.noise_ahead * model.limits.initial_batch_size
        if soon <= 0 or (model.noise_scale is not None and model.noise_scale >= soon):
            return model
        return model.with_noise_scale(soon)

    def _lasting(self, jobs: Sequence[JobView], goodput: np.ndarray, current: np.ndarray) -> np.ndarray:
        """Return (jobs, configurations) goodput over the time a job will stay there, with the pause of a move."""
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
        """Return (jobs,) how long a move is taken to last, before the end of the job is looked at."""
        options = self.options
        return np.asarray((options.horizon_s + options.horizon_growth * age_s) / (restarts + 1))

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its options, the prices of GPUs, and how long a move is taken to last."""
        return explain_program(job, round, plan, self._rules)

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
        )
