"""The best starts that are possible judge policies: nobody is late, and none waits less (checks A1 to A6)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from coadapt.optimizer.best_starts import BestStarts, Startable, best_starts, candidates
from coadapt.policies.lending.peers import serve_max_min
from coadapt.policies.lending.virtual_clock import alone

from tests.policies.lending.test_lending import FIGURE_1, TWO, jobs_of, later
from tests.support.lending import Job, anticipatory, known, replay, strict, virtual_clock


def oracle(jobs: Sequence[Job], quotas: Mapping[str, int], **how: object) -> BestStarts:
    due: dict[int, float] = {}
    for team, quota in quotas.items():
        due |= alone(known(jobs, team), quota)
    rows = [Startable(job.team, job.submitted, job.takes, job.gpus, due[at]) for at, job in enumerate(jobs)]
    return best_starts(rows, quotas, **how)  # type: ignore[arg-type]


def delay(found: Mapping[str, float], jobs: Sequence[Job]) -> float:
    return sum(found[job.name] - job.submitted for job in jobs)


def check(jobs: Sequence[Job], quotas: Mapping[str, int], starts: Sequence[float]) -> None:
    """Assert that starts exceed no GPUs, and that nobody starts later than with nothing lent."""
    reference = replay(jobs, quotas, strict)
    for job, start in zip(jobs, starts, strict=True):
        assert job.submitted <= start <= reference[job.name]
        held = sum(one.gpus for one, s in zip(jobs, starts, strict=True) if s <= start < s + one.takes)
        assert held <= sum(quotas.values())


def small(seed: int) -> tuple[list[Job], dict[str, int]]:
    """Return ten short jobs of two or three teams: lengths and times are whole."""
    rng = random.Random(seed)
    quotas = {f"t{team}": rng.randint(1, 4) for team in range(rng.randint(2, 3))}
    jobs = []
    for at in range(10):
        team = rng.choice(list(quotas))
        gpus = min(rng.choice([1, 1, 2, 4]), quotas[team])
        jobs.append(
            Job(f"j{at}", team, rng.randint(0, 15), rng.choice([rng.randint(1, 5), rng.randint(5, 30)]), gpus)
        )
    return jobs, quotas


@pytest.mark.parametrize(("fairness", "objective"), [(0.0, 28), (1.0, 68)])
def test_a1_figure_1(fairness: float, objective: float) -> None:
    found = oracle(FIGURE_1, TWO, fairness=fairness)
    assert (found.delay, round(found.objective, 6)) == (28, objective)
    starts = {job.name: start for job, start in zip(FIGURE_1, found.starts, strict=True)}
    assert later(starts) == [12, 4, 4, 20, 10, 15]


def test_a4_waiting_for_better_jobs_beats_every_policy_that_never_idles() -> None:
    jobs = jobs_of(
        [("A0", "a", 0, 100, 1), ("B1", "b", 6, 1000, 1), ("a1", "a", 0, 6, 1)]
        + [(f"a{at}", "a", 1, 1, 1) for at in range(2, 7)]
    )
    quotas = {"a": 1, "b": 1}
    assert delay(replay(jobs, quotas, strict), jobs) == 635
    assert delay(replay(jobs, quotas, lambda state: serve_max_min(state.book)), jobs) == 505
    assert delay(replay(jobs, quotas, virtual_clock(quotas)), jobs) == 505
    assert delay(replay(jobs, quotas, anticipatory), jobs) == 526
    assert oracle(jobs, quotas).delay == pytest.approx(110)


def test_a5_the_virtual_clock_finds_the_optimum_of_the_counter_example() -> None:
    jobs = jobs_of([("a1", "A", 1, 6, 2), ("a2", "A", 2, 6, 3), ("a3", "A", 5, 4, 1), ("a4", "A", 6, 2, 1)])
    assert oracle(jobs, {"A": 3, "B": 1}).delay == 8


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 2000), marks=pytest.mark.slow)], ids=str)
def test_a6_no_policy_waits_less_and_nobody_is_late(seeds: range) -> None:
    waits = {"oracle": 0.0, "windows": 0.0, "clock": 0.0, "alone": 0.0}
    for seed in seeds:
        jobs, quotas = small(seed)
        exact, coarse = oracle(jobs, quotas), oracle(jobs, quotas, parts=10)
        check(jobs, quotas, exact.starts)
        check(jobs, quotas, coarse.starts)
        clock, reference = replay(jobs, quotas, virtual_clock(quotas)), replay(jobs, quotas, strict)
        foreseen = replay(jobs, quotas, anticipatory)
        least = exact.delay - 1e-6
        assert least <= min(coarse.delay, delay(clock, jobs), delay(foreseen, jobs))
        assert delay(clock, jobs) <= delay(reference, jobs)
        for name, value in zip(
            waits, (exact.delay, coarse.delay, delay(clock, jobs), delay(reference, jobs)), strict=True
        ):
            waits[name] += value
    assert waits["oracle"] <= waits["windows"] <= waits["clock"] < waits["alone"]


def test_who_starts_as_another_ends_is_not_beside_it_whatever_times_round_to() -> None:
    third = 1 / 3
    jobs = [Startable("a", 0, third, 1, 0), Startable("a", 0, 0.1, 1, third), Startable("a", 0, 1, 1, third + 0.1)]
    assert sum(best_starts(jobs, {"a": 1}, slot=third).starts) <= third + third + 0.1


def test_long_jobs_have_as_many_starts_as_short_ones() -> None:
    short, long = Startable("a", 0, 10, 1, 100), Startable("a", 0, 1000, 1, 10_000)
    assert len(candidates(short, 1.0, 10)) == len(candidates(long, 1.0, 10)) == 101
    assert len(candidates(short, 1.0, None)) == 101
    assert candidates(Startable("a", 3, 10, 1, 3), 1.0, 10).tolist() == [3.0]


@pytest.mark.parametrize(
    ("job", "how", "told"),
    [
        (Startable("b", 0, 1, 1, 5), {}, "job 0: its team 'b' has no quota; known: a"),
        (Startable("a", 3, 1, 1, float("inf")), {}, "job 0: starts from 3 to inf; it can never start"),
        (Startable("a", 3, 1, 1, 2), {}, "job 0: starts from 3 to 2; it can never start"),
        (Startable("a", 3, 1, 1, 4), {"slot": 0}, "slot, parts, fairness: 0, None, 0.0; above 0"),
        (Startable("a", 3, 1, 1, 4), {"parts": 0}, "slot, parts, fairness: 1.0, 0, 0.0; above 0"),
    ],
)
def test_bad_instances_are_refused(job: Startable, how: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        best_starts([job], {"a": 1}, **how)  # type: ignore[arg-type]
    assert best_starts([], {"a": 1}).starts == ()
