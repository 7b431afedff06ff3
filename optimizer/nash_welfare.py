"""Finds rounds for every job over a window that maximise weighted Nash social welfare (Shockwave, NSDI'23).

    maximise    sum over jobs i of weight[i] * log(progress of i at the window's end) / (jobs * rounds)
                - makespan_weight * (longest work left of any job) / (longest work left now) / rounds
    subject to  rounds of a job on all GPU types <= rounds,   GPUs * rounds on a type <= its GPUs * rounds

Progress is the fraction of a job's work. As in the published code its log is linear between a few bases. The log
is concave, so no integer variables are needed to keep to the curve, and rounds may be fractions. Which rounds of
the window a job gets does not change the objective, and is left to the caller. So the program has some eight
variables per job, and not one for every job and round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .highs import Highs
from .linear_program import LinearProgram, Status

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Window:
    """The jobs and GPUs of one window.

    weight: (jobs,) fairness weights.
    gpus: (jobs,) GPUs that each job runs on.
    done, left: (jobs,) work done and left (above 0), in rounds on a job's fastest type.
    speed: (jobs, types) relative to a job's fastest type; 0 where it cannot run.
    capacity: (types,) GPUs.
    rounds: of the window, 1 or more.

    Raises:
        ValueError: for shapes that do not agree, entries that are negative or not finite, a job without work left,
            and fewer rounds than 1.
    """

    weight: Floats
    gpus: Floats
    done: Floats
    left: Floats
    speed: Floats
    capacity: Floats
    rounds: int

    def __post_init__(self) -> None:
        if self.speed.ndim != 2:
            raise ValueError(f"speed: has shape {self.speed.shape}, not (jobs, types)")
        jobs, types = self.speed.shape
        sizes = {"weight": jobs, "gpus": jobs, "done": jobs, "left": jobs, "capacity": types}
        for name, size in sizes.items():
            array = getattr(self, name)
            if array.shape != (size,):
                raise ValueError(f"{name}: has shape {array.shape}, not ({size},) as speed says")
        for name in (*sizes, "speed"):
            array = getattr(self, name)
            if not (np.isfinite(array) & (array >= 0)).all():
                raise ValueError(f"{name}: has entries that are negative or not finite; 0 or more is accepted")
        if not (self.left > 0).all():
            raise ValueError(f"left[{int((self.left == 0).argmax())}]: is 0; more than 0 is accepted")
        if not self.rounds >= 1:
            raise ValueError(f"rounds: is {self.rounds}; 1 or more is accepted")


def log_progress(bases: Floats, origin: float) -> Floats:
    """Return (bases,) the log of each base. `origin` stands for 0."""
    return np.log(np.where(bases > 0, bases, origin))


def planned_rounds(
    window: Window, bases: Floats, origin: float, makespan_weight: float, time_limit_s: float
) -> Floats | None:
    """Return (jobs, types) rounds of the window on each type; None if none were found in time.

    If all weights are 0, only the makespan counts.

    Args:
        bases: points of progress that rise from 0 to 1.
        origin: stands for a progress of 0.

    Raises:
        ValueError: for a makespan weight that is negative or not finite.
    """
    if not 0 <= makespan_weight < np.inf:
        raise ValueError(f"makespan_weight: is {makespan_weight}; 0 or more is accepted")
    jobs = len(window.gpus)
    if not jobs:
        return np.zeros(window.speed.shape)
    total = window.done + window.left
    row, column = np.nonzero(window.speed > 0)
    # The progress that each job has still to make is cut into pieces between two bases.
    slope = np.diff(log_progress(bases, origin)) / np.diff(bases)
    now = (window.done / total)[:, None]
    piece = np.clip(bases[1:] - np.maximum(now, bases[:-1]), 0.0, None)
    of, which = np.nonzero(piece > 0)
    # Variables: rounds (job, type), progress (job, piece), and the longest work left.
    count, pieces = len(row), len(of)
    last = count + pieces
    heaviest = float(window.weight.max()) or 1.0
    gain = window.weight[of] / heaviest * slope[which] / (jobs * window.rounds)
    longest = makespan_weight / (window.left.max() * heaviest * window.rounds)
    cost = np.concatenate([np.zeros(count), -gain, [longest]])
    speed = window.speed[row, column]
    on, made, every = np.arange(count), count + np.arange(pieces), np.arange(jobs)
    # The blocks say: progress takes rounds, a job's rounds take time, work not done is left, and rounds take GPUs.
    blocks = [
        (of, made, total[of]), (row, on, -speed),
        (jobs + row, on, np.ones(count)),
        (2 * jobs + row, on, -speed), (2 * jobs + every, np.full(jobs, last), -np.ones(jobs)),
        (3 * jobs + column, on, window.gpus[row]),
    ]  # fmt: skip
    at_row, at_column, value = (np.concatenate([block[k] for block in blocks]) for k in range(3))
    limits = np.concatenate(
        [np.zeros(jobs), np.full(jobs, window.rounds), -window.left, window.capacity * window.rounds]
    )
    upper = np.concatenate([np.full(count, window.rounds), piece[of, which], [np.inf]])
    program = LinearProgram(
        cost / (np.abs(cost).max() or 1.0),
        csr_array((value, (at_row, at_column)), shape=(len(limits), last + 1)),
        np.full(len(limits), -np.inf),
        limits,
        np.zeros(last + 1),
        upper,
    )
    found = Highs(time_limit_s=max(time_limit_s, 1e-3)).solve(program)
    if found.x is None or found.status is not Status.OPTIMAL:
        return None
    rounds = np.zeros(window.speed.shape)
    rounds[row, column] = found.x[:count]
    return rounds
