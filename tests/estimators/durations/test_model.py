"""A model of lengths is fitted anew, and a worse one than that in use is not taken."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.durations.features import COLUMNS, START
from coadapt.estimators.durations.model import LEAST_JOBS, Fitting, Form, Kind, fit_lengths, refit_lengths
from coadapt.estimators.durations.rows import EndedColumns

GPUS = COLUMNS.index("gpus")


def ended(count: int, seconds: float = 600.0, seed: int = 0) -> EndedColumns:
    """Return jobs whose length follows their GPUs."""
    random = np.random.default_rng(seed)
    rows = np.zeros((count, len(COLUMNS)))
    rows[:, GPUS] = random.integers(1, 9, count)
    rows[:, START] = np.log(seconds)
    lengths = seconds * rows[:, GPUS] * np.exp(0.1 * random.standard_normal(count))
    return EndedColumns(rows, lengths, rows[:, START].copy())


HOWS = [Fitting(Form.OURS), Fitting(Form.PUBLISHED), Fitting(Form.OURS, kind=Kind.ADDITIVE)]


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_few_jobs_fit_nothing_and_many_do_better_than_where_they_start(how: Fitting) -> None:
    assert fit_lengths(how, ended(LEAST_JOBS - 1)) is None
    model = fit_lengths(how, ended(1000))
    assert model is not None
    assert model.loss(ended(500, seed=1)) < np.abs(np.log(ended(500).rows[:, GPUS])).mean() / 1.5


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_a_worse_model_is_not_taken_and_a_better_one_is(how: Fitting) -> None:
    good = fit_lengths(how, ended(2000))
    assert good is not None
    spoilt = ended(1000)
    spoilt.seconds[:600] = 1e6  # of another time, and the newest are as before
    assert refit_lengths(how, spoilt, good, fresh=800) is None
    assert refit_lengths(how, ended(2000, seed=2), None, fresh=2000) is not None
    moved = ended(2000, seconds=90_000.0, seed=3)
    moved.rows[:, START] = np.log(600.0)
    assert refit_lengths(how, moved, good, fresh=1000) is not None, "jobs have become longer"
