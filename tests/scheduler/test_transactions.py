"""What is kept in memory is what the file says, however a transaction ends."""

from __future__ import annotations

import sqlite3

import pytest
from coadapt.scheduler.transactions import Transactions
from hypothesis import given
from hypothesis import strategies as st


class Numbers:
    """A table of numbers and the same numbers in memory."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.execute("pragma foreign_keys=on")
        self.db.execute("create table numbers(n integer primary key)")
        self.db.execute("create table of(n integer references numbers(n) deferrable initially deferred)")
        self.transactions, self.kept = Transactions(self.db), list[int]()

    def add(self, number: int) -> None:
        self.db.execute("insert into numbers values(?)", (number,))
        self.kept.append(number)
        self.transactions.on_failure(self.kept.pop)

    def add_together(self, *numbers: int, fails: bool = False, unknown: int | None = None) -> None:
        """Add numbers in one transaction, each in one of its own within; `unknown`: what only the commit finds."""
        with self.transactions.begin():
            for number in numbers:
                with self.transactions.begin():
                    self.add(number)
            if unknown is not None:
                self.db.execute("insert into of values(?)", (unknown,))
            if fails:
                raise ArithmeticError

    def stored(self) -> list[int]:
        return [n for (n,) in self.db.execute("select n from numbers order by n")]


def test_what_fails_on_its_way_is_in_neither() -> None:
    numbers = Numbers()
    with pytest.raises(sqlite3.IntegrityError):
        numbers.add_together(1, 1)
    assert numbers.stored() == numbers.kept == []


def test_what_fails_in_its_commit_is_in_neither_and_the_next_transaction_succeeds() -> None:
    numbers = Numbers()
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        numbers.add_together(1, unknown=7)
    assert numbers.stored() == numbers.kept == []
    numbers.add_together(2)
    assert numbers.stored() == numbers.kept == [2]


# A tree of transactions: each adds a number, has others within it, and may fail after them.
Tree = tuple[tuple["Tree", ...], bool]  # transactions within one, and whether it fails

trees = st.recursive(
    st.tuples(st.just(()), st.booleans()),
    lambda inner: st.tuples(st.lists(inner, max_size=3).map(tuple), st.booleans()),
    max_leaves=12,
)


@given(trees)
def test_one_within_another_fails_by_itself(tree: Tree) -> None:
    numbers, last = Numbers(), iter(range(1_000))

    def run(inner: tuple[Tree, ...], fails: bool) -> list[int]:
        mine = [next(last)]
        try:
            with numbers.transactions.begin():
                numbers.add(mine[0])
                for one in inner:
                    mine += run(*one)
                if fails:
                    raise ArithmeticError
        except ArithmeticError:
            return []
        return mine

    expected = run(*tree)
    assert numbers.stored() == numbers.kept == expected


def test_all_that_is_within_a_failing_one_is_taken_back_with_it() -> None:
    numbers = Numbers()
    with pytest.raises(ArithmeticError):
        numbers.add_together(1, fails=True)
    assert numbers.stored() == numbers.kept == []


def test_nothing_is_written_after_the_transaction_around_it_was_ended_by_the_file() -> None:
    numbers = Numbers()

    def ended_within() -> None:
        with numbers.transactions.begin():
            numbers.add(1)
            numbers.db.execute("rollback")  # as a full disk does
            with pytest.raises(sqlite3.OperationalError, match="around this one has failed"):
                numbers.add_together(2)

    with pytest.raises(sqlite3.OperationalError, match="cannot commit"):
        ended_within()
    assert numbers.stored() == numbers.kept == []
    numbers.add_together(3)
    assert numbers.stored() == numbers.kept == [3]
