"""Programs of leases as tests and benchmarks write them: jobs with deadlines and shapes on nodes of eight GPUs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from coadapt.optimizer.leases.problem import LeaseProblem
from coadapt.policies.placing.cells import Shape, together, usage

LEVELS = 4


@dataclass(frozen=True)
class Wish:
    """A job: leases at full speed, (deadline in leases, worth) and (shape, speed over the best)."""

    leases: int
    deadlines: Sequence[tuple[int, float]]
    shapes: Sequence[tuple[Shape, float]]


def problem_of(
    wishes: Sequence[Wish], nodes: int, slots: int, first: float = 1e-5, length: np.ndarray | None = None
) -> LeaseProblem:
    """Return the program of these jobs. `first`: what a GPU brings more that runs at once."""
    lengths = np.ones(slots, np.int64) if length is None else length
    rows: list[tuple[int, int, float, int, int, tuple[int, ...]]] = []
    number = 0
    for row, wish in enumerate(wishes):
        for shape, speed in wish.shapes:
            for within, worth in wish.deadlines:
                needed = math.ceil(wish.leases / speed - 1e-9)
                rows.append((row, number, worth, needed, within, usage(shape)))
            number += 1
    row, shape_number, worths, leases, withins, used = zip(*rows, strict=True)
    capacity = np.repeat(np.array(usage((0, 0, 0, nodes)), float)[:, None], len(lengths), axis=1)
    use = np.array(used, float)
    return LeaseProblem(
        np.array(row), np.array(shape_number), np.array(worths), np.array(leases), np.array(withins), use,
        first * use[:, 0], capacity, lengths, len(wishes),
    )  # fmt: skip


def drawn(nodes: int, jobs: int, slots: int, seed: int) -> LeaseProblem:
    """Return a program like those of the specification's size check, with 70 % of jobs with deadlines."""
    draw = random.Random(seed)
    wishes = []
    for _ in range(jobs):
        gpus, leases = draw.choice([1] * 6 + [2, 4, 6, 8, 8, 12, 16]), draw.randint(1, 12)
        shapes: list[tuple[Shape, float]] = [(together(gpus, LEVELS), 1.0)]
        if 1 < gpus <= 16:
            shapes.append(((gpus, 0, 0, 0), 0.85))
        deadline = min(slots, int(leases * draw.uniform(1.1, 2)) + 1)
        if draw.random() < 0.7:
            wishes.append(Wish(leases, [(deadline, 100.0)], shapes))
        else:
            wishes.append(Wish(1, [(1, 1.0 / leases)], [(shape, 1.0) for shape, _ in shapes]))
    return problem_of(wishes, nodes, slots)
