"""What a job with a deadline is told: by the forecast of its end, or by what the policy plans."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.deadline_answer import Answer, DeadlineAnswer, End, Planned, answer_of
from coadapt.core.rewards import OnMissed, Rewards

NOW_S = 1000.0
STRICT, SOFT = Rewards.strict(3600.0), Rewards.soft(3600.0)
AT_S = NOW_S + 3600.0  # of the first deadline of a job that is submitted now


def end(minutes: float, half: float = 9.0) -> End:
    at_s = AT_S + 60 * minutes
    return End(at_s, at_s - 60 * half, at_s + 60 * half)


def told(rewards: Rewards = STRICT, **known: Any) -> DeadlineAnswer:
    found = answer_of(rewards, NOW_S, NOW_S, **known)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("rewards", "of", "answer", "due"),
    [
        (STRICT, end(-10), Answer.ON_TIME, 0),
        (STRICT, end(-8), Answer.AT_RISK, 0),
        (STRICT, end(8), Answer.AT_RISK, 0),
        (STRICT, end(10), Answer.CANNOT, 0),
        (SOFT, end(-10), Answer.ON_TIME, 0),
        (SOFT, end(2), Answer.AT_RISK, 6),
        (SOFT, end(10), Answer.AT_RISK, 12),
        (SOFT, end(41), Answer.CANNOT, 30),
    ],
)
def test_the_band_of_the_end_decides(rewards: Rewards, of: End, answer: Answer, due: float) -> None:
    found = told(rewards, end=of)
    assert found.answer is answer
    assert found.due_s == pytest.approx(AT_S + 60 * due), "the first deadline that is likely to hold, or the last"


def test_an_answer_is_told_in_a_line() -> None:
    def clock(moment_s: float) -> str:
        return f"{moment_s:.0f}"

    assert told(end=end(-10)).text(NOW_S, clock) == "on time, expected end 4000 ± 9 min"
    assert told(end=end(-10)).text(NOW_S) == "on time, expected end in 50 min ± 9 min"
    assert told(end=end(-8)).text(NOW_S) == "at risk, expected end in 52 min ± 9 min"
    assert told(end=end(10)).text(NOW_S).startswith("cannot be met, runs as best effort, expected end in ")
    assert (
        told(SOFT, end=end(2)).text(NOW_S) == "at risk, expected end in 62 min ± 9 min, which is worth 80 of 100"
    )
    late = told(end=end(10), on_missed=OnMissed.CANCEL)
    assert late.text(NOW_S).startswith("cannot be met, is cancelled at its last deadline, expected end in ")
    assert told(end=end(-10, 0.0)).text(NOW_S) == "on time, expected end in 50 min"


def test_nothing_is_promised_before_a_job_is_measured() -> None:
    found = told(is_known=False, known_s=NOW_S + 40)
    assert found.answer is Answer.MEASURED_FIRST
    assert found.text(NOW_S) == "measured first: the answer comes in about 40 s"
    assert told(is_known=False).text(NOW_S) == "measured first: the answer comes once it has trained for a while"


@pytest.mark.parametrize(
    ("rewards", "planned", "answer", "text"),
    [
        (STRICT, Planned(AT_S - 60), Answer.ON_TIME, "on time, planned to end in 59 min"),
        (SOFT, Planned(AT_S + 60), Answer.AT_RISK, "at risk, planned to end in 61 min, which is worth 80 of 100"),
        (STRICT, Planned(AT_S + 600), Answer.CANNOT, "cannot be met, runs as best effort"),
        (STRICT, Planned(given_up=True), Answer.CANNOT, "cannot be met, runs as best effort"),
    ],
)
def test_where_no_forecast_is_the_plan_answers(
    rewards: Rewards, planned: Planned, answer: Answer, text: str
) -> None:
    found = told(rewards, planned=planned)
    assert found.answer is answer
    assert found.text(NOW_S) == text
    assert answer_of(rewards, NOW_S, NOW_S) is None, "neither a forecast nor a plan says anything"


def test_what_the_policy_has_given_up_is_on_time_only_if_it_still_ends_in_time() -> None:
    given_up = Planned(given_up=True)
    assert told(end=end(-10), planned=given_up).answer is Answer.ON_TIME
    assert told(end=end(1), planned=given_up).answer is Answer.CANNOT
    assert told(end=end(1)).answer is Answer.AT_RISK


def test_an_answer_does_not_flap_where_an_end_moves_a_little() -> None:
    answer, changes = Answer.ON_TIME, 0
    for step in range(40):  # the high end of the band goes to and fro over the deadline by two minutes
        now = told(end=end(-9 + (2 if step % 2 else -2)), before=answer).answer
        changes += now is not answer
        answer = now
    assert changes == 0
    assert told(end=end(-4), before=answer).answer is Answer.AT_RISK, "more than 5 % of the time left"
    assert told(end=end(-10), before=Answer.AT_RISK).answer is Answer.AT_RISK
    assert told(end=end(-13), before=Answer.AT_RISK).answer is Answer.ON_TIME
    assert told(end=end(10), before=Answer.AT_RISK).answer is Answer.AT_RISK
    assert told(end=end(8), before=Answer.CANNOT).answer is Answer.CANNOT
    assert told(end=end(4), before=Answer.CANNOT).answer is Answer.AT_RISK
    assert told(end=end(-8.5), before=Answer.MEASURED_FIRST).answer is Answer.AT_RISK, (
        "a first answer has no slack"
    )


def test_after_the_last_deadline_it_is_missed() -> None:
    found = answer_of(SOFT, NOW_S, NOW_S + 1.5 * 3600 + 1, end=None, is_known=False)
    assert found is not None
    assert found.answer is Answer.MISSED
    assert found.text(NOW_S) == "missed, runs as best effort"
