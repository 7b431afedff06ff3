"""The best CPUs and memory of all jobs if the nodes of a type were one machine (Synergy, OSDI'22, LP-1).

Jobs with the same choices are one class, and the program counts how many of a class get each choice. So it is as
small for many jobs as for few, and whole counts are what a program of one variable per job would find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ...estimators.sensitivity.choices import Choices
from ...optimizer.highs import Highs, Method
from ...optimizer.linear_program import LinearProgram, LinearSolution

Floats = NDArray[np.float64]
FAIR = 1e-6  # a job may be slower than at its share by so little


@dataclass(frozen=True)
class Machine:
    """All that the nodes of one GPU type have together."""

    gpus: float
    cpus: float
    memory_gib: float


@dataclass(frozen=True, eq=False)
class Class:
    """Jobs that are alike: `count` of them, with their choices on each GPU type that they may use.

    weight: by GPU type, the speed at the share there over that on the type that the job is measured by.
    """

    count: int
    choices: Mapping[str, Choices]
    weight: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Ideal:
    """How many jobs of each class get which choice. columns: (class, GPU type, choice) of each.

    counts: (columns,). cpu, gib, gpu: prices by GPU type. objective: the sum of speeds.
    """

    columns: Sequence[tuple[int, str, int]]
    counts: Floats
    cpu: Mapping[str, float]
    gib: Mapping[str, float]
    gpu: Mapping[str, float]
    objective: float


def ideal(classes: Sequence[Class], machines: Mapping[str, Machine], *, whole: bool) -> Ideal | None:
    """Choose for all jobs at once what makes the sum of their speeds greatest.

    No job is slower than at its share, on the type that it is measured by. Choices that are slower are left out.
    Where there are several types, the GPUs of each limit how many jobs may use it.

    Args:
        whole: whether counts are whole numbers. Then there are no prices.

    Returns: None if not all jobs have room, even at their shares.
    """
    keep_gpus = len(machines) > 1
    columns: list[tuple[int, str, int]] = []
    value: list[float] = []
    rows: list[int] = []
    at: list[int] = []
    amounts: list[float] = []
    types = list(machines)
    per_type = 3 if keep_gpus else 2
    first = per_type * len(types)
    for number, one in enumerate(classes):
        for gpu_type, choices in one.choices.items():
            base = per_type * types.index(gpu_type)
            for k in range(len(choices.cpus)):
                gain = float(choices.speed[k]) * one.weight.get(gpu_type, 1.0)
                if gain < 1 - FAIR:
                    continue
                column = len(columns)
                columns.append((number, gpu_type, k))
                value.append(gain)
                uses = [float(choices.cpus[k]), float(choices.memory_gib[k]), float(choices.gpus)][:per_type]
                rows += [*range(base, base + per_type), first + number]
                at += [column] * (per_type + 1)
                amounts += [*uses, 1.0]
    matrix = sparse.csr_array((amounts, (rows, at)), shape=(first + len(classes), len(columns)))
    limits = [
        limit
        for machine in machines.values()
        for limit in (machine.cpus, machine.memory_gib, machine.gpus)[:per_type]
    ]
    counts = [float(one.count) for one in classes]
    program = LinearProgram(
        cost=-np.array(value),
        matrix=matrix,
        row_lower=np.array([-np.inf] * first + counts),
        row_upper=np.array(limits + counts),
        lower=np.zeros(len(columns)),
        upper=np.full(len(columns), np.inf),
        integer=np.ones(len(columns), bool) if whole else None,
    )
    found: LinearSolution = Highs(Method.EXACT if whole else Method.SIMPLEX, gap=1e-6).solve(program)
    if found.x is None:
        return None
    dual = np.zeros(first) if found.row_dual is None else np.maximum(-found.row_dual[:first], 0.0)

    def prices(kind: int) -> dict[str, float]:
        return {t: float(dual[per_type * i + kind]) if kind < per_type else 0.0 for i, t in enumerate(types)}

    return Ideal(columns, found.x, prices(0), prices(1), prices(2), -found.objective)
