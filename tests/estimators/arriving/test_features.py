"""The 14 numbers that tell of arrivals: the paper's windows, and nothing of what comes after now."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.arriving.features import ARRIVALS, DUE, ENDS, NAMES, PERIODIC, arrive, features
from coadapt.estimators.arriving.past import TeamPast
from hypothesis import given
from hypothesis import strategies as st

MIN_S = 60.0
WINDOWS_S = (300.0, 3600.0, 43_200.0)


def past(
    submitted_min: list[float],
    ended_min: list[float] | None = None,
    runs: list[tuple[float, float, float]] | None = None,
) -> TeamPast:
    """Return jobs by minutes; runs: when one began, was due and ended."""
    began, due, left = MIN_S * np.array(runs or [], float).reshape(-1, 3).T
    times = [MIN_S * np.sort(np.array(minutes, float)) for minutes in (submitted_min, ended_min or [])]
    return TeamPast(*times, began, due, left)


def numbers(of: TeamPast, now_min: float, window_min: float, names: tuple[str, ...]) -> list[float]:
    row = features(of, np.array([MIN_S * now_min]), MIN_S * window_min)[0]
    return [float(row[NAMES.index(name)]) for name in names]


ARRIVED = [9998.0, 9995, 9960, 9941, 9943, 9880, 8561, 8562, 7122, 5683]


@pytest.mark.parametrize(
    ("window_min", "periodic", "recent"),
    [
        (5, [2, 0, 0, 2, 1, 1], [2, 3, 6]),
        (60, [5, 0, 1, 2, 1, 1], [5, 6, 10]),
        (720, [5, 5, 6, 2, 1, 1], [6, 10, 10]),
    ],
)
def test_windows_are_those_of_the_paper_cut_at_now(
    window_min: float, periodic: list[float], recent: list[float]
) -> None:
    """Check A10 of the specification."""
    of = past(ARRIVED, ended_min=ARRIVED)
    assert numbers(of, 10_000, window_min, PERIODIC) == periodic
    assert numbers(of, 10_000, window_min, ARRIVALS) == recent
    assert numbers(of, 10_000, window_min, ENDS) == recent


def test_jobs_that_run_are_due_within_the_window_or_later() -> None:
    runs = [(0.0, 12.0, 50.0), (0.0, 4.0, 50.0), (0.0, 99.0, 50.0), (0.0, 5.0, 9.0), (11.0, 12.0, 50.0)]
    of = past([], runs=runs)
    assert numbers(of, 10, 5, DUE) == [2, 1], "one is due, one is overdue, one is due later; two do not run"
    assert numbers(of, 50, 5, DUE) == [0, 0], "a job that ends now runs no more"


def test_a_window_begins_after_now_and_includes_its_end() -> None:
    of = past([10.0])
    at_s = MIN_S * np.array([5.0, 4.0, 10.0, 9.9])
    assert arrive(of, at_s, 300.0).tolist() == [True, False, False, True]


times = st.lists(st.integers(0, 5000).map(float), max_size=30)
runs = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(0, 2000), st.integers(0, 2000)).map(
        lambda run: (float(run[0]), float(run[0] + run[1]), float(run[0] + run[2]))
    ),
    max_size=20,
)


@given(submitted=times, ended=times, ran=runs, now=st.integers(0, 5000), window_s=st.sampled_from(WINDOWS_S))
def test_no_feature_changes_with_what_comes_after_now(
    submitted: list[float], ended: list[float], ran: list[tuple[float, float, float]], now: int, window_s: float
) -> None:
    whole, at_s = past(submitted, ended, ran), np.array([MIN_S * now])
    known = whole.until(MIN_S * now)
    assert np.isinf(known.left_s[known.left_s > MIN_S * now]).all()
    assert features(known, at_s, window_s).tolist() == features(whole, at_s, window_s).tolist()


@given(submitted=times, ended=times, ran=runs)
def test_moments_together_are_as_each_by_itself(
    submitted: list[float], ended: list[float], ran: list[tuple[float, float, float]]
) -> None:
    of, at_s = past(submitted, ended, ran), MIN_S * np.arange(0.0, 5000, 250)
    alone = [features(of, at_s[i : i + 1], 3600.0)[0].tolist() for i in range(len(at_s))]
    assert features(of, at_s, 3600.0).tolist() == alone
