"""Deadlines as a job file writes them: every form, and every one that is refused, in one sentence."""

from __future__ import annotations

from datetime import datetime

import pytest
from coadapt.client import jobfile
from coadapt.client.submit_check import of_spec
from coadapt.core.deadline import DeadlineSpec, worth_refusal
from coadapt.core.job import JobSpec
from coadapt.core.rewards import OnMissed, Rewards

START = "name: demo\nscript: train.py\n"
BY = "2027-01-31T08:00:00+01:00"
BY_S = datetime.fromisoformat(BY).timestamp()
HOUR_S = 3600.0


def parsed(text: str) -> JobSpec:
    return jobfile.parse(START + text)


def deadline(text: str) -> DeadlineSpec:
    found = parsed(f"deadline: {text}\n").deadline
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "rewards"),
    [
        ("6h", Rewards.strict(6 * HOUR_S)),
        ("600", Rewards.strict(600.0)),
        ("{within: 6h, soft: true}", Rewards.soft(6 * HOUR_S)),
        (BY, Rewards.strict(HOUR_S)),
        (f"{{by: {BY}, soft: true}}", Rewards.soft(HOUR_S)),
        ("{worth: {6h: 100, 8h: 40}}", Rewards((6 * HOUR_S, 8 * HOUR_S), (100.0, 40.0))),
        ("{worth: {10h: 40, 8h: 90}}", Rewards((8 * HOUR_S, 10 * HOUR_S), (90.0, 40.0))),
    ],
)
def test_each_form_says_what_ending_by_when_is_worth(text: str, rewards: Rewards) -> None:
    assert deadline(text).rewards(BY_S - HOUR_S) == rewards


def test_a_stored_job_is_read_back_as_it_was_written() -> None:
    spec = parsed("deadline: {worth: {6h: 100, 8h: 40}}\non_missed: cancel\n")
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec
    assert spec.on_missed is OnMissed.CANCEL


def test_an_instant_that_was_not_after_submission_is_worth_nothing() -> None:
    assert deadline(BY).rewards(BY_S + 1.0) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("deadline: -6h", "deadline: -6h is in the past; a span above 0 is accepted, such as 24h"),
        ("deadline: 0", "deadline: 0 is in the past"),
        ("deadline: soon", "deadline: soon is no span of time"),
        ("deadline: true", "deadline: true is not a mapping"),
        ("deadline: [6h]", 'deadline: ["6h"] is not a mapping'),
        ("deadline: 2027-01-31T08:00:00", "deadline: 2027-01-31T08:00:00 has no time zone; one such as"),
        ("deadline: {by: 2027-01-31}", "deadline.by: 2027-01-31 has no time zone"),
        ("deadline: {by: tomorrow}", "deadline.by: tomorrow is no instant; one such as"),
        ("deadline: {}", "deadline.within: missing; one of within, by and worth"),
        (f"deadline: {{within: 6h, by: {BY}}}", "deadline.by: stands beside within; one of within, by and worth"),
        ("deadline: {within: 6h, worth: {7h: 3}}", "deadline.worth: stands beside within"),
        ("deadline: {worth: {7h: 3}, soft: true}", "deadline.soft: stands beside worth"),
        ("deadline: {worth: {}}", "deadline.worth: {} is not a list with at least 1 entry"),
        (
            "deadline: {worth: {6h: 100, 360m: 40}}",
            "deadline.worth: a deadline of 6 h follows 6 h; deadlines must",
        ),
        ("deadline: {worth: {6h: 40, 8h: 40}}", "deadline.worth: a worth of 40 follows 40; worth must fall"),
        ("deadline: {worth: {6h: 40, 8h: 90}}", "deadline.worth: a worth of 90 follows 40; worth must fall"),
        ("deadline: {worth: {6h: 0}}", "deadline.worth.6h: 0 is not a number above 0"),
        ("deadline: {worth: {6h: -5}}", "deadline.worth.6h: -5 is not a number above 0"),
        ("deadline: {worth: {six: 5}}", "deadline.worth: six is no span of time above 0; one such as 6h"),
        ("deadline: {whithin: 6h}", "deadline.whithin: unknown field; did you mean within?"),
        ("deadline: 6h\non_missed: stop", "on_missed: stop is not one of best-effort, cancel"),
        ("on_missed: cancel", "on_missed: cancel says what follows a deadline, and deadline is not given"),
    ],
)
def test_others_are_refused_in_one_sentence(text: str, told: str) -> None:
    with pytest.raises(jobfile.JobFileError) as refused:
        parsed(text + "\n")
    (sentence,) = refused.value.problems
    assert sentence.startswith(told)


def test_an_instant_that_has_passed_is_refused_by_the_one_who_submits() -> None:
    told = deadline(BY).passed(BY_S + 7200)
    assert told == f"deadline.by: {BY} has passed, 2 h ago; an instant that is to come is accepted"
    assert deadline(BY).passed(BY_S - 1) == ""
    passed = parsed("deadline: 2020-01-31T08:00:00Z\n")
    assert [one[:40] for one in of_spec(passed, "job.yaml", None)["refused"]] == [
        "deadline.by: 2020-01-31T08:00:00Z has pa"
    ]


def test_a_worth_above_the_operators_most_is_refused() -> None:
    told = worth_refusal(deadline("{worth: {1h: 250}}"), 100.0)
    assert told == "deadline.worth: 250 is more than 100, the most that a job may be worth here"
    assert worth_refusal(deadline("{worth: {1h: 250}}"), 250.0) == worth_refusal(None, 1.0) == ""
