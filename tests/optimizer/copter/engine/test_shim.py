"""What a shim returns is whole and feasible, or refused in one sentence that says where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coadapt.optimizer.copter.engine import ContinualProgram

NAN = float("nan")

SHIMS: list[tuple[Any, str]] = [
    (None, "shim: what it returned: is of type NoneType"),
    ([1.0], r"shim: returned an array of shape \(1,\), not \(4,\)"),
    ([NAN, 0.0, 0.0, 0.0], "shim: entry 0 is nan; whole numbers from 0 to inf are accepted"),
    ([0.0, 0.5, 0.0, 0.0], "shim: entry 1 is 0.5; whole numbers"),
    ([0.0, 0.0, -1.0, 0.0], "shim: entry 2 is -1.0; whole numbers"),
    ([0.0, 100.0, 0.0, 0.0], "shim: capacity of 'a100': 200 is used; -inf to 8 is accepted"),
]


@pytest.mark.parametrize(("returned", "message"), SHIMS)
def test_a_shim_that_returns_no_whole_feasible_solution_is_told_so(returned: Any, message: str) -> None:
    program = ContinualProgram(maximise=True)
    program.set_capacity("a100", 8.0)
    program.add_request("job-1", [1.0, 1.9], {"a100": [1, 2]})
    program.add_request("job-2", [2.0, 2.5], {"a100": [1, 4]})
    with pytest.raises(ValueError, match=message):
        program.solve(shim=lambda solution: returned)
    assert program.solve(shim=lambda solution: np.zeros(4)).integral is not None


@pytest.mark.parametrize("lower", [0.0, -np.inf])
def test_a_shim_may_break_a_large_side_by_rounding(lower: float) -> None:
    program = ContinualProgram(maximise=True)
    program.set_capacity("bytes", 0.3 * 2**31, lower)
    program.add_request("three", [1.0, 1.0, 1.0], {"bytes": 0.1 * 2**31}, upper=1.0)
    assert program.solve(shim=lambda solution: np.ones(3)).integral is not None


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1.0, 1e9])
def test_a_shim_may_not_break_a_side_however_small(unit: float) -> None:
    program = ContinualProgram(maximise=True)
    program.set_capacity("storage", unit)
    program.add_request("job", [1.0], {"storage": unit})
    assert program.solve(shim=lambda solution: np.ones(1)).integral is not None
    with pytest.raises(ValueError, match="shim: capacity of 'storage'"):
        program.solve(shim=lambda solution: np.full(1, 2.0))
