"""Months have the jobs and GPU time of the trace, and only whole ones are compared."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.simulator.study.monthly import monthly
from coadapt.simulator.study.time_bins import Window, window_of
from coadapt.simulator.traces.workload import TraceJob

from tests.support.studies import DAY_S, studied


def test_jobs_and_use_of_single_and_multi_gpu_jobs_are_apart() -> None:
    jobs = studied([TraceJob("a", 0.0, 1, DAY_S), TraceJob("b", 0.0, 3, DAY_S), TraceJob("c", 40 * DAY_S, 1, 0.0)])
    found = monthly(jobs, window_of(jobs))
    assert found.names == ("2020-09", "2020-10")
    assert (found.single.tolist(), found.multi.tolist()) == ([1, 1], [1, 0])
    np.testing.assert_allclose(found.use_single, [1 / 30, 0])
    np.testing.assert_allclose(found.use_multi, [3 / 30, 0])
    assert found.mean_gpus.tolist() == [2.0, 1.0]


def test_a_month_of_few_days_and_two_months_are_not_compared() -> None:
    jobs = studied([TraceJob(str(i), i * DAY_S, 1, 60.0) for i in range(75)])
    found = monthly(jobs, Window(0.0, 75 * DAY_S))
    assert found.whole.tolist() == [True, True, False], "November has 14 days"
    assert np.isnan(found.variation(found.single))


def test_variation_is_that_of_submissions_per_day() -> None:
    # One job a day in September and November, and three a day in October.
    times = [i * DAY_S for i in range(91) for _ in range(3 if 30 <= i < 61 else 1)]
    jobs = studied([TraceJob(str(i), t, 1, 60.0) for i, t in enumerate(times)])
    found = monthly(jobs, Window(0.0, 91 * DAY_S))
    rates = np.array([1.0, 3.0, 1.0])
    assert found.variation(found.single) == pytest.approx(rates.std() / rates.mean())
    assert np.isnan(found.variation(found.multi)), "there is none"


def test_use_is_unknown_without_lengths() -> None:
    jobs = studied([TraceJob("a", 0.0, application="bert")])
    found = monthly(jobs, window_of(jobs))
    assert np.isnan(found.use_single).all()
    assert np.isnan(found.use_multi).all()
