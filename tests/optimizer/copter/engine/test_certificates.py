"""What a continual program says is proven can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.optimizer.copter.engine import ContinualProgram, Row
from coadapt.optimizer.copter.engine.certificates import Certificates
from coadapt.optimizer.linear_program import Status
from hypothesis import given, settings
from hypothesis import strategies as st

INF = float("inf")


def knapsack(upper: float) -> ContinualProgram:
    """Make min -3 a - 2 b with 2 a + b <= 4, a + b <= 3, whose optimum is -7 at (1, 2)."""
    program = ContinualProgram()
    program.set_capacity("one", 4.0)
    program.add_request("ab", [-3.0, -2.0], {"one": [2, 1]}, [Row([1, 1], upper=3.0)], upper=upper)
    return program


@settings(max_examples=100)
@given(st.floats(-10, 10), st.floats(-10, 10), st.sampled_from([5.0, INF]))
def test_whatever_the_prices_a_bound_is_never_above_the_optimum(one: float, other: float, upper: float) -> None:
    bound = Certificates(knapsack(upper)._storage).bound(np.array([one, other]))
    assert bound <= -7.0 + 1e-9


def test_the_right_prices_prove_the_optimum() -> None:
    assert Certificates(knapsack(INF)._storage).bound(np.array([-1.0, -1.0])) == pytest.approx(-7.0)


def test_bounds_that_rows_imply_make_a_proof_of_prices_that_are_a_little_off() -> None:
    bound = Certificates(knapsack(INF)._storage).bound(np.array([-1.0, -0.99]))
    assert -7.1 < bound <= -7.0


def test_without_bounds_of_any_kind_nothing_is_proven() -> None:
    program = ContinualProgram()
    program.add_request("ab", [1.0, 1.0], rows=[Row([1.0, -1.0], 0.0, 0.0)], lower=-INF)
    assert Certificates(program._storage).bound(np.array([0.5])) == -INF


def test_farkas_rays_are_checked() -> None:
    program = ContinualProgram()
    program.add_request("x", [0.0, 0.0], rows=[Row([1, 1], lower=5.0), Row([1, 1], upper=4.0)])
    proof = Certificates(program._storage)
    assert proof.infeasible(np.array([1.0, -1.0]))
    assert not proof.infeasible(np.array([1.0, 1.0]))
    assert not proof.infeasible(np.array([0.0, 0.0]))
    assert not Certificates(knapsack(INF)._storage).infeasible(np.array([-1.0, -1.0]))


def test_what_rounding_takes_from_sums_proves_nothing() -> None:
    """Each of these has a point, and is refuted by a ray that is looked at in floats alone."""
    program = ContinualProgram()  # x <= 5 - z, which from the least a row can be is x <= 5 - (1e17 - 1e17)
    rows = [Row([1.0, 1.0], upper=5.0), Row([1.0, 0.0], lower=5.5)]
    program.add_request("far", [0.0, 0.0], rows=rows, lower=[-1e17, -0.7], upper=[INF, 0.0])
    assert not Certificates(program._storage).infeasible(np.array([0.0, 1.0]))

    program = ContinualProgram()  # coefficients add up to 1.4e-14, of which floats see nothing
    each = [-73.6, -75.7, -3.58, -0.168, -0.49, 153.538]
    links = np.eye(6, 5) - np.eye(6, 5, k=-1)
    rows = [Row([a, *link], lower=1e-8 * (i == 0)) for i, (a, link) in enumerate(zip(each, links, strict=True))]
    program.add_request("chain", np.zeros(6), rows=rows, upper=[1e6, *[INF] * 5])
    assert not Certificates(program._storage).infeasible(np.ones(6))

    program = ContinualProgram()  # 10,000 times 0.1 is 1000, but not where it was added up
    total = float(np.cumsum(np.full(10_000, 0.1))[-1])
    assert total > 1000.0
    program.add_request("sum", np.zeros(10_000), rows=[Row(1.0, total, total)], upper=0.1)
    assert not Certificates(program._storage).infeasible(np.ones(1))

    program = ContinualProgram()
    rows = [Row([1.0 + 1e-14, -1.0], lower=1e-10), Row([1.0, -1.0], upper=0.0)]
    program.add_request("steep", [0.0, 0.0], rows=rows)
    assert not Certificates(program._storage).infeasible(np.array([1.0, -1.0]))


def test_improving_rays_are_checked() -> None:
    program = ContinualProgram()
    program.add_request("x", [-1.0, 0.5], rows=[Row([1.0, -1.0], upper=2.0)])
    proof = Certificates(program._storage)
    assert proof.improving(np.array([1.0, 1.0]))
    assert not proof.improving(np.array([1.0, 0.0]))  # leaves the row
    assert not proof.improving(np.array([1.0, 3.0]))  # costs more than it brings
    assert program.solve().status is Status.UNBOUNDED


def test_an_improving_ray_of_a_program_without_a_point_is_no_reason_to_call_it_unbounded() -> None:
    program = ContinualProgram()
    program.add_request("x", [-1.0, -1.0], rows=[Row([1.0, 0.0], upper=-1.0)], upper=[INF, INF])
    assert program.solve().status is Status.INFEASIBLE
