"""Shard balancing: always within memory, every shard served, balanced where that is possible, few movements."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from coadapt.optimizer.copter.baselines.pop import solve_parts
from coadapt.optimizer.copter.problems.shard_balancing import (
    Assignment,
    ShardPartition,
    ShardProblem,
    first_problem,
    greedy,
    keep_idle,
    place,
    relaxed_program,
    routed_of,
    shard_program,
    stay,
    zipf_loads,
)
from coadapt.optimizer.copter.problems.shard_pricing import PairPricing
from coadapt.optimizer.highs import Highs, Method
from hypothesis import given, settings
from hypothesis import strategies as st


def random_problem(seed: int, servers: int, shards: int) -> ShardProblem:
    """Draw different sizes, tight memory (a few GiB above what is held), and shards too hot for a server."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(0.5, 2, shards)
    held = np.zeros((servers, shards), dtype=bool)
    held[rng.integers(0, servers, shards), np.arange(shards)] = True
    held |= rng.random((servers, shards)) < 0.05
    memory = held @ size + rng.uniform(0, 3, servers)
    return ShardProblem(rng.pareto(1.5, shards) + 0.01, size, memory, held)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 15))
def test_whatever_is_routed_the_shim_fits_the_memory_and_serves_every_shard(
    seed: int, servers: int, shards: int
) -> None:
    problem = random_problem(seed, servers, shards)
    rng = np.random.default_rng(seed + 1)
    for routed in (rng.dirichlet(np.ones(servers), shards).T, rng.dirichlet(np.full(servers, 0.1), shards).T):
        assert place(problem, routed).fits(problem)
    everything_on_one = np.zeros((servers, shards))
    everything_on_one[0] = 1
    assert place(problem, everything_on_one).fits(problem)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(2, 10))
def test_column_generation_finds_the_value_of_the_whole_relaxation(seed: int, servers: int, shards: int) -> None:
    problem = random_problem(seed, servers, shards)
    stated = Highs().solve(shard_program(problem))  # simplex drops the integers
    reduced = Highs().solve(relaxed_program(problem))
    ours = PairPricing(tolerance=1e-7).solve(problem)
    assert ours.assignment.fits(problem)
    if stated.x is None:  # no routing meets the load range: ours still answers, and its bound prices the miss
        assert reduced.x is None
        assert ours.relaxed > 1
        return
    assert reduced.objective == pytest.approx(stated.objective, abs=1e-5)
    assert ours.relaxed == pytest.approx(stated.objective, abs=1e-5)


def test_rounds_stay_balanced_with_few_movements() -> None:
    problem, pricing = first_problem(256, 32), PairPricing()
    movements, lower = [], []
    for load in islice(zipf_loads(256, "stateful", 1), 12):
        problem = replace(problem, load=load)
        found = pricing.solve(problem)
        assert found.assignment.fits(problem)
        assert found.assignment.imbalance(problem) <= 2 * problem.epsilon + 1e-6
        assert found.relaxed_gap <= pricing.tolerance
        assert found.columns < problem.held.size / 4
        movements.append(found.assignment.movements(problem))
        lower.append(found.relaxed)
        problem = replace(problem, held=found.assignment.replicas)
    assert all(moved >= bound - 1e-6 for moved, bound in zip(movements, lower, strict=True))
    assert sum(movements[1:]) < 60


def test_replicas_kept_save_movements() -> None:
    totals = []
    for keep in (False, True):
        problem, pricing, total = first_problem(128, 16), PairPricing(keep_replicas=keep), 0
        for load in islice(zipf_loads(128, "stateless", 3), 10):
            problem = replace(problem, load=load)
            found = pricing.solve(problem).assignment
            assert found.fits(problem)
            assert found.imbalance(problem) <= 0.1 + 1e-6
            assert (found.routed > 0).tolist() == found.replicas.tolist()
            total += found.movements(problem)
            problem = replace(problem, held=found.replicas)
        totals.append(total)
    assert totals[1] < totals[0]  # though every round is as well balanced


def test_replicas_are_kept_even_where_a_sliver_of_load_on_them_would_miss_the_range() -> None:
    held = np.array([[True, False], [True, True]])
    problem = ShardProblem(np.ones(2), np.ones(2), np.full(2, 2.0), held, epsilon=0.0)
    found = PairPricing().solve(problem).assignment
    assert (found.replicas == held).all()
    assert found.imbalance(problem) == pytest.approx(0.0, abs=1e-6)


def test_the_exact_program_is_no_worse_than_any_other_method() -> None:
    problem = replace(first_problem(32, 4, memory_gib=12), load=next(zipf_loads(32, "stateless", 5)))
    found = Highs(Method.EXACT, gap=1e-6, time_limit_s=60).solve(shard_program(problem))
    assert found.x is not None
    exact = place(problem, routed_of(found.x, problem))
    ours = PairPricing().solve(problem).assignment
    assert exact.movements(problem) == round(found.objective)
    assert exact.imbalance(problem) <= 0.1 + 1e-6
    assert exact.movements(problem) <= ours.movements(problem)


@pytest.mark.parametrize("equalise", [True, False])
def test_pop_divides_all_load_once_and_fits(equalise: bool) -> None:
    problem = replace(first_problem(64, 8), load=next(zipf_loads(64, "stateless", 2)))
    partition = ShardPartition(problem, Highs(Method.EXACT, gap=0.1, time_limit_s=5), equalise)
    parts = partition.split(4, np.random.default_rng(0))
    assert sorted(np.concatenate([part.servers for part in parts])) == list(range(8))
    share = np.zeros(64)
    for part in parts:
        share[part.shards] += part.share
    np.testing.assert_allclose(share, 1)
    whole = solve_parts(partition, 4).whole
    assert whole.fits(problem)
    if equalise:
        assert whole.imbalance(problem) <= 0.1 + 1e-6
    with pytest.raises(ValueError, match="k: is 3"):
        partition.split(3, np.random.default_rng(0))


@pytest.mark.parametrize("equalise", [True, False])
@pytest.mark.filterwarnings("error")
def test_pop_leaves_shards_as_they_are_where_a_group_of_servers_has_no_load(equalise: bool) -> None:
    held = np.zeros((4, 4), dtype=bool)
    held[[0, 0, 1, 1], np.arange(4)] = True
    for load in (np.ones(4), np.array([1.0, 1.0, 0.0, 0.0])):
        problem = ShardProblem(load, np.ones(4), np.full(4, 4.0), held)
        partition = ShardPartition(problem, Highs(Method.EXACT), equalise)
        for seed in range(4):
            assert solve_parts(partition, 2, seed=seed).whole.fits(problem)
    halves = np.array([[True, True, False, False], [False, False, True, True]])
    idle = ShardProblem(np.array([1.0, 1.0, 0.0, 0.0]), np.ones(4), np.full(2, 4.0), halves)
    whole = solve_parts(ShardPartition(idle, Highs(Method.EXACT), equalise=False), 2).whole
    assert (whole.replicas == halves).all()


@pytest.mark.parametrize("size_gib", [0.0, 1e-13, 1e-9, 1e6])
@pytest.mark.filterwarnings("error")
def test_shards_are_balanced_with_as_few_movements_whatever_their_size(size_gib: float) -> None:
    held = np.zeros((4, 12), dtype=bool)
    held[0] = True
    load = np.random.default_rng(0).uniform(0.5, 2, 12)
    problem = ShardProblem(load, np.full(12, size_gib), np.full(4, 24 * size_gib), held)
    found = PairPricing().solve(problem)
    of_one_gib = PairPricing().solve(replace(problem, size_gib=np.ones(12), memory_gib=np.full(4, 24.0)))
    assert found.assignment.fits(problem)
    assert found.assignment.imbalance(problem) <= 2 * problem.epsilon + 1e-6
    assert found.assignment.movements(problem) == of_one_gib.assignment.movements(problem)
    assert found.relaxed == pytest.approx(size_gib * of_one_gib.relaxed, rel=1e-4, abs=0)
    assert found.relaxed_gap <= PairPricing().tolerance


@pytest.mark.parametrize("size_gib", [1.0, 1e6, 1e12])
def test_replicas_that_fill_the_memory_exactly_fit_however_large_they_are(size_gib: float) -> None:
    size = size_gib * np.random.default_rng(0).uniform(0.5, 2, 300)
    held = np.zeros((2, 300), dtype=bool)
    held[0] = True
    # A running sum, which rounds otherwise than numpy's.
    problem = ShardProblem(np.ones(300), size, np.full(2, sum(size.tolist())), held)
    assert stay(problem).fits(problem)
    assert (place(problem, held.astype(float)).replicas == held).all()
    assert (keep_idle(problem, np.zeros_like(held)) == held).all()
    assert greedy(problem).fits(problem)
    assert PairPricing().solve(problem).assignment.fits(problem)
    with pytest.raises(ValueError, match=r"held\[0\]: takes"):
        replace(problem, memory_gib=problem.memory_gib * (1 - 1e-7))


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_the_greedy_heuristic_never_makes_the_hottest_server_hotter(seed: int) -> None:
    problem = random_problem(seed, 4, 20)
    one_each = np.zeros_like(problem.held)
    one_each[problem.held.argmax(axis=0), np.arange(20)] = True
    problem = replace(problem, held=one_each)
    found = greedy(problem)
    assert found.fits(problem)
    before = (stay(problem).routed @ problem.load).max()
    assert (found.routed @ problem.load).max() <= before + 1e-9


def test_a_new_shard_is_placed_and_one_too_large_is_refused() -> None:
    held = np.array([[True, False], [False, False]])
    problem = ShardProblem(np.ones(2), np.ones(2), np.array([1.0, 1.0]), held)
    found = PairPricing().solve(problem).assignment
    assert found.replicas.tolist() == [[True, False], [False, True]]
    with pytest.raises(ValueError, match=r"held\[:, 1\]: no server holds this shard"):
        greedy(problem)


@pytest.mark.parametrize("equalise", [True, False])
@pytest.mark.parametrize("time_limit_s", [5.0, 1e-9])
@pytest.mark.filterwarnings("error")
def test_pop_places_new_shards_whether_or_not_parts_find_an_answer(equalise: bool, time_limit_s: float) -> None:
    problem = first_problem(16, 4)
    held = problem.held.copy()
    held[:, [3, 7]] = False
    new = replace(problem, held=held)
    partition = ShardPartition(new, Highs(Method.EXACT, gap=0.1, time_limit_s=time_limit_s), equalise)
    share = np.zeros(16)
    for part in partition.split(2, np.random.default_rng(0)):
        share[part.shards] += part.share
    np.testing.assert_allclose(share, 1)
    assert solve_parts(partition, 2).whole.fits(new)


def test_bad_problems_get_one_clear_sentence() -> None:
    good = first_problem(4, 2)
    with pytest.raises(ValueError, match="held: is of int64, not of bool"):
        replace(good, held=good.held.astype(np.int64))
    with pytest.raises(ValueError, match=r"epsilon: is 1.5, not in \[0, 1\)"):
        replace(good, epsilon=1.5)
    with pytest.raises(ValueError, match=r"held\[0\]: takes 2 GiB of the 1 that server has"):
        replace(good, memory_gib=np.ones(2))
    with pytest.raises(ValueError, match="kind: is 'wild'"):
        next(zipf_loads(4, "wild", 0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"routed\[:, 0\]: is 0"):
        place(good, np.zeros((2, 4)))
    for value in (np.inf, np.nan):
        with pytest.raises(ValueError, match="routed: has entries that are not finite"):
            place(good, np.full((2, 4), value))
    with pytest.raises(ValueError, match=r"load: has shape \(4, 1\); \(shards,\) is accepted"):
        replace(good, load=np.ones((4, 1)))
    with pytest.raises(ValueError, match=r"memory_gib: has shape \(2, 1\); \(servers,\) is accepted"):
        replace(good, memory_gib=np.full((2, 1), 16.0))
    for k in (-2, 0, 3):
        with pytest.raises(ValueError, match=f"k: is {k}; a divisor of the 2 servers, 1 or more, is accepted"):
            ShardPartition(good, Highs()).split(k, np.random.default_rng(0))
    assert isinstance(stay(good), Assignment)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 15))
def test_idle_replicas_are_kept_beside_those_in_use_and_never_beyond_the_memory(
    seed: int, servers: int, shards: int
) -> None:
    problem = random_problem(seed, servers, shards)
    used = place(problem, np.random.default_rng(seed).dirichlet(np.ones(servers), shards).T)
    kept = replace(used, replicas=keep_idle(problem, used.replicas))
    assert kept.fits(problem)
    assert kept.movements(problem) == used.movements(problem)
    assert (used.replicas <= kept.replicas).all()
    left_out = problem.held & ~kept.replicas
    free = problem.memory_gib - kept.replicas @ problem.size_gib
    assert (np.where(left_out, problem.size_gib, np.inf) > free[:, None]).all()
