"""A slot in which workers do not start is tried again, ever later, and given up in the end."""

from __future__ import annotations

from coadapt.executor.reconciling.slot_tries import LONGEST_BACKOFF_S, TRIES, SlotTries, backoff_s

from tests.support.simulated_workers import slot

A, B = slot("n1"), slot("n2")


def test_each_wait_is_twice_the_one_before_up_to_a_bound() -> None:
    waits = [backoff_s(failures) for failures in range(1, 10)]
    assert waits[:3] == [1.0, 2.0, 4.0]
    assert waits[-1] == backoff_s(10**6) == LONGEST_BACKOFF_S


def test_a_slot_is_given_up_after_its_last_try_and_no_other_with_it() -> None:
    tries = SlotTries()
    for _ in range(TRIES - 1):
        tries.failed(A, 0.0)
        tries.failed(B, 0.0)
    assert tries.given_up == set()
    assert tries.failed(A, 10.0) == TRIES
    assert tries.given_up == {A}


def test_a_start_that_succeeds_forgets_the_failures_before_it() -> None:
    tries = SlotTries()
    tries.failed(A, 10.0)
    assert tries.not_before_s(A) == 11.0
    tries.started(A)
    assert tries.not_before_s(A) == 0.0
    assert tries.failed(A, 20.0) == 1


def test_a_new_assignment_tries_a_given_up_slot_again() -> None:
    tries = SlotTries()
    for _ in range(TRIES):
        tries.failed(A, 0.0)
    tries.assigned(given_up=[B])
    assert (tries.given_up, tries.not_before_s(A)) == ({B}, 0.0)
