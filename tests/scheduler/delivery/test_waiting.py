"""What waits is sent in order per job, ever more seldom, and given up in the end."""

from __future__ import annotations

import random

import pytest
from coadapt.scheduler.delivery.waiting import MOST_REST_S, WINDOW, Delivery, Waiting, pause_s, rest_s
from hypothesis import given
from hypothesis import strategies as st

DAY_S = 86_400.0


def waiting(*deliveries: tuple[int, int, str]) -> Waiting:
    found = Waiting(random.Random(1))
    for webhook, event, job in deliveries:
        found.add(Delivery(webhook, event, job, at_s=float(event)))
    return found


def ids(found: list[Delivery]) -> list[str]:
    return [one.id for one in found]


def test_only_the_oldest_event_of_a_job_is_under_way_and_jobs_do_not_wait_for_each_other() -> None:
    some = waiting((1, 1, "a"), (1, 2, "a"), (1, 3, "b"), (2, 4, "a"))
    assert ids(some.due(10.0)) == ["evt_1_1", "evt_3_1", "evt_4_2"]
    assert some.due(10.0) == []
    assert some.accepted("evt_1_1", 10.0) is not None
    assert ids(some.due(10.0)) == ["evt_2_1"]
    assert some.accepted("evt_1_1", 10.0) is None, "it is acknowledged once"


def test_a_failure_is_tried_again_after_twice_as_long_each_time_and_never_at_the_same_moment() -> None:
    dice = random.Random(1)
    for tries in range(1, 30):
        pauses = {pause_s(tries, dice) for _ in range(100)}
        middle = min(2.0 ** (tries - 1), 3600.0)
        assert 0.5 * middle <= min(pauses) < max(pauses) <= 1.5 * middle
        assert len(pauses) == 100


def test_a_later_event_of_a_job_waits_until_the_one_before_is_acknowledged() -> None:
    some = waiting((1, 1, "a"), (1, 2, "a"))
    now = 0.0
    for _ in range(5):
        (one,) = some.due(now)
        assert one.event == 1
        some.failed(one.id, now)
        assert some.due(now) == []
        now = some.next_s() or 0.0
    (one,) = some.due(now)
    some.accepted(one.id, now)
    assert ids(some.due(now)) == ["evt_2_1"]


def test_a_receiver_that_is_away_is_asked_with_one_event_and_seldom_until_it_is_back() -> None:
    some = waiting(*((1, event, f"job-{event}") for event in range(1, 101)))
    now, asked = 0.0, 0
    while now < 3600.0:
        found = some.due(now)
        asked += len(found)
        for one in found:
            some.failed(one.id, now)
        now = some.next_s() or now
    assert asked < WINDOW + 3600.0 / (MOST_REST_S / 2) + 10, "about one request a minute after the first ones"
    (one,) = some.due(now)
    some.accepted(one.id, now)
    assert len(some.due(now)) == 2, "what waited for its turn goes at once"


def test_failures_now_and_then_let_nothing_rest_however_many_are_under_way() -> None:
    some, dice, now = waiting(*((1, event, f"job-{event}") for event in range(1, 2001))), random.Random(2), 0.0
    while some.count():
        found = some.due(now)
        for one in found:
            if dice.random() < 0.3:
                some.failed(one.id, now)
            else:
                some.accepted(one.id, now)
        now += 0.1
    assert now < 200.0, "most of it is the time until failed ones are tried again"


def test_a_receiver_that_goes_away_while_many_are_under_way_rests_for_a_second_first() -> None:
    some = waiting(*((1, event, f"job-{event}") for event in range(1, 101)))
    for one in some.due(0.0):
        some.failed(one.id, 0.0)
    assert 0.5 <= (some.next_s() or 0.0) <= 1.5
    assert [len(some.due(some.next_s() or 0.0))] == [1]
    assert 30.0 <= rest_s(20, random.Random(1)) <= 1.5 * MOST_REST_S


def test_one_receiver_that_is_away_delays_no_other() -> None:
    some = waiting((1, 1, "a"), (2, 2, "a"), (2, 3, "a"))
    assert ids(some.due(5.0)) == ["evt_1_1", "evt_2_2"]
    some.accepted("evt_2_2", 5.0)
    assert ids(some.due(5.0)) == ["evt_3_2"]


def test_a_receiver_that_asks_for_time_is_given_it() -> None:
    some = waiting((1, 1, "a"), (1, 2, "b"))
    some.due(0.0)
    some.failed("evt_1_1", 0.0, after_s=500.0)
    some.accepted("evt_2_1", 0.0)
    some = waiting((1, 1, "a"), (1, 2, "b"))
    some.due(0.0)
    some.failed("evt_2_1", 0.0)
    some.failed("evt_1_1", 0.0, after_s=500.0)
    assert some.due(499.0) == []
    assert some.next_s() == 500.0
    assert len(some.due(500.0)) == 2


def test_what_could_not_be_delivered_for_a_day_is_given_up_and_the_next_one_follows() -> None:
    some = waiting((1, 1, "a"), (1, 200_000, "a"))
    assert some.give_up(1.0, 100) == []
    assert ids(some.give_up(2.0 + DAY_S, 100)) == ["evt_1_1"]
    assert ids(some.due(300_000.0)) == ["evt_200000_1"]


def test_what_is_under_way_is_not_given_up_as_its_receiver_may_have_it() -> None:
    some = waiting((1, 1, "a"), (1, 2, "a"))
    some.due(5.0)
    assert some.give_up(DAY_S, 0) == []
    some.accepted("evt_1_1", 5.0)
    assert ids(some.give_up(DAY_S, 0)) == ["evt_2_1"]


def test_of_what_is_too_much_the_oldest_goes_of_whatever_job() -> None:
    some = waiting(*((1, event, "ab"[event % 2]) for event in range(1, 11)))
    assert [one.event for one in some.give_up(0.0, 4)] == [1, 2, 3, 4, 5, 6]
    assert some.count(1) == 4
    assert sorted(one.event for one in some.due(20.0)) == [7, 8]


def test_what_an_earlier_process_has_sent_is_not_sent_again() -> None:
    some = waiting((1, 1, "a"), (1, 2, "a"), (1, 3, "b"))
    some.taken_up(["evt_1_1", "evt_99_1"])
    assert ids(some.due(5.0)) == ["evt_3_1"]
    some.accepted("evt_1_1", 5.0)
    assert ids(some.due(5.0)) == ["evt_2_1"]


def test_nothing_waits_for_a_webhook_that_was_removed() -> None:
    some = waiting((1, 1, "a"), (2, 2, "a"))
    some.due(5.0)
    some.forget(1)
    assert (some.count(), some.count(1), some.under_way, some.oldest_s()) == (1, 0, 1, 2.0)
    assert some.failed("evt_1_1", 5.0) is None


@pytest.mark.hypothesis
@given(st.data())
def test_each_event_is_accepted_once_and_in_order_whatever_fails(data: st.DataObject) -> None:
    jobs = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
    some = Waiting(random.Random(data.draw(st.integers(0, 99))))
    for event, job in enumerate(jobs, 1):
        some.add(Delivery(1, event, job, at_s=0.0))
    now, got = 0.0, list[tuple[str, int]]()
    while some.count():
        found = some.due(now)
        assert len({one.job for one in found}) == len(found)
        for one in found:
            if data.draw(st.booleans()):
                some.failed(one.id, now)
            else:
                some.accepted(one.id, now)
                got.append((one.job, one.event))
        now = max(now, some.next_s() or now)
    for job in "abc":
        assert [event for of, event in got if of == job] == [at for at, of in enumerate(jobs, 1) if of == job]
