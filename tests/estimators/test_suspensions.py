"""Suspensions are expected as often as Equation 3 says, and cost what one of them costs."""

from __future__ import annotations

import math

import pytest
from coadapt.estimators.suspensions import leases, suspending_s, suspensions


def chances(needed: int, until: int) -> list[float]:
    """Return the chance of each number of suspensions, as Equation 3 is printed."""
    most = min(needed - 1, until - needed)
    ways = [math.comb(needed - 1, k) * math.comb(until - needed + 1, k + 1) for k in range(most + 1)]
    return [way / math.comb(until, needed) for way in ways]


@pytest.mark.parametrize("until", range(1, 40))
def test_the_closed_form_is_the_mean_of_equation_3(until: int) -> None:
    for needed in range(1, until + 1):
        found = chances(needed, until)
        assert sum(found) == pytest.approx(1.0)
        assert suspensions(needed, until) == pytest.approx(sum(k * part for k, part in enumerate(found)))


@pytest.mark.parametrize(
    ("needed", "until", "mean"),
    [(2, 3, 1 / 3), (3, 6, 1.0), (6, 12, 2.5), (10, 20, 4.5), (1, 9, 0.0), (9, 9, 0.0), (9, 4, 0.0), (1, 0, 0.0)],
)
def test_the_worked_examples_of_the_specification(needed: int, until: int, mean: float) -> None:
    assert suspensions(needed, until) == pytest.approx(mean)


def test_a_job_without_a_deadline_is_suspended_after_half_of_its_leases() -> None:
    assert suspensions(6, None) * 60.0 == 180.0


def test_the_worked_duration_of_the_specification() -> None:
    work_s = 10_000 * 0.17
    strict = suspending_s(work_s, 60.0, 600.0, 3600.0)
    best_effort = suspending_s(work_s, 60.0, 300.0, None)
    assert (leases(work_s, 600.0), leases(work_s, 300.0)) == (3, 6)
    assert (strict, best_effort) == (pytest.approx(60.0), pytest.approx(180.0))
    assert (work_s + strict, work_s + best_effort) == (pytest.approx(1760.0), pytest.approx(1880.0))
    assert (leases(work_s + strict, 600.0), leases(work_s + best_effort, 300.0)) == (3, 7)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((0.0, 1.0, 1.0, None), "work_s: 0.0 is not accepted"),
        ((1.0, 1.0, math.inf, None), "lease_s: inf is not accepted"),
        ((1.0, -1.0, 1.0, None), "cost_s: -1.0 is not accepted"),
        ((1.0, 1.0, 1.0, math.nan), "until_s: nan is not accepted"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[float, float, float, float | None], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        suspending_s(*arguments)


@pytest.mark.parametrize(("needed", "until", "told"), [(0, 3, "needed: 0 leases"), (1, -1, "until: -1 leases")])
def test_leases_that_cannot_be_are_refused(needed: int, until: int, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        suspensions(needed, until)
