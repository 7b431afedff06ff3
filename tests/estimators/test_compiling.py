"""A process without a compiler chooses the same batches as one that compiles."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

CHOOSES = """
import dataclasses, json, random, sys
from coadapt.estimators import compiling
if sys.argv[1] == "plain":
    compiling.do_without()
from coadapt.estimators.goodput import BatchLimits, JobModel, best_batch
from coadapt.estimators.throughput import ThroughputModel, ThroughputParams

rng = random.Random(7)


def power(low, high):
    return 10 ** rng.uniform(low, high)


chosen = []
for _ in range(500):
    unit = rng.randint(1, 300)
    first = unit * rng.randint(1, 4)
    limits = BatchLimits(
        first, first * rng.randint(1, 20), rng.randint(1, 8), rng.random() < 0.7, rng.random() < 0.2,
        rng.choice([None, unit]), rng.random() < 0.3,
    )
    theta = ThroughputParams(
        alpha_c=power(-4, 1), beta_c=power(-6, 0), kappa=rng.uniform(1, 8), delta_c=rng.random(),
        alpha_r=rng.choice([0.0, power(-4, 1)]), rho_r=rng.random(), alpha_n=rng.choice([0.0, power(-4, 1)]),
        rho_n=rng.uniform(-0.5, 1), delta_n=rng.uniform(-0.5, 1), eta_n=rng.uniform(-0.5, 1),
        omega_n=rng.uniform(-1, 1), gamma=rng.uniform(1, 10), ragged_c=rng.choice([0.0, power(-2, 0)]),
    )
    model = ThroughputModel(theta, rng.randint(1, 200), rng.randint(1, 16))
    phi = rng.choice([None, 0.0, 1e9, power(-3, 6)])
    job = JobModel({"t4": model}, phi, limits, {"t4": rng.randint(1, 3)})
    for replicas in (1, 2, 3, 8):
        found = best_batch(job, "t4", rng.randint(1, 4), replicas)
        chosen.append(None if found is None else dataclasses.asdict(found))
print(json.dumps({"compiled": "numba" in sys.modules, "chosen": chosen}))
"""


def choices(how: str) -> Any:
    command = [sys.executable, "-c", CHOOSES, how]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


def test_the_same_batches_are_chosen_with_and_without_the_compiler() -> None:
    compiled, plain = choices("compiled"), choices("plain")
    assert (compiled["compiled"], plain["compiled"]) == (True, False)
    assert sum(one is not None for one in compiled["chosen"]) > 300
    for one, other in zip(compiled["chosen"], plain["chosen"], strict=True):
        if one is None or other is None:
            assert one == other
        else:
            assert one == pytest.approx(other, rel=1e-9)
