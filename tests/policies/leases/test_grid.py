"""Leases on the grid: what suspensions cost and how many leases a job needs (spec, checks A4 to A6)."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from coadapt.policies.leases.grid import (
    best_effort,
    cycles,
    lease_at,
    leases_for,
    leases_until,
    towards_deadline,
)


def distribution(n: int, m: int) -> list[tuple[int, Fraction]]:
    return [
        (k, Fraction(comb(n - 1, k) * comb(m - n + 1, k + 1), comb(m, n))) for k in range(min(n - 1, m - n) + 1)
    ]


def test_the_closed_form_is_the_mean_of_equation_3() -> None:
    for m in range(1, 40):
        for n in range(1, m + 1):
            parts = distribution(n, m)
            assert sum(part for _, part in parts) == 1
            assert float(sum(k * part for k, part in parts)) == pytest.approx(cycles(n, m))


@pytest.mark.parametrize(
    ("n", "m", "mean"), [(2, 3, 1 / 3), (3, 6, 1), (6, 12, 2.5), (10, 20, 4.5), (1, 9, 0), (9, 9, 0), (7, 5, 0)]
)
def test_how_often_a_job_is_suspended(n: int, m: int, mean: float) -> None:
    assert cycles(n, m) == pytest.approx(mean)


def test_a_best_effort_job_is_suspended_after_every_second_lease() -> None:
    assert best_effort(6 * 300.0, 300.0, 60.0).seconds - 6 * 300.0 == 180.0


def test_ten_thousand_iterations_by_an_hour() -> None:
    work_s = 10_000 * 0.17
    needed = towards_deadline(work_s, 600.0, 3600.0, 60.0)
    assert (needed.seconds, needed.leases, leases_until(3600.0, 600.0)) == (pytest.approx(1760.0), 3, 6)
    without = best_effort(work_s, 300.0, 60.0)
    assert (without.seconds, without.leases) == (pytest.approx(1880.0), 7)


def test_a_soft_deadline_of_a_hundred_minutes_has_ten_to_fifteen_leases() -> None:
    assert [leases_until(100 * 60 * part, 600.0) for part in (1.0, 1.1, 1.2, 1.5)] == [10, 11, 12, 15]


def test_a_job_needs_a_lease_at_least_and_a_remainder_one_more() -> None:
    assert [leases_for(seconds, 300.0) for seconds in (0.0, 1.0, 300.0, 300.1)] == [1, 1, 1, 2]
    assert [lease_at(now, 300.0) for now in (0.0, 299.9, 300.0, 600.0)] == [0, 0, 1, 2]
    assert leases_until(-5.0, 300.0) == 0
