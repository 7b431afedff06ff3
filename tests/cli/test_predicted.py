"""When jobs start and end, and what would be, as commands say it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from coadapt.cli.predicted import deadline_rows, ends_in, lines, rough, starts_in
from coadapt.cli.whatif import later, team_of, value
from coadapt.core.errors import WhatIfError

NOW = 1_700_000_000.0


def job(**told: Any) -> Any:
    prediction = {
        "start_s": None,
        "start_low_s": None,
        "start_high_s": None,
        "end_s": None,
        "end_low_s": None,
        "end_high_s": None,
        "why_no_start": "",
        "why_no_end": "",
        "predicted_s": NOW - 20,
        "worlds": 25,
    }
    return {"id": "a-1", "predicted": {**prediction, **told}}


def test_an_end_comes_with_its_band() -> None:
    assert ends_in(job(end_s=NOW + 720, end_low_s=NOW + 600, end_high_s=NOW + 900), NOW) == "12m (10m-15m)"
    assert ends_in({"id": "a-1"}, NOW) == ""  # type: ignore[arg-type,typeddict-item]
    assert ends_in(job(why_no_end="nothing is known"), NOW) == ""


def test_a_job_that_waits_says_when_it_starts() -> None:
    waits = job(start_s=NOW + 240, start_low_s=NOW + 200, start_high_s=NOW + 300, why_no_end="nobody knows")
    assert starts_in(waits, NOW) == "in 4m"
    told = dict(lines(waits, NOW))
    assert told["starts"].startswith("in about 4 min: ")
    assert told["ends"] == "nobody knows"
    assert told["predicted"] == "20 s ago, by 25 worlds"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (47, "47s"), (119, "119s"), (725, "12m"), (3 * 3600, "3h"), (2.2 * 86400, "2d")],
)
def test_a_span_has_few_digits(seconds: float, text: str) -> None:
    assert rough(seconds) == text


def test_a_delay_has_its_sign_and_band() -> None:
    assert later(180.0, 60.0, 300.0) == "+3m (+60s to +5m)"
    assert later(-180.0, -300.0, 0.0) == "-3m (-5m to 0s)"
    assert later(0.2, 0.0, 0.4) == "0s"
    assert later(None, None, None) == "-"


def test_value_is_in_units_or_in_hours_of_each_type() -> None:
    assert value({"gpu_hours": {"a100": 2.5}, "units": 5.0}) == "5"
    assert value({"gpu_hours": {"a100": 2.5, "t4": 1.0}, "units": None}) == "2.5 a100 1 t4"


def test_a_team_is_named_with_one_value() -> None:
    assert team_of("", "") == {}
    assert team_of("vision", "cap.a100=32") == {"vision": {"cap.a100": 32.0}}
    with pytest.raises(WhatIfError, match="team: 'cap' is not of the form KEY=VALUE"):
        team_of("vision", "cap")


def test_a_deadline_comes_with_whether_it_will_hold() -> None:
    told = {
        "answer": "on_time",
        "due_s": NOW + 7200,
        "end_s": NOW + 3600,
        "end_low_s": NOW + 3300,
        "end_high_s": NOW + 4140,
        "planned_s": None,
        "known_s": None,
        "worth": 100.0,
        "most": 100.0,
        "cancelled": False,
    }
    due: Any = {"id": "a-1", "due_s": NOW + 7200, "finished_s": None, "deadline": told}
    rows = dict(deadline_rows(due, NOW))
    assert rows["due"].endswith(", in 2 h")
    at = time.strftime("%H:%M", time.localtime(NOW + 3600))
    assert rows["deadline"] == f"on time, expected end {at} ± 9 min"
    assert dict(deadline_rows({**due, "deadline": None}, NOW)).keys() == {"due"}
    assert deadline_rows({**due, "finished_s": NOW}, NOW) == []
    without: Any = {"id": "a-1"}
    assert deadline_rows(without, NOW) == []
