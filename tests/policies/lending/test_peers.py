"""Themis without preemption: idle GPUs go to the teams that are worst off, and to nobody else."""

from __future__ import annotations

from coadapt.policies.catalogue import make_policy
from coadapt.policies.lending.book import Book, Pool, Running, Waiting
from coadapt.policies.lending.peers import serve_worst_off

SUBMITTED_S = [0.0, 0.0, 50.0, 90.0, 90.0]


def teams(*, wide: int = 1) -> Book:
    """Return three teams at second 100; their first jobs take 11, 1.5 and 1.1 times as long as alone."""
    a = Pool("a", 1, [Waiting(1, wide, 10, 10), Waiting(4, 1, 1, 1)], [Running(0, 1)])
    b, c = Pool("b", 1, [Waiting(2, 1, 100, 100)]), Pool("c", 1, [Waiting(3, 1, 100, 100)])
    return Book.of([a, b, c], 3)


def test_whoever_is_worst_off_starts_first_and_only_the_heads_of_queues_count() -> None:
    book = teams()
    starts = serve_worst_off(book, 100.0, SUBMITTED_S)
    assert [start.at for start in starts] == [1, 4], "after its head the second job of a is ten times as slow, too"
    assert [start.borrows for start in starts] == [True, True], "beyond the one GPU of its guarantee"


def test_what_the_worst_off_cannot_use_is_offered_to_no_other_team() -> None:
    assert serve_worst_off(teams(wide=3), 100.0, SUBMITTED_S) == []
    assert [start.at for start in serve_worst_off(teams(wide=3), 100.0, SUBMITTED_S, fairness=0.0)] == [2, 3]


def test_a_job_of_unknown_length_comes_last() -> None:
    book = Book.of([Pool("a", 1, [Waiting(1, 1)]), Pool("b", 1, [Waiting(3, 1, 100, 100)])], 1)
    assert [start.at for start in serve_worst_off(book, 100.0, SUBMITTED_S)] == [3]


def test_it_is_a_rule_of_the_peers() -> None:
    assert make_policy("team_queues", rule="themis").options.rule == "themis"
