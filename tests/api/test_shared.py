"""Answers are shared by those who may read the same, for a moment, and never across rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from coadapt.api.shared import Shared


class Counting:
    """A scheduler that answers with how often it was asked. `fails`: it raises instead."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.fails = False

    async def __call__(self, *question: Any) -> int:
        self.asked.append(question)
        await asyncio.sleep(0)
        if self.fails:
            raise RuntimeError("away")
        return len(self.asked)


def shared(followed: bool = True) -> tuple[Shared, Counting]:
    scheduler = Counting()
    return Shared(scheduler, lambda: followed), scheduler


def test_many_who_ask_at_once_get_one_answer() -> None:
    some, scheduler = shared(followed=False)

    async def ask() -> list[int]:
        return list(await asyncio.gather(*(some.ask("cluster", None) for _ in range(20))))

    assert asyncio.run(ask()) == [1] * 20
    assert len(scheduler.asked) == 1


def test_another_question_has_another_answer() -> None:
    """Whose jobs alone are told is part of the question."""
    some, scheduler = shared()

    async def ask() -> list[int]:
        return [await some.ask("page", owner) for owner in (None, "ann", "bob", "ann")]

    assert asyncio.run(ask()) == [1, 2, 3, 2]
    assert scheduler.asked == [("page", None), ("page", "ann"), ("page", "bob")]


@pytest.mark.parametrize(
    ("followed", "between", "calls"),
    [(True, None, 1), (False, None, 2), (True, "forget", 2)],
    ids=["events are read", "nobody reads events", "something happened"],
)
def test_an_answer_is_good_until_something_happens(followed: bool, between: str | None, calls: int) -> None:
    some, scheduler = shared(followed)

    async def ask() -> None:
        await some.ask("cluster")
        if between:
            some.forget()
        await some.ask("cluster")

    asyncio.run(ask())
    assert len(scheduler.asked) == calls


def test_what_is_kept_for_long_stays_whatever_happens() -> None:
    some, scheduler = shared(followed=False)

    async def ask() -> None:
        for _ in range(3):
            await some.ask("prices", keep_s=20.0)
            some.forget()

    asyncio.run(ask())
    assert len(scheduler.asked) == 1


def test_a_failure_is_told_and_not_kept() -> None:
    some, scheduler = shared()

    async def ask(told: Callable[[], Any]) -> Any:
        return await told()

    scheduler.fails = True
    with pytest.raises(RuntimeError, match="away"):
        asyncio.run(ask(lambda: some.ask("cluster")))
    scheduler.fails = False
    assert asyncio.run(ask(lambda: some.ask("cluster"))) == 2
