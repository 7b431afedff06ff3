"""A daily pattern is found where there is one, and not in noise, trends or a steady cluster."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.simulator.study.daily import daily, pattern
from coadapt.simulator.study.time_bins import hours, window_of
from coadapt.simulator.traces.tables import Floats
from coadapt.simulator.traces.workload import TraceJob
from hypothesis import given
from hypothesis import strategies as st

from tests.support.studies import HOUR_S, studied

DAYS = 28
CLOCK = np.arange(24 * DAYS) % 24
RNG = np.random.default_rng(5)
WAVE = 100 + 20 * np.sin(2 * np.pi * CLOCK / 24)
# Series -> whether it has a daily pattern.
SERIES: dict[str, tuple[Floats, bool]] = {
    "a wave": (WAVE, True),
    "a wave in noise": (WAVE + RNG.normal(0, 20, len(CLOCK)), True),
    "a wave on a trend": (WAVE + np.linspace(0, 400, len(CLOCK)), True),
    "a wave with bursts": (WAVE + 1000 * (RNG.random(len(CLOCK)) < 0.01), True),
    "noise": (RNG.normal(100, 20, len(CLOCK)), False),
    "a trend": (np.linspace(0, 400, len(CLOCK)), False),
    "a walk": (1000 + np.cumsum(RNG.normal(0, 5, len(CLOCK))), False),
    "a steady cluster": (np.full(len(CLOCK), 7.0), False),
    "nothing": (np.zeros(len(CLOCK)), False),
    "one burst": (np.eye(1, len(CLOCK), 300)[0] * 500, False),
}


@pytest.mark.parametrize(("series", "there"), SERIES.values(), ids=SERIES.keys())
def test_a_pattern_is_told_from_chance(series: Floats, there: bool) -> None:
    found = pattern(series, np.ones(len(series)), CLOCK, root=True)
    assert found.clear == there
    assert found.days == DAYS


def test_hours_of_the_pattern_are_those_of_the_clock() -> None:
    found = pattern(WAVE, np.ones(len(WAVE)), (CLOCK + 9) % 24)
    assert (found.busiest, found.quietest) == (15, 3), "a sine is largest at its sixth hour"
    assert found.explained == pytest.approx(1.0)
    assert found.swing == pytest.approx(120 / 80)
    assert found.deviation == pytest.approx(np.zeros(24), abs=1e-9)


def test_too_few_days_tell_no_pattern() -> None:
    found = pattern(WAVE[: 24 * 7], np.ones(24 * 7), CLOCK[: 24 * 7])
    assert np.isnan(found.p)
    assert not found.clear


@given(
    st.lists(st.tuples(st.floats(0, 9 * 86_400), st.integers(1, 4), st.floats(0, 86_400)), min_size=1, max_size=40)
)
def test_means_of_hours_add_up_to_all_submissions_and_gpu_time(rows: list[tuple[float, int, float]]) -> None:
    jobs = studied([TraceJob(str(i), t, n, s) for i, (t, n, s) in enumerate(sorted(rows))])
    bins = hours(window_of(jobs), jobs.began_s)
    found = daily(jobs, bins)
    assert found.use is not None
    clock = np.floor((bins.edges_s[:-1] + bins.edges_s[1:]) / 2 / HOUR_S).astype(int) % 24
    covered_h = np.bincount(clock, weights=bins.width_s / HOUR_S, minlength=24)
    assert np.nansum(found.submissions.mean * covered_h) == pytest.approx(len(jobs))
    np.testing.assert_allclose(found.single + found.multi, found.submissions.mean, rtol=1e-9)
    assert np.nansum(found.use.mean * covered_h) == pytest.approx(bins.gpu_s(jobs.held).sum() / HOUR_S, abs=1e-6)


def test_use_is_unknown_where_no_length_is_known() -> None:
    jobs = studied([TraceJob("a", 0.0, application="bert")])
    assert daily(jobs, hours(window_of(jobs), jobs.began_s)).use is None
