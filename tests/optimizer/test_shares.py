"""Shares of time leave nobody worse off than need be, level by level."""

from __future__ import annotations

import numpy as np
from coadapt.optimizer.shares import water_filling_shares
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog


def test_who_shares_a_scarce_type_does_not_hold_back_who_does_not() -> None:
    # Two jobs share the only GPU that runs them; the third has one of its own.
    shares = water_filling_shares(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.ones(3), np.ones(2))
    np.testing.assert_allclose(shares, [[0.5, 0.0], [0.5, 0.0], [0.0, 1.0]], atol=1e-5)


def test_levels_rise_one_after_the_other() -> None:
    # Two jobs only run on the first type, two only on the second; one has a third to itself.
    values = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 1]], float)
    shares = water_filling_shares(values, np.array([1, 1, 1, 1, 1.0]), np.array([0.5, 1.5, 0.9]))
    np.testing.assert_allclose((values * shares).sum(axis=1), [0.25, 0.25, 0.75, 0.75, 0.9], atol=1e-4)


programs = st.integers(1, 6).flatmap(
    lambda jobs: st.tuples(
        st.lists(
            st.lists(st.one_of(st.just(0.0), st.floats(0.1, 10.0)), min_size=2, max_size=2),
            min_size=jobs, max_size=jobs,
        ),
        st.lists(st.sampled_from([1, 2, 4, 8]), min_size=jobs, max_size=jobs),
        st.lists(st.integers(1, 8), min_size=2, max_size=2),
    )
)  # fmt: skip


@settings(max_examples=60)
@given(programs)
def test_nobody_gains_but_at_the_cost_of_a_worse_off(
    program: tuple[list[list[float]], list[int], list[int]],
) -> None:
    values, gpus, capacity = (np.array(part, float) for part in program)
    jobs, types = values.shape
    shares = water_filling_shares(values, gpus, capacity)
    assert np.all(shares >= 0)
    assert np.all(shares.sum(axis=1) <= 1 + 1e-6)
    assert np.all(gpus @ shares <= capacity * (1 + 1e-6))
    got = (values * shares).sum(axis=1)
    each, usage = np.kron(np.eye(jobs), np.ones(types)), np.kron(gpus, np.eye(types))
    worth = each * values.ravel()
    for i in range(jobs):
        others = (got <= got[i] * (1 + 1e-4)) & (np.arange(jobs) != i)
        rows = np.vstack([each, usage, -worth[others]])
        limits = np.concatenate([np.ones(jobs), capacity, -got[others] * (1 - 1e-6)])
        best = linprog(-worth[i], rows, limits)
        assert -best.fun <= got[i] * (1 + 1e-2) + 1e-4
