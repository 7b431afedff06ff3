"""Speed: the compiled look-up, a tree as exported C, and fits."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from coadapt.estimators.durations.sums import SETTINGS
from coadapt.estimators.interpretable import additive_fit, tree_fit
from coadapt.estimators.interpretable.additive_fit import AdditiveSettings
from coadapt.estimators.interpretable.code import exported
from coadapt.estimators.interpretable.table import Table, named
from coadapt.estimators.interpretable.tree import TreeModel

from ..harness import table
from .tasks import lengths, task

FEATURES, PAIRS, LEAVES = 12, 10, 64
CALLS = 2_000_000


def least_s(what: Callable[[], object], times: int = 30) -> float:
    """Return the least of several times: others share the machine."""
    found = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        what()
        found = min(found, time.perf_counter() - began)
    return found


def figures() -> dict[str, float]:
    from interpret.glassbox import ExplainableBoostingRegressor

    random = np.random.default_rng(0)
    rows = random.normal(size=(100_000, FEATURES))
    target = rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2:]).sum(axis=1) + 0.1 * random.normal(size=len(rows))
    made = Table(named([f"f{i}" for i in range(FEATURES)]), rows, target, "y")
    few = made.of(np.arange(len(rows)) < 8000)
    model = additive_fit.fit(few, AdditiveSettings(interactions=PAIRS, bags=1, rounds=50), tails=None)
    theirs = ExplainableBoostingRegressor(
        interactions=PAIRS, outer_bags=1, max_rounds=50, n_jobs=1, random_state=0
    )
    theirs.fit(few.rows, few.target)
    small = rows[:2048]
    model.predict(small)
    found = {
        "additive_us_per_row": least_s(lambda: model.predict(rows), 200) / len(rows) * 1e6,
        "additive_batch_2048_ms": least_s(lambda: model.predict(small), 200) * 1e3,
        "interpret_batch_2048_ms": least_s(lambda: theirs.predict(small), 50) * 1e3,
        "tree_us": tree_us(made.of(np.arange(len(rows)) < 20_000)),
    }
    pairs = task("pairs").taught
    found["fit_s/tree"] = least_s(lambda: tree_fit.fit(pairs, 1e-4), 3)
    found |= bags()
    table("Speed", ["figure", "measured"], [[name, value] for name, value in found.items()])
    return found


def tree_us(of: Table) -> float:
    """Return microseconds of one decision of a tree of 64 leaves, as exported C."""
    grown = tree_fit.grow(of, least_rows=20)
    step = next(step for step in grown.path() if step.leaves <= LEAVES)
    return c_us(grown.pruned(step.alpha), of)


def c_us(tree: TreeModel, of: Table) -> float:
    """Return microseconds of one decision of a tree as C, in a loop of C over rows."""
    loop = """
double many(const double *x, long rows, int columns, long calls) {
    double sum = 0;
    for (long i = 0; i < calls; i++) sum += predict(x + (i % rows) * columns);
    return sum;
}
"""
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder) / "tree.c", Path(folder) / "tree.so"
        source.write_text(exported(tree, "c") + loop)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", built, source, "-lm"], check=True)
        many = ctypes.CDLL(str(built)).many
        many.restype = ctypes.c_double
        many.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_long]
        rows = np.ascontiguousarray(of.rows)  # so many that a processor cannot learn by heart which way each goes
        return least_s(lambda: many(rows.ctypes.data, len(rows), rows.shape[1], CALLS), 5) / CALLS * 1e6


def bags() -> dict[str, float]:
    """Return the seconds of a fit to 100,000 rows of jobs, and what fewer bags cost in accuracy."""
    known = lengths().table
    chosen = np.random.default_rng(0).integers(0, len(known.target), 100_000)
    many = known.of(chosen)
    began = time.perf_counter()
    additive_fit.fit(many, SETTINGS, tails=None)
    found = {"fit_s/durations_1e5": time.perf_counter() - began}
    of = task("durations")
    for count in (1, 4, 14):
        model = additive_fit.fit(of.taught, replace(SETTINGS, bags=count), tails=None)
        found[f"durations/error_of_{count}_bags"] = of.error(model.predict(of.judged.rows))
    return found
