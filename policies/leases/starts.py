"""When waiting jobs could start: what each moment is worth, by what is known of how long they take. Pure.

A length is told as a band, which stands for a distribution. So worth and use of GPUs are means over it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ...core.expected import BAND, Expected
from ...core.rewards import Rewards
from ...optimizer.allocation import ChoiceProblem, ChoiceProgram

Floats = NDArray[np.float64]
_NORMAL = NormalDist()
_PARTS = tuple(_NORMAL.inv_cdf((k + 0.5) / 10) for k in range(10))  # of the distribution, each as likely
_WIDTH = 2 * _NORMAL.inv_cdf((1 + BAND) / 2)  # of the band, in deviations
NEVER = -1
SOONER = 1e-3  # of its worth that a job loses by the latest start, so that none waits for nothing


def lengths_of(expected: Expected, otherwise_s: float) -> Floats:
    """Return (parts,) lengths in seconds that are as likely as each other; one, where there is no doubt.

    A band is taken as that of a log-normal distribution, cut so that its mean is what is expected.

    Args:
        otherwise_s: of a job of which nobody knows how long it takes.
    """
    if not expected.known:
        return np.array([max(otherwise_s, 0.0)])
    if not 0 < expected.low_s < expected.high_s:
        return np.array([expected.mean_s])
    sigma = math.log(expected.high_s / expected.low_s) / _WIDTH
    found = math.sqrt(expected.low_s * expected.high_s) * np.exp(sigma * np.array(_PARTS))
    return np.asarray(found * (expected.mean_s / found.mean()), float)


@dataclass(frozen=True, eq=False)
class Slots:
    """Moments from now on at which jobs may start, in seconds; the last slot ends at `end_s`."""

    begin_s: Floats
    end_s: float

    @classmethod
    def of(cls, length_s: float, lengths: NDArray[np.int64]) -> Slots:
        """Return slots of so many times a length, one after another."""
        ends = np.cumsum(lengths) * length_s
        return cls(np.concatenate([[0.0], ends[:-1]]), float(ends[-1]))

    def __len__(self) -> int:
        return len(self.begin_s)

    def used(self, starts_s: Floats, lengths_s: Floats) -> Floats:
        """Return (starts, slots) the part of each slot in which a job runs, in the mean over its lengths."""
        begin, end = self.begin_s, np.append(self.begin_s[1:], self.end_s)
        ends_s = starts_s[:, None] + lengths_s[None, :]
        found = np.minimum(ends_s[:, :, None], end) - np.maximum(starts_s[:, None, None], begin)
        return np.asarray(np.clip(found, 0.0, None).mean(axis=1) / (end - begin), float)

    def worth(self, rewards: Rewards, age_s: float, lengths_s: Floats) -> Floats:
        """Return (slots,) what a start at each is worth, in the mean over a job's lengths."""
        ends_s = age_s + self.begin_s[:, None] + lengths_s[None, :]
        steps = np.append(rewards.worth, 0.0)
        at = np.searchsorted(np.array(rewards.by_s), ends_s - 1e-6, side="left")
        return np.asarray(steps[at].mean(axis=1), float)


@dataclass(frozen=True, eq=False)
class Waiting:
    """A job that could start: GPUs that it takes, and by GPU type that it may use, how long it would run.

    lengths_s: (parts,) by GPU type.
    """

    gpus: int
    age_s: float
    rewards: Rewards
    lengths_s: dict[str, Floats]


@dataclass(frozen=True, eq=False)
class Starts:
    """When each job starts, as a slot or NEVER, and on which GPU type. bound: nothing brings more."""

    slot: NDArray[np.int64]
    gpu_type: tuple[str, ...]
    objective: float = 0.0
    bound: float = 0.0


def chosen_starts(
    jobs: list[Waiting], slots: Slots, free: dict[str, Floats], *, gap: float, time_limit_s: float
) -> Starts:
    """Return when jobs start so that the sum of what they are worth is the most.

    Where all of them fit when each is worth most, no program is solved.

    Args:
        free: (slots,) GPUs of each type that are free, in the mean.
    """
    types, count = tuple(free), len(slots)
    worth = np.zeros((len(jobs), len(types), count))
    for i, job in enumerate(jobs):
        for t, lengths_s in job.lengths_s.items():
            worth[i, types.index(t)] = slots.worth(job.rewards, job.age_s, lengths_s)
    sooner = 1.0 - SOONER * slots.begin_s / slots.end_s
    gain = (worth * sooner).reshape(len(jobs), -1)
    capacity = np.maximum(np.concatenate([free[t] for t in types]), 0.0)
    best = gain.argmax(axis=1)
    taken = np.zeros((len(jobs), len(capacity), gain.shape[1]))
    for i, job in enumerate(jobs):
        for t, lengths_s in job.lengths_s.items():
            k = types.index(t) * count
            taken[i, k : k + count, k : k + count] = job.gpus * slots.used(slots.begin_s, lengths_s).T
    every = np.arange(len(jobs))
    objective = bound = float(gain[every, best].sum())
    if (taken[every, :, best].sum(axis=0) > capacity + 1e-9).any():
        problem = ChoiceProblem(gain, gain > 1e-9, taken, capacity, kind=every)
        program, ids = ChoiceProgram.of(problem)
        found = program.solve(ids, gap, time_limit_s)
        best, objective, bound = found.choice, found.objective, found.bound
    slot = np.where(best >= 0, best % count, NEVER)
    return Starts(slot, tuple(types[k // count] if k >= 0 else "" for k in best.tolist()), objective, bound)
