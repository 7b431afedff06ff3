"""Requests are taken in order, and what is due is done where none comes."""

from __future__ import annotations

import time

from coadapt.executor.inbox import Inbox


def otherwise(now: float) -> list[str]:
    return ["due"]


def test_requests_come_in_order_and_before_what_is_due() -> None:
    inbox: Inbox[str] = Inbox()
    inbox.put(lambda now: ["first"])
    inbox.put(lambda now: ["second"])
    due_s = time.monotonic() - 1.0
    assert [inbox.next(due_s, otherwise)(0.0) for _ in range(3)] == [["first"], ["second"], ["due"]]


def test_a_request_is_not_kept_waiting_for_what_is_due_later() -> None:
    inbox: Inbox[str] = Inbox()
    inbox.put(lambda now: ["first"])
    assert inbox.next(float("inf"), otherwise)(0.0) == ["first"]
