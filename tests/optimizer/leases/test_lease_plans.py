"""The program of leases: the worked examples and checks of the specification (sections 10 and 19), and proofs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from coadapt.optimizer.leases.printed import solved
from coadapt.optimizer.leases.problem import NOTHING, LeaseProblem, check, growing, value_of
from coadapt.optimizer.leases.solver import solve
from coadapt.policies.placing.cells import Shape

from tests.support.lease_problems import Wish, drawn, problem_of

WHOLE: Shape = (0, 0, 0, 1)
ROUNDED_UP = [(WHOLE, 1.0)]
LITERAL = [(WHOLE, 1.0), ((0, 1, 1, 0), 0.85), ((6, 0, 0, 0), 0.85)]
RETURNED = [((0, -1, 0, 1), 1.0), ((0, 1, 1, 0), 0.85), ((0, 3, 0, 0), 0.85), ((6, 0, 0, 0), 0.85)]
SHAPES = {"rounded up": ROUNDED_UP, "literal": LITERAL, "rest given back": RETURNED}


def urgent(shapes: list[tuple[Shape, float]]) -> Wish:
    return Wish(10, [(12, 100.0)], shapes)


def solved_exactly(problem: LeaseProblem) -> tuple[float, np.ndarray, np.ndarray]:
    """Return what the best plan brings without what jobs bring more that run at once, as HiGHS agrees."""
    plan = solve(problem, time_limit_s=20.0)
    assert check(problem, plan.option, plan.taken) == ""
    assert plan.gap <= 1e-9
    peer, _ = solved(problem, 20.0)
    assert peer is not None
    assert check(problem, peer.option, peer.taken) == ""
    assert peer.value == pytest.approx(plan.value, abs=1e-6)
    return float(problem.worth[plan.option[plan.option >= 0]].sum()), plan.option, plan.taken


@pytest.mark.parametrize(("shapes", "reward"), [("rounded up", 300), ("literal", 400), ("rest given back", 400)])
def test_four_jobs_of_six_gpus_with_deadlines_on_three_nodes(shapes: str, reward: float) -> None:
    assert solved_exactly(problem_of([urgent(SHAPES[shapes])] * 4, 3, 12))[0] == reward


@pytest.mark.parametrize(("shapes", "reward"), [("rounded up", 300), ("literal", 300), ("rest given back", 300.5)])
def test_three_of_them_and_a_best_effort_job_of_six(shapes: str, reward: float) -> None:
    best_effort = Wish(12, [(12, 0.5)], SHAPES[shapes][:1])
    found, option, _ = solved_exactly(problem_of([*[urgent(SHAPES[shapes])] * 3, best_effort], 3, 12))
    assert found == reward
    if shapes == "rest given back":
        assert any(int(at) % 4 > 0 for at in option[:3]), "some of them lies apart"


def one_lease(worth: float) -> Wish:
    return Wish(1, [(1, worth)], ROUNDED_UP)


def test_a_strict_deadline_comes_before_measuring_and_measuring_before_best_effort() -> None:
    _, option, _ = solved_exactly(problem_of([one_lease(100), one_lease(1), one_lease(0.9)], 1, 1))
    assert option.tolist() == [0, NOTHING, NOTHING]
    reward, option, _ = solved_exactly(problem_of([one_lease(1), one_lease(1 / 3), one_lease(1 / 2)], 2, 1))
    assert (reward, option.tolist()) == (1.5, [0, NOTHING, 2])


def soft(leases: int) -> Wish:
    return Wish(leases, [(10, 100.0), (11, 80.0), (12, 50.0), (15, 20.0)], ROUNDED_UP)


def test_two_soft_deadlines_of_ten_leases_on_one_node_bring_150() -> None:
    reward, option, _ = solved_exactly(problem_of([soft(10), soft(2)], 1, 15))
    assert (reward, option.tolist()) == (150, [0, 6])


@pytest.mark.parametrize(("within", "reward"), [(5, 100), (4, 0)])
def test_a_slower_shape_needs_more_leases(within: int, reward: float) -> None:
    assert solved_exactly(problem_of([Wish(4, [(within, 100.0)], [(WHOLE, 0.8)])], 1, 8))[0] == reward


def test_a_job_without_a_shape_that_fits_brings_nothing() -> None:
    assert solved_exactly(problem_of([Wish(1, [(3, 100.0)], [((0, 0, 0, 2), 1.0)])], 1, 3))[0] == 0


def test_two_jobs_take_turns_on_one_node() -> None:
    reward, _, taken = solved_exactly(problem_of([Wish(1, [(2, 100.0)], ROUNDED_UP)] * 2, 1, 2))
    assert reward == 200
    assert sorted(taken.tolist()) == [[0, 1], [1, 0]]


def test_a_deadline_with_slack_yields_to_best_effort_and_else_runs_at_once() -> None:
    waits = Wish(2, [(4, 100.0)], ROUNDED_UP)
    reward, _, taken = solved_exactly(problem_of([waits, one_lease(0.4)], 1, 4))
    assert reward == 100.4
    assert taken[0, 0] == 0
    _, _, taken = solved_exactly(problem_of([waits], 1, 4))
    assert taken[0, 0] == 1


def test_one_deadline_and_one_shape_a_job_and_leases_before_the_deadline_only() -> None:
    problem = drawn(6, 40, 16, seed=5)
    plan = solve(problem, gap=0.01, time_limit_s=5.0)
    assert check(problem, plan.option, plan.taken) == ""
    assert (plan.taken.sum(axis=1)[plan.option >= 0] == problem.leases[plan.option[plan.option >= 0]]).all()
    assert value_of(problem, plan.option, plan.taken) == plan.value <= plan.bound + 1e-9


def brute_force(problem: LeaseProblem) -> float:
    """Return the most that any plan brings: every option in every set of slots."""
    choices: list[list[tuple[int, tuple[int, ...]]]] = [[(NOTHING, ())] for _ in range(problem.rows)]
    for at, row in enumerate(problem.row.tolist()):
        slots = range(min(int(problem.within[at]), len(problem.length)))
        choices[row] += [(at, found) for found in itertools.combinations(slots, int(problem.leases[at]))]
    best = 0.0
    for picked in itertools.product(*choices):
        option = np.array([at for at, _ in picked])
        taken = np.zeros((problem.rows, len(problem.length)), np.int64)
        for row, (_, slots_taken) in enumerate(picked):
            taken[row, list(slots_taken)] = 1
        if check(problem, option, taken) == "":
            best = max(best, value_of(problem, option, taken))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_small_rounds_are_solved_exactly(seed: int) -> None:
    draw = np.random.default_rng(seed)
    kinds: list[list[tuple[Shape, float]]] = [
        ROUNDED_UP, [((0, -1, 0, 1), 1.0), ((6, 0, 0, 0), 0.7)], [((0, 0, 1, 0), 1.0), ((4, 0, 0, 0), 0.6)],
        [((1, 0, 0, 0), 1.0)],
    ]  # fmt: skip
    wishes = [
        Wish(int(draw.integers(1, 3)), [(2, 100.0), (4, float(draw.integers(10, 90)))], kinds[draw.integers(4)])
        for _ in range(4)
    ]
    problem = problem_of(wishes, 1, 4)
    plan = solve(problem, time_limit_s=10.0)
    assert check(problem, plan.option, plan.taken) == ""
    assert plan.value == pytest.approx(brute_force(problem))
    assert plan.bound == pytest.approx(plan.value)


def test_a_round_for_which_there_is_no_time_has_a_plan_and_a_bound_that_holds() -> None:
    problem = drawn(6, 60, 24, seed=2)
    hurried, exact = solve(problem, time_limit_s=1e-3), solve(problem, time_limit_s=30.0)
    assert check(problem, hurried.option, hurried.taken) == ""
    assert hurried.value <= exact.value + 1e-9 <= hurried.bound + 1e-6


def test_prices_of_the_last_round_give_the_same_bound_sooner() -> None:
    problem = drawn(12, 120, 24, seed=3)
    first = solve(problem, gap=1e-3, time_limit_s=5.0, small=0)
    again = solve(problem, gap=1e-3, time_limit_s=5.0, small=0, prices=first.prices)
    assert again.bound == pytest.approx(first.bound, rel=2e-3)
    assert again.gap < 0.05


def test_far_slots_are_longer_and_a_deadline_in_one_counts_to_its_moment() -> None:
    assert growing(20).tolist() == [1, 1, 1, 1, 2, 2, 4, 4, 8, 8]
    problem = problem_of([Wish(6, [(7, 100.0)], ROUNDED_UP)] * 2, 1, 0, length=growing(12))
    assert problem.most[0].tolist() == [1, 1, 1, 1, 2, 1, 0, 0]
    plan = solve(problem, time_limit_s=10.0)
    assert check(problem, plan.option, plan.taken) == ""
    assert (plan.option >= 0).sum() == 1, "7 leases are not 12"


@pytest.mark.parametrize("wrong", ["row", "leases"])
def test_a_program_that_is_none_is_refused(wrong: str) -> None:
    problem = drawn(1, 5, 4, seed=0)
    changed = {"row": problem.row[::-1], "leases": problem.leases * 0}[wrong]
    values = {**vars(problem), wrong: changed}
    fields = {name: values[name] for name in LeaseProblem.__dataclass_fields__}
    with pytest.raises(ValueError, match=wrong):
        LeaseProblem(**fields)


def test_without_time_the_last_plan_stays_where_it_is_better_and_nothing_is_given_twice() -> None:
    better = 0
    for seed in range(6):
        problem = drawn(4, 40, 24, seed)
        best = solve(problem, time_limit_s=20.0)
        in_haste = solve(problem, time_limit_s=0.0, small=0)
        kept = solve(problem, time_limit_s=0.0, small=0, last=best.option)
        assert check(problem, kept.option, kept.taken) == ""
        assert in_haste.value <= kept.value <= best.bound + 1e-9 <= kept.bound + 2e-9
        better += kept.value > in_haste.value + 1e-9
    assert better >= 4


def test_who_had_nothing_gets_what_the_last_plan_leaves() -> None:
    wishes = [Wish(1, [(2, 100.0)], ROUNDED_UP)] * 3
    problem = problem_of(wishes, 1, 3)
    last = np.array([0, NOTHING, NOTHING])
    found = solve(problem, time_limit_s=0.0, small=0, last=last)
    assert check(problem, found.option, found.taken) == ""
    assert found.value >= 200
