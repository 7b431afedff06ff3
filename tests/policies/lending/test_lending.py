"""What teams rely on: whoever borrows, nobody starts later than if nothing were lent (spec of anticipation, A)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pytest
from coadapt.policies.lending.book import Book, Pool, Running, Start, Waiting
from coadapt.policies.lending.dedicated import serve_dedicated
from coadapt.policies.lending.lending import Windows, lend_beside_needs, lend_in_bulk
from coadapt.policies.lending.peers import serve_max_min, serve_shortest, serve_shortest_of_all, service

from tests.support.lending import (
    WINDOWS,
    Decide,
    Job,
    State,
    anticipatory,
    blocking,
    drawn,
    least_and_most,
    replay,
    strict,
    virtual_clock,
)  # fmt: skip

Starts = Mapping[str, float]


def jobs_of(rows: Sequence[tuple[str, str, float, float, int]]) -> list[Job]:
    return [Job(*row) for row in rows]


# Figure 1 of the paper, with numbers that its text agrees with.
FIGURE_1 = jobs_of(
    [
        ("J0", "g", 0, 12, 2), ("J1", "o", 0, 3, 1), ("J2", "g", 4, 20, 2), ("J3", "g", 4, 3, 1),
        ("J4", "g", 4, 3, 1), ("J5", "g", 4, 5, 2), ("J6", "o", 10, 5, 2), ("J7", "o", 11, 5, 1),
    ]
)  # fmt: skip
TWO = {"g": 2, "o": 2}


def later(found: Starts) -> list[float]:
    return [found[f"J{at}"] for at in range(2, 8)]


@pytest.mark.parametrize(
    ("decide", "expected"),
    [
        (strict, [12, 32, 32, 35, 10, 15]),
        (lambda state: serve_max_min(state.book), [4, 17, 20, 23, 12, 17]),
        (anticipatory, [12, 4, 4, 20, 10, 15]),
        (virtual_clock(TWO), [12, 4, 4, 20, 10, 15]),
        (virtual_clock(TWO, literal=True), [12, 4, 4, 20, 10, 15]),
    ],
)
def test_a1_figure_1(decide: Decide, expected: list[float]) -> None:
    assert later(replay(FIGURE_1, TWO, decide)) == expected


def exactly(job: Job) -> tuple[float, float]:
    return job.takes, job.takes


def test_a1_shortest_service_by_team_and_over_all_teams() -> None:
    by_team = replay(FIGURE_1, TWO, lambda state: serve_shortest(state.book, service), bounds=exactly)
    assert later(by_team) == [20, 12, 12, 15, 10, 15]
    over_all = replay(FIGURE_1, TWO, lambda state: serve_shortest_of_all(state.book, service), bounds=exactly)
    assert later(over_all) == [17, 4, 4, 7, 12, 12]


def with_class(name: str, bounds: tuple[float, float]) -> Callable[[Job], tuple[float, float]]:
    return lambda job: bounds if job.name == name else least_and_most(job.takes)


def foreseeing(load: float) -> Decide:
    def decide(state: State) -> list[Start]:
        return [*serve_dedicated(state.book), *lend_in_bulk(state.book, WINDOWS, lambda team, horizon: load)]

    return decide


def test_a2_what_wrong_forecasts_cost() -> None:
    short = replay(FIGURE_1, TWO, anticipatory, bounds=with_class("J2", (0, 5)))
    assert (short["J2"], short["J6"], short["J7"]) == (4, 12, 17)
    nothing = replay(FIGURE_1, TWO, foreseeing(0))
    assert (nothing["J5"], nothing["J6"], nothing["J7"]) == (7, 12, 17)
    assert replay(FIGURE_1, TWO, foreseeing(math.inf)) == replay(FIGURE_1, TWO, strict)
    long = replay(FIGURE_1, TWO, anticipatory, bounds=with_class("J3", (720, math.inf)))
    assert (long["J3"], long["J4"], long["J5"]) == (32, 4, 20)
    reference = replay(FIGURE_1, TWO, strict)
    assert all(long[name] <= reference[name] for name in reference)


def test_a3_the_price_of_coarse_windows() -> None:
    sooner = [*FIGURE_1[:6], Job("J6", "o", 8, 5, 2), Job("J7", "o", 9, 5, 1)]
    found = replay(sooner, TWO, anticipatory)
    assert [found[name] for name in ("J3", "J4", "J5", "J6", "J7")] == [13, 16, 19, 8, 13]
    known = replay(sooner, TWO, virtual_clock(TWO))
    assert [known[name] for name in ("J3", "J4", "J5")] == [4, 4, 18]


def test_a5_start_times_found_anew_from_what_runs_break_the_promise_and_those_of_the_reference_keep_it() -> None:
    jobs = jobs_of([("a1", "A", 1, 6, 2), ("a2", "A", 2, 6, 3), ("a3", "A", 5, 4, 1), ("a4", "A", 6, 2, 1)])
    quotas = {"A": 3, "B": 1}
    reference = replay(jobs, quotas, strict)
    assert list(reference.values()) == [1, 7, 13, 13]
    assert list(replay(jobs, quotas, virtual_clock(quotas, literal=True)).values()) == [1, 8, 5, 6]
    found = replay(jobs, quotas, virtual_clock(quotas))
    assert all(found[name] <= reference[name] for name in reference)
    assert sum(found[job.name] - job.submitted for job in jobs) == 8


def test_a8_one_decision() -> None:
    """Two teams of 8; 10 GPUs are idle, of which 6 dedicated jobs of A took theirs."""
    pending = [
        Waiting(1, 4, 720, math.inf), Waiting(2, 1, 0, 5), Waiting(3, 3, 5, 60), Waiting(4, 2, 60, 720),
    ]  # fmt: skip

    def teams() -> list[Pool]:
        return [Pool("A", 8, list(pending), [Running(0, 6)]), Pool("B", 8)]

    coming = {("B", 5.0): 0, ("B", 60.0): 4, ("B", 720.0): 8}

    def load(team: str, horizon: float) -> float:
        return coming.get((team, horizon), 0)

    book = Book.of(teams(), 16)
    assert book.idle == 10
    assert serve_dedicated(book) == []
    assert [start.at for start in lend_in_bulk(book, WINDOWS, load)] == [2, 3]
    assert book.idle == 6
    third = Pool("C", 4, [Waiting(5, 1, 0, 5)], [Running(9, 4)])
    book = Book.of([*teams(), third], 20)
    assert [start.at for start in lend_in_bulk(book, WINDOWS, load)] == [2, 5]


def test_a9_a_horizon_is_open_at_its_end_and_a_class_closed() -> None:
    jobs = jobs_of([("a0", "A", 0, 100, 1), ("a1", "A", 0, 5, 1), ("b1", "B", 5, 10, 1)])
    found = replay(jobs, {"A": 1, "B": 1}, anticipatory)
    assert (found["a1"], found["b1"]) == (0, 5)
    assert [WINDOWS.of(takes) for takes in (5, 5.01, 60, 60.01, 720, 720.01)] == [0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("tick", [None, 5.0])
@pytest.mark.parametrize("decide", [anticipatory, blocking])
@pytest.mark.parametrize("seeds", [range(150), pytest.param(range(150, 2000), marks=pytest.mark.slow)], ids=str)
def test_a7_with_a_perfect_forecast_nobody_starts_later_than_without_lending(
    seeds: range, decide: Decide, tick: float | None
) -> None:
    earlier = 0
    for seed in seeds:
        jobs, quotas = drawn(seed)
        reference, found = replay(jobs, quotas, strict), replay(jobs, quotas, decide, tick=tick)
        late = {name: found[name] - reference[name] for name in reference if found[name] > reference[name]}
        assert not late, (seed, late)
        earlier += sum(found[name] < reference[name] for name in reference)
    assert earlier


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 2000), marks=pytest.mark.slow)], ids=str)
def test_a6_by_start_times_of_the_reference_nobody_is_late(seeds: range) -> None:
    for seed in seeds:
        jobs, quotas = drawn(seed)
        reference, found = replay(jobs, quotas, strict), replay(jobs, quotas, virtual_clock(quotas))
        assert all(found[name] <= reference[name] for name in reference), seed


def test_blocking_reservations_keep_back_less() -> None:
    """Over many instances jobs wait less with the same forecast."""
    waits = {"bulk": 0.0, "blocking": 0.0, "alone": 0.0}
    for seed in range(60):
        jobs, quotas = drawn(seed)
        for name, decide in (("bulk", anticipatory), ("blocking", blocking), ("alone", strict)):
            found = replay(jobs, quotas, decide)
            waits[name] += sum(found[job.name] - job.submitted for job in jobs)
    assert waits["blocking"] < 0.9 * waits["bulk"] < waits["alone"]


@pytest.mark.parametrize("lend", [lend_in_bulk, lend_beside_needs])
def test_a_lent_head_keeps_back_what_those_behind_it_can_then_take(lend: Callable[..., list[object]]) -> None:
    """Without the wide head the narrow jobs behind it start at once; they need the GPUs that it would borrow."""
    wide, narrow = Waiting(0, 4, 0, 5), [Waiting(at, 1, 720, math.inf) for at in (1, 2)]
    pools = [Pool("A", 4, [wide, *narrow], [Running(9, 2, 100, math.inf)]), Pool("B", 3)]
    book = Book.of(pools, 7)
    assert book.idle == 5
    assert not lend(book, Windows((5.0,)), lambda team, horizon: 0.0)


@pytest.mark.parametrize("decide", [anticipatory, blocking])
def test_a16_what_is_the_reference(decide: Callable[..., list[object]]) -> None:
    for seed in range(100):
        jobs, quotas = drawn(seed)
        reference = replay(jobs, quotas, strict)
        assert replay(jobs, quotas, partial(decide, windows=Windows(()))) == reference
        alone, one = drawn(seed, teams=1)
        assert replay(alone, one, anticipatory) == replay(alone, one, strict)
        assert replay(alone, one, lambda state: serve_max_min(state.book)) == replay(alone, one, strict)
        assert replay(jobs, quotas, foreseeing(math.inf)) == reference
