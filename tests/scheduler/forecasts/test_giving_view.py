"""What would have to give for a deadline, in sentences."""

from __future__ import annotations

from dataclasses import replace

from coadapt.core.deadline_answer import Answer, DeadlineAnswer, End
from coadapt.forecasts.answers import Gives, Span
from coadapt.scheduler.forecasts.giving_view import sentences

NOW_S = 10_000.0
TOLD = DeadlineAnswer(Answer.CANNOT, NOW_S + 600, End(NOW_S + 1000, NOW_S + 900, NOW_S + 1100))
GIVES = Gives(NOW_S, Span(NOW_S + 1000, NOW_S + 900, NOW_S + 1100))


def said(gives: Gives, told: DeadlineAnswer = TOLD, own: tuple[str, ...] = ("a-1", "b-2", "c-3")) -> str:
    return " ".join(sentences(gives, told, NOW_S - 120, lambda job: job in own))


def test_fewer_jobs_more_gpus_and_a_later_deadline() -> None:
    found = said(replace(GIVES, without=("a-1", "b-2"), nodes=2, node="t4:4", later_s=NOW_S + 790))
    assert found == (
        "Its deadline would hold without a-1 and b-2 or with 8 more t4 (2x t4:4). "
        "The earliest deadline that holds as things are is in 14 min, 16 min after its submission."
    )
    late = replace(GIVES, alone=False, later_s=NOW_S + 1100)
    assert said(late).startswith("Its deadline would not hold even if no other job were there. The earliest ")
    assert (
        said(GIVES) == "The earliest deadline that holds as things are is in 19 min, 21 min after its submission."
    )


def test_jobs_of_others_are_counted_and_not_named() -> None:
    found = said(replace(GIVES, without=("a-1", "x-7", "y-8")))
    assert found.startswith("Its deadline would hold without a-1 and 2 jobs of others.")
    many = tuple(f"j-{i}" for i in range(6))
    assert "without j-0, j-1, j-2, j-3 and 2 more." in said(replace(GIVES, without=many), own=many)


def test_nothing_gives_for_a_deadline_that_holds() -> None:
    assert said(replace(GIVES, holds=True), replace(TOLD, answer=Answer.ON_TIME)) == ""
    assert said(GIVES, DeadlineAnswer(Answer.MEASURED_FIRST, NOW_S)) == ""
