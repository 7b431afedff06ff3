"""What `submit`, `submit --check` and `explain` say of deadlines."""

from __future__ import annotations

from typing import Any

from coadapt.cli.deadline_answers import answers, what_would_give
from coadapt.cli.submit_check import lines
from coadapt.client.http_api import RequestError

NOW = 1_700_000_000.0
GIVES = ["Its deadline would hold without a-1.", "The earliest deadline that holds as things are is in 2 h."]


def told(answer: str = "on_time") -> dict[str, Any]:
    return {
        "answer": answer,
        "due_s": NOW + 7200,
        "end_s": None,
        "end_low_s": None,
        "end_high_s": None,
        "planned_s": None,
        "known_s": None,
        "worth": 100.0,
        "most": 100.0,
        "cancelled": False,
    }


class Service:
    """A client that answers as a service does; `after`: looks at jobs until it knows."""

    def __init__(self, answer: str, after: int = 0, error: Exception | None = None) -> None:
        self.answer, self.after, self.error, self.looks = answer, after, error, 0

    def jobs(self, ids: list[str]) -> list[dict[str, Any]]:
        self.looks += 1
        return [{"id": job, "deadline": told(self.answer) if self.looks > self.after else None} for job in ids]

    def deadline(self, job: str) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return told(self.answer) | {"gives": GIVES}


def test_submit_waits_a_moment_for_the_answer_and_no_longer() -> None:
    service: Any = Service("on_time", after=2)
    assert answers(service, ["a-1"], wait_s=30.0) == {"a-1": "deadline: on time"}
    assert service.looks == 3
    slow: Any = Service("on_time", after=10**9)
    later = answers(slow, ["a-1"], wait_s=0.0)
    assert later == {"a-1": "deadline: it is not foretold yet; `coadapt explain a-1` tells whether it holds"}
    none: Any = Service("on_time")
    assert answers(none, []) == {}
    assert none.looks == 0, "jobs without a deadline are not asked about"


def test_explain_says_what_would_have_to_give_only_where_a_deadline_may_not_hold() -> None:
    doubtful: Any = Service("at_risk")
    assert what_would_give(doubtful, "a-1") == GIVES
    sure: Any = Service("on_time", error=AssertionError("nobody has to be asked"))
    assert what_would_give(sure, "a-1") == []
    away: Any = Service("at_risk", error=RequestError("whatif: ask again"))
    assert what_would_give(away, "a-1") == [
        "What would have to give for its deadline to hold is not known: whatif: ask again"
    ]


def test_a_check_tells_the_answer_and_what_would_have_to_give() -> None:
    view: Any = {"job": "job.yaml", "refused": [], "door": None, "cluster": True, "sizes": {}, "notes": []}
    found = list(lines({**view, "deadline": told("cannot_be_met") | {"gives": GIVES}}, "", NOW))
    assert found == [
        "job.yaml: would be submitted",
        "  deadline: cannot be met, runs as best effort",
        *(f"  {line}" for line in GIVES),
    ]
    assert list(lines(view, "", NOW)) == ["job.yaml: would be submitted"]
