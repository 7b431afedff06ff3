"""What a continual program says is proven can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.optimizer import ContinualProgram, Row, Status
from coadapt.optimizer.continual.certificates import Certificates
from hypothesis import given, settings
from hypothesis import strategies as st

INF = float("inf")


def knapsack(upper: float) -> ContinualProgram:
    """min -3 a - 2 b with 2 a + b <= 4, a + b <= 3: -7 at (1, 2)."""
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
