"""Work of one key is done in order, and neither waiting nor failing work holds back another key's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest
from coadapt.scheduler.runtime.lanes import Lanes

WAIT_S = 20.0


@pytest.fixture
def lanes() -> Iterator[Lanes]:
    found = Lanes("test", threads=2)
    yield found
    found.stop()


def test_work_of_each_key_is_done_in_order(lanes: Lanes) -> None:
    done: list[tuple[str, int]] = []
    for number in range(200):
        for key in "abc":
            lanes.put(key, partial(done.append, (key, number)))
    assert lanes.drain(WAIT_S)
    for key in "abc":
        assert [number for one, number in done if one == key] == list(range(200))


def test_work_that_is_not_done_is_called_again_before_what_follows(lanes: Lanes) -> None:
    done: list[str] = []

    def thrice() -> float | None:
        done.append("first")
        return 0.001 if len(done) < 3 else None

    lanes.put("a", thrice)
    lanes.put("a", lambda: done.append("second"))
    assert lanes.drain(WAIT_S)
    assert done == ["first", "first", "first", "second"]


def test_keys_that_wait_hold_no_thread(lanes: Lanes) -> None:
    other = threading.Event()
    for number in range(20):
        lanes.put(number, lambda: 3600.0)
    lanes.put("other", other.set)
    assert other.wait(WAIT_S)


def test_work_that_raises_ends_neither_its_key_nor_a_thread(lanes: Lanes) -> None:
    done: list[int] = []

    def fails() -> None:
        raise ValueError("no")

    for number in range(10):
        lanes.put("a", fails)
        lanes.put("a", partial(done.append, number))
    assert lanes.drain(WAIT_S)
    assert done == list(range(10))


def test_draining_ends_in_time_where_something_still_waits(lanes: Lanes) -> None:
    lanes.put("a", lambda: 3600.0)
    assert not lanes.drain(0.01)
