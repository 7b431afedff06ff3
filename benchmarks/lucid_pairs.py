"""Lucid's 1,388 measured pairs and 66 jobs, for measuring only: nothing that was fitted to them is kept."""

from __future__ import annotations

import csv
from dataclasses import dataclass

import numpy as np
from coadapt.estimators.affinity.pair_table import PairTable
from coadapt.estimators.affinity.uses import row_of, usage_of
from coadapt.estimators.interpretable.table import Ints

from .harness import DATA

PAIRS, JOBS = DATA / "lucid" / "colocate_info.csv", DATA / "lucid" / "single_data.csv"


@dataclass(frozen=True)
class LucidPairs:
    """Pairs with what each job uses alone. models: (jobs,) names; stored: (jobs,) labels of the authors."""

    pairs: PairTable
    models: np.ndarray
    stored: Ints


def read() -> LucidPairs:
    """Return the measured pairs; jobs without any are left in, with their labels."""
    with JOBS.open() as file:
        jobs = list(csv.DictReader(file))
    at = {(job["model"], job["dataset"], job["batchsize"], job["amp"]): i for i, job in enumerate(jobs)}
    uses = [
        row_of(
            usage_of(float(job["gpu_util"]) / 100, float(job["gmem_util"]) / 100, float(job["gmem"]) / 1024),
            job["amp"] == "1",
        )
        for job in jobs
    ]
    speeds = np.full((len(jobs), len(jobs)), np.nan)
    with PAIRS.open() as file:
        for row in csv.DictReader(file):
            a, b = (
                at[tuple(row[f"{name}{i}"] for name in ("model", "dataset", "batchsize", "amp"))] for i in "12"
            )
            speeds[a, b], speeds[b, a] = float(row["speed1"]), float(row["speed2"])
            if a == b:
                speeds[a, a] = (float(row["speed1"]) + float(row["speed2"])) / 2
    names = tuple(" ".join(key) for key in at)
    models = np.array([job["model"] for job in jobs])
    return LucidPairs(
        PairTable(names, speeds, np.array(uses)), models, np.array([int(job["label"]) for job in jobs])
    )
