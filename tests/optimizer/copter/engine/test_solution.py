"""A solution is read by the names of its program, in its own terms: what is maximised, gained and worth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from coadapt.optimizer.copter.engine.solution import Outcome, Solution
from coadapt.optimizer.linear_program import Status

OUTCOME = Outcome(
    Status.OPTIMAL,
    x=np.array([0.1, 0.2, 9.9, 0.3]),  # slot 2 is nobody's
    y=np.array([-2.0, 3.0, -0.5]),
    objective=-10.0,
    bound=-11.0,
    primal_residual=1e-6,
    dual_residual=1e-7,
    iterations=5,
    seconds=0.1,
)
PLACES = np.array([[3, 1, 0, 0], [0, 2, 2, 1]])  # of requests by number: columns, and own rows


def solution(maximise: bool, **outcome: float) -> Solution:
    found = replace(OUTCOME, **outcome)
    return Solution(found, maximise, {"b": 1, "a": 0}, PLACES, {"gpus": 0}, {"fair": 1})


def test_variables_are_found_by_their_request_in_the_order_in_which_these_came() -> None:
    found = solution(True)
    assert found.values.tolist() == [0.1, 0.2, 0.3]
    assert (found.x("a").tolist(), found.x("b").tolist()) == ([0.3], [0.1, 0.2])
    assert found.of_all(["a", "b"]).tolist() == [0.3, 0.1, 0.2]
    assert (found.of("b"), found.of("a")) == (slice(0, 2), slice(2, 3))


@pytest.mark.parametrize(
    ("maximise", "objective", "bound", "price", "dual", "own"),
    [(True, 10.0, 11.0, 2.0, -3.0, [0.5]), (False, -10.0, -11.0, -2.0, 3.0, [-0.5])],
)
def test_figures_and_prices_have_the_sign_of_the_program(
    maximise: bool, objective: float, bound: float, price: float, dual: float, own: list[float]
) -> None:
    found = solution(maximise)
    assert (found.objective, found.bound) == (objective, bound)
    assert (found.price("gpus"), found.constraint_dual("fair")) == (price, dual)
    assert found.row_duals("b").tolist() == own
    assert found.gap == pytest.approx(0.1)


@pytest.mark.parametrize(("bound", "gap"), [(-math.inf, math.inf), (-9.0, 0.0), (-10.0, 0.0)])
def test_the_gap_is_infinite_without_a_bound_and_never_below_zero(bound: float, gap: float) -> None:
    assert solution(True, bound=bound).gap == gap


def test_zero_is_never_minus_zero() -> None:
    found = solution(True, objective=0.0, bound=0.0)
    assert str(found.objective) == str(found.bound) == "0.0"
    assert found.gap == 0.0


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda found: found.x("c"), "request 'c': was not part of the program that was solved"),
        (lambda found: found.of("c"), "request 'c': was not part"),
        (lambda found: found.of_all(["a", "c"]), "request 'c': was not part"),
        (lambda found: found.of_all([["a"]]), "request: is of type list, which cannot be a key of a dict"),
        (lambda found: found.price("bytes"), "resource 'bytes': was not part"),
        (lambda found: found.constraint_dual("even"), "constraint 'even': was not part"),
        (lambda found: found.row_duals("c"), "request 'c': was not part"),
    ],
)
def test_what_was_not_solved_is_named(read, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(solution(True))


def test_whole_numbers_are_beside_the_solution_and_what_is_printed_is_short() -> None:
    found = solution(True).with_integral(np.array([0.0, 1.0, 0.0]))
    assert found.integral is not None
    assert found.values.tolist() == [0.1, 0.2, 0.3]
    assert repr(found) == "Solution(optimal, objective=10, bound=11, iterations=5, seconds=0.1)"
