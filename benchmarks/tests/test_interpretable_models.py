"""What the benchmark of models one can read reckons with: gains, noise, lags, and a fair division by time."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.benchmarks.readable.robustness import noisy
from coadapt.benchmarks.readable.searching import gain
from coadapt.benchmarks.readable.tasks import Task, _before, _mean_before
from coadapt.estimators.interpretable.additive_fit import AdditiveSettings
from coadapt.estimators.interpretable.table import Table, named


@pytest.mark.parametrize(("without", "with_search", "wanted"), [(0.1728, 0.1442, 0.166), (1.0155, 0.8660, 0.147)])
def test_pr_14_gains_are_those_of_table_5_6(without: float, with_search: float, wanted: float) -> None:
    assert gain(without, with_search) == pytest.approx(wanted, abs=1e-3)
    assert gain(0.0, 0.0) == 0.0


@pytest.mark.parametrize(("cut", "times"), [(0.700, 2.46), (0.736, 2.80)])
def test_pr_13_what_two_cuts_of_latency_leave_is_as_far_apart_as_told(cut: float, times: float) -> None:
    linnos, primo = 1 - 0.262, 1 - cut
    assert 1 / (1 - gain(linnos, primo)) == pytest.approx(times, abs=5e-3)


def test_pr_14_training_times_are_those_of_table_5_5() -> None:
    assert 1 / (1 - gain(564.0, 5.0)) == pytest.approx(112.8)
    assert 1 / (1 - gain(1081.0, 79.0)) == pytest.approx(13.7, abs=0.05)


def test_lengths_are_learned_over_those_of_like_jobs_and_judged_in_seconds() -> None:
    table = Table(named("ab"), np.zeros((2, 2)), np.array([0.0, np.log(2.0)]))
    of = Task("durations", table, table, AdditiveSettings(), starts=np.log([10.0, 100.0]))
    assert np.exp(of.logs(table.target)) == pytest.approx([10.0, 200.0])
    assert of.error(np.zeros(2)) == pytest.approx((0 + 100) / 2)


def test_pr_19_noise_is_on_all_columns_but_the_one_that_is_kept() -> None:
    rows = np.random.default_rng(1).normal(0, (5.0, 100.0, 1.0), (4000, 3))
    found = noisy(rows, 2, 0.5)
    assert (found[:, 2] == rows[:, 2]).all()
    apart = (found - rows)[:, :2].std(axis=0)
    assert apart == pytest.approx([2.5, 50.0], rel=0.1)
    assert (noisy(rows, 2, 0.5) == found).all()


def test_lags_and_means_look_back_and_never_ahead() -> None:
    values = np.arange(6.0)
    assert _before(values, 2).tolist()[2:] == [0.0, 1.0, 2.0, 3.0]
    assert np.isnan(_before(values, 2)[:2]).all()
    assert _mean_before(values, 3).tolist()[3:] == [1.0, 2.0, 3.0]
    assert np.isnan(_mean_before(values, 3)[:3]).all()
