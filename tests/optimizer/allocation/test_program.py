"""What the structured solver of choice programs promises: plans that fit, bounds that hold, whatever changed."""

import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceProblem, ChoiceProgram, ChoiceSolution, exact, solver
from coadapt.optimizer.allocation.candidates import Candidates
from coadapt.optimizer.copter.baselines import milp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.support.choice_instances import FAMILIES, LARGER, draw

families = st.sampled_from(list(FAMILIES))
seeds = st.integers(0, 10**6)
fixed = settings(max_examples=100)


def assert_holds(problem: ChoiceProblem, solution: ChoiceSolution) -> None:
    """Check that a plan fits, has allowed columns, is worth what it says, and serves or names required rows."""
    row = np.flatnonzero(solution.choice >= 0)
    column = solution.choice[row]
    assert problem.allowed[row, column].all()
    assert (problem.usage[:, column].sum(axis=1) <= problem.capacity + 1e-9).all()
    assert solution.objective == pytest.approx(problem.value[row, column].sum(), abs=1e-9)
    assert solution.bound >= solution.objective
    assert problem.required is not None
    assert set(np.flatnonzero(problem.required)) == set(solution.unmet) | (
        set(np.flatnonzero(problem.required)) & set(row)
    )


def assert_brackets(solution: ChoiceSolution, best: ChoiceSolution) -> None:
    """Check objective <= optimum <= bound, where the optimum lies between the two of `best`."""
    slack = 1e-6 * max(1.0, abs(best.objective))
    assert solution.objective <= best.bound + slack
    assert solution.bound >= best.objective - slack


@given(families, seeds)
@fixed
def test_a_plan_fits_and_the_optimum_lies_between_it_and_the_bound(family: str, seed: int) -> None:
    instance = draw(family, seed)
    problem, best = instance.problem(), milp.solve(instance.problem(), gap=0.0)
    solution = instance.program().solve(instance.ids, gap=1e-6)
    assert_holds(problem, solution)
    assert solution.unmet == best.unmet
    assert_brackets(solution, best)
    assert solution.proven
    assert solution.gap <= 1e-6 + 1e-7


@given(st.sampled_from(list(LARGER)), seeds)
@settings(max_examples=15)
def test_what_cannot_be_searched_as_a_whole_still_has_a_bound_that_holds(family: str, seed: int) -> None:
    instance = draw(family, seed)
    best = milp.solve(instance.problem(), time_limit_s=2.0)
    for time_limit_s in (0.0, 0.1):
        solution = instance.program().solve(instance.ids, gap=0.0, time_limit_s=time_limit_s)
        assert_holds(instance.problem(), solution)
        assert_brackets(solution, best)


@given(families, seeds, st.sampled_from([0.0, 1e-3, 0.1]))
@fixed
def test_a_plan_called_proven_is_within_the_gap_asked_for(family: str, seed: int, gap: float) -> None:
    instance = draw(family, seed)
    solution = instance.program().solve(instance.ids, gap)
    best = milp.solve(instance.problem(), gap=0.0)
    assert_brackets(solution, best)
    if solution.proven:
        assert best.objective - solution.objective <= gap * abs(best.objective) + 1e-6 * max(
            1.0, abs(best.objective)
        )


@given(families, seeds)
@fixed
def test_no_time_at_all_still_brings_a_plan_and_a_bound(family: str, seed: int) -> None:
    instance = draw(family, seed)
    solution = instance.program().solve(instance.ids, gap=0.0, time_limit_s=0.0)
    assert_holds(instance.problem(), solution)
    best = milp.solve(instance.problem(), gap=0.0)
    assert solution.unmet == best.unmet
    assert_brackets(solution, best)


class Changing:
    """A program that changes at random, and beside it what it is by now."""

    def __init__(self, family: str, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.now = draw(family, seed)
        self.spare = draw(family, seed)  # what rows are made of
        self.active = np.arange(len(self.now.value))
        self.program = self.now.program()

    def step(self) -> str:
        kinds = (self.leave, self.come, self.change, self.weigh, self.move, self.resize, self.narrow)
        chosen = kinds[int(self.rng.integers(len(kinds)))]
        chosen()
        return chosen.__name__

    def some(self) -> np.ndarray:
        return self.rng.permutation(self.active)[: int(self.rng.integers(0, len(self.active) + 1))]

    def leave(self) -> None:
        gone = self.some()
        self.program.remove([f"row {i}" for i in gone])
        self.active = self.active[~np.isin(self.active, gone)]

    def come(self) -> None:
        """Put rows back that had left, with the values of others."""
        away = np.setdiff1d(np.arange(len(self.now.value)), self.active)
        self.redraw(away)
        self.now.put(self.program, away)
        self.active = np.concatenate([self.active, away])

    def change(self) -> None:
        which = self.some()
        self.redraw(which)
        self.now.put(self.program, which)

    def redraw(self, which: np.ndarray) -> None:
        order = self.rng.integers(0, len(self.spare.value), len(which))
        for name in ("value", "allowed", "required"):
            getattr(self.now, name)[which] = getattr(self.spare, name)[order]

    def weigh(self) -> None:
        which = self.some()
        self.now.offset[which] += self.rng.normal(0, 0.3, len(which))
        self.now.scale[which] = self.rng.uniform(0.3, 3, len(which))
        self.program.set_weights([f"row {i}" for i in which], self.now.offset[which], self.now.scale[which])

    def move(self) -> None:
        which = self.some()
        self.now.stay_column[which] = self.rng.integers(-1, len(self.now.size), len(which))
        self.now.stay_gain[which] = self.rng.normal(1, 1, len(which))
        self.program.set_incumbents(
            [f"row {i}" for i in which], self.now.stay_column[which], self.now.stay_gain[which]
        )

    def resize(self) -> None:
        """Let a node fail or come back."""
        self.now = replace(self.now, capacity=np.floor(self.now.capacity * self.rng.uniform(0, 2)))
        self.program.set_capacity(self.now.capacity)

    def narrow(self) -> None:
        """Add a limit on large columns, or remove it."""
        usage, capacity = self.now.usage, self.now.capacity
        if self.rng.random() < 0.5 and len(usage) > 1:
            usage, capacity = usage[:-1], capacity[:-1]
        else:
            extra = np.where(self.now.size >= np.median(self.now.size), self.rng.integers(1, 4), 0)
            if self.rng.random() < 0.3:
                extra = self.rng.permutation(extra)
            usage = np.concatenate([usage, extra[None]])
            capacity = np.append(capacity, float(self.rng.integers(0, 12)))
        self.now = replace(self.now, usage=usage, capacity=capacity)
        if not self.program.set_limits(usage, capacity):
            assert len(self.program) == 0
            self.now.put(self.program, self.active)

    def check(self) -> None:
        order = np.sort(self.active)
        ids = [f"row {i}" for i in order]
        changed = self.program.solve(ids, gap=1e-6)
        anew = ChoiceProgram(self.now.usage, self.now.capacity, self.now.group, self.now.size)
        self.now.put(anew, order)
        again = anew.solve(ids, gap=1e-6)
        whole = self.now.problem()
        assert whole.required is not None
        problem = ChoiceProblem(
            whole.value[order], whole.allowed[order], whole.usage, whole.capacity, whole.required[order]
        )
        assert_holds(problem, changed)
        assert changed.unmet == again.unmet
        slack = 3e-6 * max(1.0, abs(again.bound))
        assert changed.bound == pytest.approx(again.bound, abs=slack)
        assert changed.objective == pytest.approx(again.objective, abs=slack)
        assert_brackets(changed, milp.solve(problem, gap=0.0))


@given(families, seeds, st.integers(1, 12))
@fixed
def test_a_program_that_changed_is_solved_as_one_built_anew(family: str, seed: int, steps: int) -> None:
    changing = Changing(family, seed)
    for _ in range(steps):
        changing.step()
        if changing.rng.random() < 0.5:
            changing.check()
    changing.check()


@given(seeds)
@fixed
def test_limits_under_which_a_group_gets_in_order_later_leave_its_bound_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.arange(1.0, 7.0)
    value = rng.uniform(0, 5, (4, 6))
    program = ChoiceProgram(np.array([sizes, sizes[::-1]]), np.array([12.0, 99.0]), np.zeros(6, int), sizes)
    ids = [f"row {i}" for i in range(4)]
    program.upsert(ids, value, np.ones((4, 6), bool))
    program.set_limits(sizes[None], np.array([12.0]))
    solution = program.solve(ids, gap=0.0)
    best = milp.solve(ChoiceProblem(value, np.ones((4, 6), bool), sizes[None], np.array([12.0])), gap=0.0)
    assert_brackets(solution, best)
    assert solution.objective == pytest.approx(best.objective, abs=1e-6)


@given(families, seeds)
@fixed
def test_the_same_program_in_the_same_order_has_the_same_plan(family: str, seed: int) -> None:
    first, second = draw(family, seed), draw(family, seed)
    a, b = first.program().solve(first.ids), second.program().solve(second.ids)
    assert (a.choice == b.choice).all()
    assert (a.objective, a.bound) == (b.objective, b.bound)


@given(families, seeds)
@fixed
def test_solving_again_changes_nothing_of_the_objective(family: str, seed: int) -> None:
    instance = draw(family, seed)
    program = instance.program()
    first = program.solve(instance.ids, gap=1e-6)
    instance.put(program, np.arange(len(instance.ids)))  # or nothing would be solved
    again = program.solve(instance.ids, gap=1e-6)
    assert again.objective == pytest.approx(first.objective, rel=3e-6, abs=3e-6)


@given(st.integers(1, 200), st.integers(0, 300), st.integers(1, 4), st.sampled_from([1e-4, 5e-3]), seeds)
@fixed
def test_of_rows_that_are_all_alike_the_first_in_order_are_served(
    rows: int, capacity: int, size: int, gap: float, seed: int
) -> None:
    program = ChoiceProgram(np.array([[float(size)]]), np.array([float(capacity)]))
    order = [f"row {i}" for i in np.random.default_rng(seed).permutation(rows)]
    program.upsert(sorted(order), np.ones((rows, 1)), np.ones((rows, 1), bool))
    served = program.solve(order, gap).choice >= 0
    assert served.tolist() == [i < capacity // size for i in range(rows)]


@given(families, seeds)
@fixed
def test_prices_bound_what_more_of_a_limit_is_worth(family: str, seed: int) -> None:
    """The value of the LP is concave in the capacities, and the prices are its slope."""
    instance = draw(family, seed)
    problem = instance.problem()
    assert problem.required is not None
    optional = replace(problem, required=np.zeros_like(problem.required))
    program, ids = ChoiceProgram.of(optional)
    prices = program.solve(ids, gap=0.0).prices  # down to the LP's own vertex
    assert (prices >= 0).all()
    was = relaxed(optional)
    for limit, price in enumerate(prices):
        for step in (-1.0, 1.0):
            capacity = problem.capacity.copy()
            capacity[limit] += step
            # Columns that fit only now were no options, so that the two are not of one program.
            same = (problem.usage <= capacity[:, None]).all(axis=0) == (
                problem.usage <= problem.capacity[:, None]
            ).all(axis=0)
            if capacity[limit] >= 0 and same.all():
                assert relaxed(replace(optional, capacity=capacity)) <= was + price * step + 1e-5


def relaxed(problem: ChoiceProblem) -> float:
    """Return the value of the LP relaxation of what fits by itself, by HiGHS."""
    fits = problem.allowed & (problem.usage <= problem.capacity[:, None]).all(axis=0)
    row, column = np.nonzero(fits)
    if not len(row):
        return 0.0
    each = (row == np.arange(len(problem.value))[:, None]).astype(float)
    found = linprog(
        -problem.value[row, column],
        A_ub=np.concatenate([each, problem.usage[:, column]]),
        b_ub=np.concatenate([np.ones(len(each)), problem.capacity]),
        method="highs",
    )
    return float(-found.fun)


@given(st.integers(2, 10), st.sampled_from([1e-6, 1e-3, 1.0, 1e6]), st.sampled_from([1e-6, 1e-3, 0.4]), seeds)
@fixed
def test_a_plan_fits_to_a_billionth_in_whatever_unit(rows: int, unit: float, excess: float, seed: int) -> None:
    """Each of the rows wants a little more than its share."""
    rng = np.random.default_rng(seed)
    usage = np.array([[(1 + excess) / rows, 0.5 / rows]]) * unit
    program = ChoiceProgram(usage, np.array([unit]))
    ids = [f"row {i}" for i in range(rows)]
    program.upsert(ids, rng.uniform(1, 2, (rows, 1)) * [1.0, 0.4], np.ones((rows, 2), bool))
    solution = program.solve(ids)
    assert usage[0, solution.choice[solution.choice >= 0]].sum() <= unit + 1e-9
    assert (solution.choice >= 0).sum() >= rows / 2


@given(st.integers(1, 60), st.sampled_from([1e-8, 5e-8, 9e-8]), st.booleans(), seeds)
@fixed
def test_a_plan_of_required_rows_fits_to_a_billionth(rows: int, excess: float, smaller: bool, seed: int) -> None:
    """They want a little more than there is, which may be the only thing they can have."""
    rng = np.random.default_rng(seed)
    usage = np.array([[1.0 / rows + excess / rows, 0.5 / rows]])
    program = ChoiceProgram(usage, np.array([1.0]))
    ids = [f"row {i}" for i in range(rows)]
    allowed = np.array([[True, smaller]]).repeat(rows, axis=0)
    program.upsert(ids, rng.uniform(1, 2, (rows, 1)) * [1.0, 0.4], allowed, np.ones(rows, bool))
    solution = program.solve(ids)
    assert usage[0, solution.choice[solution.choice >= 0]].sum() <= 1.0 + 1e-9
    assert len(solution.unmet) <= (0 if smaller else 1)
    assert sorted(solution.unmet) == np.flatnonzero(solution.choice < 0).tolist()


def test_of_required_rows_as_many_as_can_be_are_served_and_of_as_many_the_first() -> None:
    program = ChoiceProgram(np.array([[2.0, 1.0]]), np.array([2.0]))
    only = np.array([[True, False], [False, True], [False, True], [False, True]])
    program.upsert(["large", "b", "c", "d"], np.ones((4, 2)), only, np.ones(4, bool))
    solution = program.solve(["large", "b", "c", "d"])
    assert solution.choice.tolist() == [-1, 1, 1, -1]
    assert solution.unmet == (3, 0)


def two_of_three() -> ChoiceProgram:
    """Make required rows a, b and c. Each takes 3 of 6 and 2 of 5; c may take 4 of the first limit instead."""
    program = ChoiceProgram(np.array([[3.0, 4.0], [2.0, 0.0]]), np.array([6.0, 5.0]))
    allowed = np.array([[True, False], [True, False], [True, True]])
    program.upsert(["a", "b", "c"], np.array([[3.0, 1.0], [3.0, 0.0], [1.0, 0.0]]), allowed, np.ones(3, bool))
    return program


def test_who_is_unmet_has_nothing_and_is_decided_anew_where_there_is_more_time() -> None:
    ids, program = ["a", "b", "c"], two_of_three()
    for time_limit_s in (0.0, 60.0):
        found = program.solve(ids, time_limit_s=time_limit_s)
        assert sorted(found.unmet) == np.flatnonzero(found.choice < 0).tolist()
    new = two_of_three().solve(ids)
    assert found.choice.tolist() == new.choice.tolist() == [0, 0, -1]
    assert found.unmet == new.unmet == (2,)


@pytest.mark.parametrize("before", [1e-13, 1e-9, 1.0, 1e6, 1e9, 1e13])
def test_required_rows_that_all_lose_have_a_plan_within_the_gap_whatever_they_gained_before(before: float) -> None:
    rng = np.random.default_rng(1)
    value, ids = rng.uniform(0.5, 3.0, (60, 4)), [str(i) for i in range(60)]
    program = ChoiceProgram(np.array([[1.0, 2.0, 3.0, 1.0]]), np.array([90.0]))
    program.upsert(ids, value * before, np.ones((60, 4), bool), np.ones(60, bool))
    program.solve(ids)
    program.upsert(ids, -value, np.ones((60, 4), bool), np.ones(60, bool))
    found = program.solve(ids, gap=1e-4)
    best = milp.solve(
        ChoiceProblem(-value, np.ones((60, 4), bool), program.usage, program.capacity, found.choice >= 0)
    )
    assert found.proven
    assert found.bound - found.objective <= 1.1e-4 * abs(found.bound)
    assert_brackets(found, best)


@pytest.mark.parametrize("unit", [1.0, 2.0**30, 2.0**50, 2.0**80, 2.0**300])
def test_whole_amounts_however_large_are_told_apart(unit: float) -> None:
    program = ChoiceProgram(np.array([[5.0, 3.0, 2.0]]) * unit, np.array([5.0 * unit]))
    allowed = np.array([[True, False, False], [False, True, False], [False, False, True]])
    program.upsert(["a", "b", "c"], np.array([[1.0, 1.0, 1.0]] * 3), allowed, np.array([True, True, False]))
    found = program.solve(["a", "b", "c"])
    assert found.unmet == (1,)
    assert found.choice.tolist() == [0, -1, -1]


def test_of_rows_that_are_alike_those_that_have_it_may_keep_it_in_another_order() -> None:
    program = ChoiceProgram(np.ones((1, 1)), np.array([10.0]))
    ids = [f"row {i:02d}" for i in range(60)]
    program.upsert(ids, np.ones((60, 1)), np.ones((60, 1), bool))
    first = program.solve(ids).choice
    again = program.solve(ids[::-1]).choice
    assert (first >= 0).nonzero()[0].tolist() == list(range(10))
    assert (again >= 0).sum() == 10


@given(families, seeds)
@example("anything", 40_000)
@fixed
def test_entries_are_what_was_put_but_for_what_can_never_matter(family: str, seed: int) -> None:
    instance = draw(family, seed)
    problem = instance.problem()
    entries = instance.program().entries(instance.ids)
    listed = np.full(problem.value.shape, -np.inf)
    listed[entries.row, entries.column] = entries.gain
    assert np.isfinite(listed).sum() == len(entries.row)
    assert (np.diff(entries.row) >= 0).all()
    for row, column in zip(*np.nonzero(problem.allowed), strict=True):
        gain, usage = problem.value[row, column], problem.usage[:, column]
        if listed[row, column] != pytest.approx(gain):
            # It is no option; where the row may stay there, staying is.
            stays = instance.stay_gain[row] if instance.stay_column[row] == column else -np.inf
            assert listed[row, column] in (-np.inf, stays)
            assert listed[row, column] < gain
            # Something at least as good takes no more of anything, or the column fits nowhere.
            no_more = (problem.usage <= usage[:, None]).all(axis=0)
            assert listed[row, no_more].max() >= gain - 1e-9 or (usage > problem.capacity).any()
    assert not np.isfinite(listed[~problem.allowed]).any()


def test_in_the_column_where_a_row_may_stay_the_larger_gain_counts() -> None:
    for stays, worth in ((0.5, 3.0), (4.0, 4.0)):
        program = small()
        program.set_incumbents(["a"], np.array([2]), np.array([stays]))
        entries = program.entries(["a", "b"])
        assert entries.gain[(entries.row == 0) & (entries.column == 2)].tolist() == [worth]
        assert program.solve(["a", "b"]).objective == worth + 1.0


@given(families, seeds, st.sampled_from([1e-12, 1e-9, 1e-3, 1.0, 1e3, 1e6, 1e12]))
@fixed
def test_what_gains_and_limits_are_counted_in_is_nothing_to_plan_and_bound(
    family: str, seed: int, unit: float
) -> None:
    instance = draw(family, seed)
    problem, best = instance.problem(), milp.solve(instance.problem(), gap=0.0)
    units = 2.0 ** np.random.default_rng(seed).integers(-40, 41, len(instance.capacity))  # nothing is rounded
    other = replace(
        instance,
        value=instance.value * unit,
        offset=instance.offset * unit,
        stay_gain=instance.stay_gain * unit,
        usage=instance.usage * units[:, None],
        capacity=instance.capacity * units,
    )
    counted = other.program().solve(instance.ids, 1e-5)
    found = replace(counted, objective=counted.objective / unit, bound=counted.bound / unit)
    assert_holds(problem, found)
    assert_brackets(found, best)
    assert counted.gap == pytest.approx((found.bound - found.objective) / max(abs(found.bound), 1e-9), abs=1e-7)
    assert counted.proven
    as_program = milp.solve(other.problem(), gap=0.0)
    assert as_program.objective / unit == pytest.approx(best.objective, abs=1e-6 * max(1.0, abs(best.objective)))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e7, 1e9])
def test_what_fills_a_limit_but_for_rounding_fits_in_any_unit(unit: float) -> None:
    usage = np.array([[1 / 3, 2 / 3, 5 / 3]]) * unit
    program = ChoiceProgram(usage, np.array([8 / 3 * unit]))
    program.upsert(["a", "b", "c"], np.diag([1.0, 2.0, 4.0]), np.eye(3, dtype=bool))
    assert program.solve(["a", "b", "c"]).objective == pytest.approx(7.0)


@given(
    families, seeds, st.lists(st.sampled_from([1e-12, 1e-9, 1e-7, 1e-5, 1.0, 1e8, 1e12]), min_size=1, max_size=3)
)
@fixed
def test_gains_that_become_tiny_or_huge_between_solves_are_followed(
    family: str, seed: int, units: list[float]
) -> None:
    instance = draw(family, seed)
    program, best = instance.program(), milp.solve(instance.problem(), gap=0.0)
    for unit in (1.0, *units):
        program.set_weights(instance.ids, instance.offset * unit, instance.scale * unit)
        program.set_incumbents(instance.ids, instance.stay_column, instance.stay_gain * unit)
        counted = program.solve(instance.ids, 1e-5)
        found = replace(counted, objective=counted.objective / unit, bound=counted.bound / unit)
        assert_brackets(found, best)
        assert counted.proven


@given(families, seeds)
@fixed
def test_a_program_that_was_pickled_goes_on_as_it_was(family: str, seed: int) -> None:
    instance = draw(family, seed)
    program = instance.program()
    program.solve(instance.ids)
    copy = pickle.loads(pickle.dumps(program))
    program.set_capacity(instance.capacity + 1)
    copy.set_capacity(instance.capacity + 1)
    one, other = program.solve(instance.ids), copy.solve(instance.ids)
    assert (one.choice == other.choice).all()
    assert (one.objective, one.bound) == (other.objective, other.bound)
    copy.remove(instance.ids)
    assert len(copy) == 0
    assert len(program) == len(instance.ids)


# Bad input


def small() -> ChoiceProgram:
    """Make rows a and b, and columns that use 1, 2 and 4 of the only limit, which is 5."""
    program = ChoiceProgram(np.array([[1.0, 2.0, 4.0]]), np.array([5.0]))
    program.upsert(["a", "b"], np.array([[1.0, 2.0, 3.0]] * 2), np.ones((2, 3), bool))
    return program


def state(program: ChoiceProgram) -> tuple[object, ...]:
    """Return all that can be seen of a program."""
    entries = program.entries(sorted(program.ids))
    order = sorted(program.ids)
    arrays = (entries.row, entries.column, entries.gain, program.required(order), program.usage, program.capacity)
    return (*(array.tolist() for array in arrays), program.ids, program.solve(order).choice.tolist())


ONE, TWO, ALL = np.ones(1), np.ones(2), np.ones((1, 3), bool)
NAN, INFINITE = np.full((1, 3), np.nan), np.full((1, 3), np.inf)
REFUSED: dict[str, tuple[Callable[[ChoiceProgram], object], str]] = {
    "a value that is nan": (lambda p: p.upsert(["a"], NAN, ALL), r"value\['a', 0\]: is nan"),
    "an infinite value": (lambda p: p.upsert(["c"], INFINITE, ALL), r"value\['c', 0\]: is inf"),
    "values of too few columns": (lambda p: p.upsert(["a"], np.ones((1, 2)), ALL), r"value: has shape \(1, 2\)"),
    "values of too many rows": (lambda p: p.upsert(["a"], np.ones((2, 3)), ALL), r"value: has shape \(2, 3\)"),
    "allowed of another shape": (lambda p: p.upsert(["a"], np.ones((1, 3)), ALL[:, :2]), "allowed: has shape"),
    "allowed that is no mask": (
        lambda p: p.upsert(["a"], np.ones((1, 3)), np.ones((1, 3))),
        "allowed: is of float64",
    ),
    "required of another shape": (
        lambda p: p.upsert(["a"], np.ones((1, 3)), ALL, np.ones(2, bool)),
        "required: has shape",
    ),
    "an id put twice": (
        lambda p: p.upsert(["c", "c"], np.ones((2, 3)), np.ones((2, 3), bool)),
        "id: 'c' is given twice",
    ),
    "an unknown id removed": (lambda p: p.remove(["a", "x"]), "id: 'x' is not in the program"),
    "an id removed twice": (lambda p: p.remove(["a", "a"]), "id: 'a' is given twice"),
    "an unknown id weighed": (lambda p: p.set_weights(["a", "x"], TWO, TWO), "id: 'x' is not in the program"),
    "an id weighed twice": (lambda p: p.set_weights(["a", "a"], TWO, TWO), "id: 'a' is given twice"),
    "a value that is too large": (lambda p: p.upsert(["a"], np.full((1, 3), 1e100), ALL), "below 1e\\+100"),
    "a scale that is too large": (lambda p: p.set_weights(["a"], ONE, 1e100 * ONE), "below 1e\\+100 in size"),
    "a gain that is too large": (
        lambda p: p.set_incumbents(["a"], np.array([0]), -1e100 * ONE),
        "below 1e\\+100 in size",
    ),
    "a scale of 0": (lambda p: p.set_weights(["a"], ONE, 0 * ONE), "scale above 0"),
    "an offset that is nan": (lambda p: p.set_weights(["a"], np.nan * ONE, ONE), "offset, scale: must be finite"),
    "more scales than ids": (
        lambda p: p.set_weights(["a"], 7 * ONE, 7 * TWO),
        r"scale: has shape \(2,\), not \(1,\)",
    ),
    "one offset for two": (
        lambda p: p.set_weights(["a", "b"], 7 * ONE, TWO),
        r"offset: has shape \(1,\), not \(2,\)",
    ),
    "staying in no column there is": (lambda p: p.set_incumbents(["a"], np.array([3]), ONE), "column: must be -1"),
    "staying in half a column": (lambda p: p.set_incumbents(["a"], np.array([0.5]), ONE), "column: must be -1"),
    "staying for nan": (lambda p: p.set_incumbents(["a"], np.array([0]), np.nan * ONE), "gain: must be finite"),
    "staying for two gains": (lambda p: p.set_incumbents(["a"], np.array([0]), TWO), r"gain: has shape \(2,\)"),
    "an unknown id stays": (
        lambda p: p.set_incumbents(["x"], np.array([0]), ONE),
        "id: 'x' is not in the program",
    ),
    "an id stays twice": (lambda p: p.set_incumbents(["a", "a"], np.array([0, 1]), TWO), "id: 'a' is given twice"),
    "a capacity below 0": (lambda p: p.set_capacity(np.array([-1.0])), "capacity: has entries that are negative"),
    "an infinite capacity": (lambda p: p.set_capacity(np.array([np.inf])), "capacity: has entries that are"),
    "a capacity too many": (lambda p: p.set_capacity(np.ones(2)), r"capacity: has shape \(2,\), not \(1,\)"),
    "usage below 0": (lambda p: p.set_limits(-np.ones((1, 3)), ONE), "usage: has entries that are negative"),
    "usage that is nan": (lambda p: p.set_limits(NAN, ONE), "usage: has entries that are negative or not finite"),
    "usage of other columns": (lambda p: p.set_limits(np.ones((1, 2)), ONE), "usage: has 2 columns, not 3"),
    "usage that is too large": (
        lambda p: p.set_limits(np.full((1, 3), 1e150), ONE),
        "usage: has an entry of 1e\\+150; less than 1e\\+100 is accepted",
    ),
    "a capacity written over": (lambda p: p.capacity.__setitem__(0, 9.0), "read-only"),
    "usage written over": (lambda p: p.usage.__setitem__((0, 0), np.nan), "read-only"),
    "no limit at all": (lambda p: p.set_limits(np.ones((0, 3)), np.ones(0)), "at least one limit"),
    "solved without a row": (lambda p: p.solve(["a"]), "order: has 1 ids, the program 2 rows"),
    "solved for a row twice": (lambda p: p.solve(["a", "a"]), "id: 'a' is given twice"),
    "solved for an unknown row": (lambda p: p.solve(["a", "x"]), "id: 'x' is not in the program"),
    "a gap below 0": (lambda p: p.solve(["a", "b"], gap=-0.1), "gap: -0.1 is not 0 or more"),
    "a gap that is nan": (lambda p: p.solve(["a", "b"], gap=float("nan")), "gap: nan is not 0 or more"),
    "a time limit below 0": (lambda p: p.solve(["a", "b"], time_limit_s=-1.0), "time_limit_s: -1.0 is not"),
    "entries of a row twice": (lambda p: p.entries(["b", "b"]), "id: 'b' is given twice"),
    "whether unknown rows are required": (lambda p: p.required(["x"]), "id: 'x' is not in the program"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_a_sentence_and_the_program_is_as_it_was(name: str) -> None:
    call, says = REFUSED[name]
    program = small()
    program.set_weights(["a", "b"], np.array([0.1, 0.2]), np.array([1.0, 2.0]))
    program.set_incumbents(["a"], np.array([1]), np.array([2.5]))
    before = state(program)
    with pytest.raises(ValueError, match=says) as refusal:
        call(program)
    assert "\n" not in str(refusal.value)
    assert state(program) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((np.ones(3), np.ones(1)), "usage: has shape"),
        ((np.ones((0, 3)), np.ones(0)), "at least one limit"),
        ((np.ones((1, 3)), np.ones(2)), "capacity: has shape"),
        ((np.ones((1, 3)), np.array([np.nan])), "capacity: has entries"),
        ((np.full((1, 3), -1.0), np.ones(1)), "usage: has entries"),
        ((np.ones((1, 3)), np.ones(1), np.zeros(2, int)), "groups: has shape"),
        ((np.ones((1, 3)), np.ones(1), np.zeros(3, int), np.ones(4)), "size: has shape"),
        ((np.ones((1, 3)), np.ones(1), np.zeros(3, int), np.array([1.0, np.nan, 2.0])), "size: has entries"),
    ],
)
def test_limits_that_are_none_make_no_program(arguments: tuple[np.ndarray, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ChoiceProgram(*arguments)


def test_what_was_given_may_be_changed_and_a_plan_is_still_within_the_capacity() -> None:
    usage, capacity, groups, size = (
        np.array([[1.0, 2.0, 4.0]]),
        np.array([5.0]),
        np.zeros(3),
        np.array([1.0, 2, 4]),
    )
    program = ChoiceProgram(usage, capacity, groups, size)
    program.upsert(["a", "b"], np.array([[1.0, 2.0, 3.0]] * 2), np.ones((2, 3), bool))
    usage[:], capacity[:], size[:] = 0.0, 1000.0, 1.0
    program.set_capacity(np.array([4.0]))
    assert program.solve(["a", "b"]).objective == 4.0


def test_values_where_nothing_is_allowed_are_not_read() -> None:
    program = small()
    program.upsert(["a"], np.array([[np.nan, 2.0, np.inf]]), np.array([[False, True, False]]))
    assert program.solve(["a", "b"]).choice.tolist() == [1, 1]


def test_a_program_without_rows_columns_or_capacity_has_an_empty_plan() -> None:
    empty = ChoiceProgram(np.ones((1, 2)), np.ones(1)).solve([])
    assert (empty.choice.tolist(), empty.objective, empty.bound) == ([], 0.0, 0.0)
    columns = ChoiceProgram(np.ones((1, 0)), np.ones(1))
    columns.upsert(["a", "b"], np.ones((2, 0)), np.ones((2, 0), bool), np.array([False, True]))
    assert columns.solve(["a", "b"]).choice.tolist() == [-1, -1]
    assert columns.solve(["a", "b"]).unmet == (1,)
    program = small()
    program.set_capacity(np.zeros(1))
    none = program.solve(["a", "b"])
    assert (none.choice.tolist(), none.bound) == ([-1, -1], 0.0)
    program.set_capacity(np.array([5.0]))
    assert program.solve(["a", "b"]).objective == 4.0


@pytest.mark.parametrize("method", ["upsert", "remove", "set_weights", "set_incumbents", "set_capacity", "solve"])
def test_a_change_from_another_thread_while_it_is_solved_is_refused(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = small()
    program.upsert(["a"], np.array([[1.0, 2.0, 3.0]]), ALL, np.array([True]))
    before = state(program)
    calls: dict[str, Callable[[], object]] = {
        "upsert": lambda: program.upsert(["a"], np.zeros((1, 3)), ALL),
        "remove": lambda: program.remove(["a"]),
        "set_weights": lambda: program.set_weights(["a"], 9 * ONE, ONE),
        "set_incumbents": lambda: program.set_incumbents(["a"], np.array([0]), 9 * ONE),
        "set_capacity": lambda: program.set_capacity(np.zeros(1)),
        "solve": lambda: program.solve(["a", "b"]),
    }
    refusals: list[str] = []

    def attempt() -> None:
        with pytest.raises(ValueError, match="while it is being solved or changed elsewhere") as refusal:
            calls[method]()
        refusals.append(str(refusal.value))

    # Required rows are looked after in the middle of a solve: then another thread comes along.
    serve_required = solver.serve_required

    def interrupted(options: Candidates, time_limit_s: float) -> object:
        other = threading.Thread(target=attempt)
        other.start()
        other.join()
        return serve_required(options, time_limit_s)

    with monkeypatch.context() as patch:
        patch.setattr(solver, "serve_required", interrupted)
        solution = program.solve(["a", "b"], gap=0.0)  # another question than before, or nothing would be solved
    assert len(refusals) == 1
    assert solution.objective == 4.0
    assert state(program) == before


def test_who_of_the_required_goes_without_takes_no_more_than_half_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which 11 of 40 alike rows have something, under four limits, HiGHS takes longer for than it is given."""
    given: list[float] = []
    branch = exact._branch

    def timed(options: Candidates, start: Any, absolute_gap: float, time_limit_s: float) -> object:
        given.append(time_limit_s)
        return branch(options, start, absolute_gap, time_limit_s)

    monkeypatch.setattr(exact, "_branch", timed)
    rng = np.random.default_rng(0)
    usage = rng.integers(0, 9, (4, 19)).astype(float)
    program = ChoiceProgram(usage, np.array([39.0, 27.0, 45.0, 22.0]))
    ids = [f"row {i}" for i in range(40)]
    allowed = np.ones((40, 19), bool)
    program.upsert(ids, rng.uniform(1, 2, allowed.shape), allowed, np.ones(40, bool))
    solution = program.solve(ids, gap=1e-2, time_limit_s=0.2)
    assert 0.0 < given[0] <= 0.1
    assert (solution.choice >= 0).sum() + len(solution.unmet) == 40


def test_families_are_as_they_are_named() -> None:
    """The programs that all this is checked on do have what they are there for."""
    drawn = {family: [draw(family, seed) for seed in range(40)] for family in FAMILIES}
    assert any(i.required.any() for i in drawn["reservations"])
    assert any(len(i.usage) > len(np.unique(i.group)) for i in drawn["blocks and whole nodes"])
    assert any((i.capacity == 0).any() and (i.usage > 0).any() for i in drawn["scarce"])
    assert any((i.usage > i.capacity[:, None]).any() for i in drawn["scarce"])
    assert any(not i.usage.any(axis=0).all() for i in drawn["scarce"])
    assert any((i.value[0] == i.value).all() and len(i.value) > 5 for i in drawn["rows alike"])
    assert all(len(set(i.size[row])) <= 1 for i in drawn["rigid"] for row in i.allowed)
    assert any((np.diff(i.value[:, :12]) == 0)[i.allowed[:, :11]].any() for i in drawn["pipelines"])


def test_a_program_goes_on_after_it_was_pickled() -> None:
    rng = np.random.default_rng(3)
    value, usage = rng.uniform(0.5, 4.0, (30, 8)), np.tile([1.0, 2.0, 4.0, 8.0], 2)
    limits = np.array([usage * ([1] * 4 + [0] * 4), usage * ([0] * 4 + [1] * 4)])
    program, ids = ChoiceProgram(limits, np.array([20.0, 30.0])), [f"row-{i}" for i in range(30)]
    program.upsert(ids, value, np.ones_like(value, bool))
    program.solve(ids)
    other = pickle.loads(pickle.dumps(program))
    for one in (program, other):
        one.upsert(ids[:3], 2 * value[:3], np.ones((3, 8), bool))
    first, second = program.solve(ids), other.solve(ids)
    np.testing.assert_array_equal(first.choice, second.choice)
    assert first.bound == second.bound


def test_rows_that_left_and_came_back_are_found_under_the_list_that_named_them_before() -> None:
    program = ChoiceProgram(np.ones((1, 1)), np.ones(1))
    ids = ["a", "b", "c", "d", "e"]
    offset = np.array([5.0, 4.0, 0.0, 0.0, 0.0])
    program.upsert(ids, np.ones((5, 1)), np.ones((5, 1), bool))
    program.set_weights(ids, offset, np.ones(5))
    assert program.solve(ids).choice.tolist() == [0, -1, -1, -1, -1]
    program.remove(["b"])
    program.remove(["a"])
    program.upsert(["b"], np.ones((1, 1)), np.ones((1, 1), bool))
    program.upsert(["a"], np.ones((1, 1)), np.ones((1, 1), bool))
    program.set_weights(ids, offset, np.ones(5))
    ids.reverse()
    assert program.solve(ids).choice.tolist() == [-1, -1, -1, -1, 0]
