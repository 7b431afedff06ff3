"""Hours and months divide a trace without a gap: what they hold adds up to the whole."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.simulator.study.time_bins import Bins, Window, day, hour_of_day, hours, months, window_of
from coadapt.simulator.traces.tables import instant
from coadapt.simulator.traces.workload import TraceJob
from hypothesis import given
from hypothesis import strategies as st

from tests.support.studies import DAY_S, HOUR_S, studied

TIMES = st.floats(0, 40 * DAY_S)
JOBS = st.lists(st.tuples(TIMES, st.integers(1, 64), st.floats(0, 20 * DAY_S)), min_size=1, max_size=30)
BEGAN = st.one_of(st.none(), st.floats(0, 2e9))


def trace(rows: list[tuple[float, int, float]]) -> list[TraceJob]:
    return [TraceJob(str(i), submit, gpus, length) for i, (submit, gpus, length) in enumerate(sorted(rows))]


@given(JOBS, BEGAN)
def test_gpu_time_and_submissions_of_hours_and_months_add_up_to_those_of_the_window(
    rows: list[tuple[float, int, float]], began_s: float | None
) -> None:
    jobs = studied(trace(rows))
    window = window_of(jobs)
    start_s, end_s = jobs.held.start_s, jobs.held.end_s
    inside_s = np.clip(end_s, window.start_s, window.end_s) - np.clip(start_s, window.start_s, window.end_s)
    total = float((inside_s * jobs.held.gpus).sum())
    by_month, names = months(window, began_s)
    for bins in (hours(window, began_s), by_month):
        assert bins.gpu_s(jobs.held).sum() == pytest.approx(total, rel=1e-9, abs=1e-3)
        assert bins.count(jobs.submit_s).sum() == len(jobs)
        assert bins.width_s.sum() == pytest.approx(window.length_s)
        assert (bins.width_s > 0).all()
    assert len(names) == len(by_month.width_s)


@given(JOBS)
def test_no_bin_holds_more_than_all_jobs_together(rows: list[tuple[float, int, float]]) -> None:
    jobs = studied(trace(rows))
    bins = hours(window_of(jobs), jobs.began_s)
    assert (bins.gpu_s(jobs.held) / bins.width_s <= jobs.gpus.sum() * (1 + 1e-9) + 1e-3).all()


def test_a_job_counts_in_each_hour_as_long_as_it_holds_gpus() -> None:
    jobs = studied([TraceJob("a", 1800.0, 4, 2 * HOUR_S)])
    found = Bins(np.arange(4) * HOUR_S).gpu_s(jobs.held)
    assert found.tolist() == [4 * 1800.0, 4 * 3600.0, 4 * 1800.0]


def test_hours_are_those_of_the_clock() -> None:
    began_s = instant("2020-09-01 22:30:00")
    bins = hours(Window(0.0, 2 * HOUR_S), began_s)
    assert bins.edges_s.tolist() == [0.0, 1800.0, 5400.0, 7200.0]
    assert hour_of_day(bins, began_s).tolist() == [22, 23, 0]
    assert hours(Window(0.0, 2 * HOUR_S), None).edges_s.tolist() == [0.0, 3600.0, 7200.0]


def test_months_are_those_of_the_calendar_and_parts_of_30_days_without_one() -> None:
    bins, names = months(Window(0.0, 60 * DAY_S), instant("2020-01-31 00:00:00"))
    assert names == ("2020-01", "2020-02", "2020-03")
    assert (bins.width_s / DAY_S).tolist() == [1.0, 29.0, 30.0]
    assert months(Window(0.0, 45 * DAY_S), None)[1] == ("from day 0", "from day 30")


def test_the_window_ends_with_the_last_submission_or_with_the_last_job_of_a_short_trace() -> None:
    long = studied([TraceJob("a", 0.0, 1, 5 * DAY_S), TraceJob("b", 2 * DAY_S, 1, 9 * DAY_S)])
    assert window_of(long) == Window(0.0, 2 * DAY_S)
    short = studied([TraceJob("a", 3.0, 1, 100.0), TraceJob("b", 10.0, 1, 20.0)])
    assert window_of(short) == Window(3.0, 103.0)
    assert window_of(studied([TraceJob("a", 3.0, 1, 0.0)])).length_s == 1.0


def test_a_trace_of_more_than_fifty_years_is_not_cut() -> None:
    for cut in (hours, months):
        with pytest.raises(ValueError, match="spans more than 50 years"):
            cut(Window(0.0, 1e11), None)


def test_moments_have_a_date_where_the_trace_has_one() -> None:
    assert day(90.0, instant("2020-09-01 00:00:00")) == "2020-09-01 00:01"
    assert day(1.5 * DAY_S, None) == "day 1.5"
