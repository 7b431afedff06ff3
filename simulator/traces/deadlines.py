"""Deadlines for any trace, by the rule of the paper (UniSched, section VI-A): a multiple of each job's length."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from ...core.rewards import Rewards
from .curves import CurveRule, made_up_curves, with_curves
from .workload import Workload

AWKWARD = (3, 5, 6, 7)  # counts that fit no cell of their own


@dataclass(frozen=True)
class DeadlineRule:
    """Which jobs have deadlines, and which.

    strict, soft: parts of the jobs, from 0 to 1; the others are best effort.
    least, most: the first deadline is between these multiples of a job's length.
    density: part of the jobs that are kept; above 1, jobs of the trace come again at other times.
    awkward: part of the jobs of 2 to 8 GPUs that ask for 3, 5, 6 or 7, with as many GPU-hours.
    metric: part of the jobs that end when a metric reaches its target, by made-up curves.

    Raise ValueError, in one sentence, for values that cannot be.
    """

    strict: float = 1.0
    soft: float = 0.0
    least: float = 1.1
    most: float = 2.0
    density: float = 1.0
    awkward: float = 0.0
    metric: float = 0.0

    def __post_init__(self) -> None:
        for name in ("strict", "soft", "awkward", "metric"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"deadlines: {name}: {getattr(self, name)} is not accepted, must be from 0 to 1")
        if self.strict + self.soft > 1 + 1e-9:
            raise ValueError(
                f"deadlines: strict and soft add up to {self.strict + self.soft:g}; at most 1 is accepted"
            )
        if not 0 < self.least <= self.most:
            raise ValueError(f"deadlines: least {self.least} and most {self.most} must be above 0, and rise")
        if not 0 < self.density <= 10:
            raise ValueError(f"deadlines: density: {self.density} is not accepted, must be above 0 and at most 10")

    @property
    def shown(self) -> str:
        """The rule in one line, as `rule_of` reads it."""
        return ",".join(f"{f.name}={getattr(self, f.name):g}" for f in fields(self))


def rule_of(text: str) -> DeadlineRule:
    """Return the rule in a text such as `strict=0.7,soft=0.2`. Raise ValueError for any other text."""
    known = {f.name for f in fields(DeadlineRule)}
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in known:
            raise ValueError(
                f"--deadlines: {part.strip()!r} is not of the form NAME=VALUE; names: {', '.join(sorted(known))}"
            )
        try:
            found[name] = float(value)
        except ValueError:
            raise ValueError(f"--deadlines: {name}: {value!r} is not a number") from None
    return DeadlineRule(**found)


def with_deadlines(workload: Workload, rule: DeadlineRule, seed: int) -> Workload:
    """Return the jobs with deadlines by a rule. Raise ValueError if a job's length is not known.

    `seed`: of all that is drawn.
    """
    if np.isnan(workload.duration_s).any():
        at = int(np.flatnonzero(np.isnan(workload.duration_s))[0])
        raise ValueError(
            f"--deadlines: job {workload.ids[at]} has no duration, and its deadline is a multiple of it"
        )
    random = np.random.default_rng([seed, 59])
    workload = _awkward(_dense(workload, rule.density, random), rule.awkward, random)
    count = len(workload)
    kind, times = random.random(count), random.uniform(rule.least, rule.most, count)
    by_s = (times * workload.duration_s).tolist()
    rewards = [
        None
        if part >= rule.strict + rule.soft or by <= 0
        else Rewards.strict(by)
        if part < rule.strict
        else Rewards.soft(by)
        for part, by in zip(kind.tolist(), by_s, strict=True)
    ]
    due = replace(workload, rewards=tuple(rewards))
    return with_curves(due, made_up_curves(), CurveRule(rule.metric), seed)


def _dense(workload: Workload, density: float, random: np.random.Generator) -> Workload:
    """Return fewer of the jobs, or some of them again at the times of others."""
    count = len(workload)
    wanted = round(count * density)
    if wanted <= count:
        return workload.select(np.sort(random.choice(count, wanted, replace=False)))
    while wanted > len(workload):
        more = min(wanted - len(workload), count)
        again = workload.select(np.sort(random.choice(count, more, replace=False)))
        times: NDArray[np.float64] = workload.submit_s[np.sort(random.choice(count, more, replace=False))]
        workload = workload.and_also(
            replace(again, submit_s=times, ids=tuple(f"{id}+{len(workload)}" for id in again.ids))
        )
    return workload


def _awkward(workload: Workload, part: float, random: np.random.Generator) -> Workload:
    """Return the jobs of which some ask for a count that is no power of two, for as many GPU-hours."""
    may = np.flatnonzero((workload.gpus >= 2) & (workload.gpus <= 8))
    chosen = random.choice(may, round(len(may) * part), replace=False) if part else may[:0]
    if not len(chosen):
        return workload
    gpus, duration_s = workload.gpus.copy(), workload.duration_s.copy()
    gpus[chosen] = random.choice(AWKWARD, len(chosen))
    duration_s[chosen] *= workload.gpus[chosen] / gpus[chosen]
    return replace(workload, gpus=gpus, duration_s=duration_s)
