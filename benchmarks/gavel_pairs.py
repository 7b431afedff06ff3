"""Gavel's pairs of jobs on one GPU: their speeds, and which part of its GPU each job fills, as pairs imply it.

Gavel's tables hold throughputs of 26 jobs alone and of their pairs, on K80, P100 and V100, and no utilisation.
Pair speeds are taken to depend on the sum of two parts. Then only the unit of these parts is open. The K80 sets
it: each of these jobs fills it, since the two speeds of its pairs add up to about 1.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from coadapt.estimators.interpretable.table import Floats, Ints
from scipy.optimize import nnls

from .harness import DATA

GAVEL = DATA / "gavel" / "simulation_throughputs.json.gz"
GPU_TYPES = ("v100", "p100", "k80")
FULL = "k80"  # the GPU type that every job fills
KNOTS = np.linspace(0.0, 2.0, 11)  # of the curve: speed by the sum of both parts
_PARTS = np.linspace(0.0, 1.0, 51)
_PASSES = 30


@dataclass(frozen=True)
class GavelPairs:
    """Pairs of which both jobs ran. a, b: (pairs,) positions in `jobs`; speeds: (pairs, 2), at most 1."""

    jobs: tuple[tuple[str, str], ...]  # GPU type, name
    a: Ints
    b: Ints
    speeds: Floats

    def of(self, chosen: np.ndarray) -> GavelPairs:
        """Return some of its pairs."""
        return GavelPairs(self.jobs, self.a[chosen], self.b[chosen], self.speeds[chosen])


@dataclass(frozen=True)
class Curve:
    """Speed of both jobs of a pair by the sum of their parts: 1 at 0, and never rising. drops: between knots."""

    drops: Floats

    def of(self, sums: Floats) -> Floats:
        """Return the speeds at sums of parts, of any shape."""
        return 1 - _passed(sums) @ self.drops


def read() -> GavelPairs:
    """Return the pairs of jobs of one GPU each. A pair that did not fit, which has speed 0, is left out."""
    with gzip.open(GAVEL, "rt") as file:
        tables = json.load(file)
    jobs = dict[tuple[str, str], int]()
    rows = [row for kind in GPU_TYPES for row in _pairs_on(kind, tables[kind])]
    a, b = ([jobs.setdefault(row[side], len(jobs)) for row in rows] for side in (0, 1))
    speeds = np.array([row[2] for row in rows])
    return GavelPairs(tuple(jobs), np.array(a), np.array(b), np.minimum(speeds, 1.0))


def _pairs_on(kind: str, table: dict[str, dict[str, list[float]]]) -> Iterator[tuple[tuple[str, str], ...]]:
    for key, beside in table.items():
        name, gpus = ast.literal_eval(key)
        for other, both in beside.items():
            if gpus != 1 or other == "null":
                continue
            partner, its_gpus = ast.literal_eval(other)
            alone = (beside["null"], table[other]["null"])
            if its_gpus == 1 and partner >= name and min(both) > 0 and min(alone) > 0:
                yield (kind, name), (kind, partner), (both[0] / alone[0], both[1] / alone[1])


def _passed(sums: Floats) -> Floats:
    """Return (…, steps) which part of each step between knots a sum has passed."""
    return np.clip((np.asarray(sums)[..., None] - KNOTS[:-1]) / (KNOTS[1] - KNOTS[0]), 0, 1)


def parts_and_curve(pairs: GavelPairs) -> tuple[Floats, Curve]:
    """Return (jobs,) the part of its GPU that each job fills, and the curve. They are fitted in turns."""
    parts = np.array([1.0 if kind == FULL else 0.7 for kind, _ in pairs.jobs])
    mean = pairs.speeds.mean(axis=1)
    own, other, seen = (np.concatenate(ends) for ends in ((pairs.a, pairs.b), (pairs.b, pairs.a), (mean, mean)))
    sums, curve = np.linspace(0, 2, 201), Curve(np.zeros(len(KNOTS) - 1))
    speeds = 1 / np.maximum(sums, 1)  # two that share their time, to begin with
    for _ in range(_PASSES):
        for job in range(len(parts)):
            rows = own == job
            if pairs.jobs[job][0] == FULL or not rows.any():
                continue
            beside = np.where(other[rows, None] == job, _PARTS[None], parts[other[rows], None])
            errors = np.interp(beside + _PARTS[None], sums, speeds) - seen[rows, None]
            parts[job] = _PARTS[(errors**2).sum(axis=0).argmin()]
        curve = Curve(nnls(_passed(parts[pairs.a] + parts[pairs.b]), 1 - mean)[0])
        speeds = curve.of(sums)
    return parts, curve
