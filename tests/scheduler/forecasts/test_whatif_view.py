"""An answer to what would be is told with values of the right prices."""

from __future__ import annotations

import pytest
from coadapt.forecasts.answers import Forecast, JobForecast, Span, WhatIf
from coadapt.scheduler.forecasts.whatif_view import whatif_view


def test_value_units_of_a_job_in_a_pool_go_by_the_prices_of_that_pool() -> None:
    jobs = {"a-1": JobForecast(gpu_hours={"t4": 2.0}), "b-2": JobForecast(gpu_hours={"t4": 3.0})}
    before = Forecast(100.0, 7, 1, 0.1, jobs)
    after = Forecast(100.0, 7, 1, 0.1, {"a-1": jobs["a-1"]})
    prices = {"t4": 1.0, "t4@lab": 10.0}
    view = whatif_view(WhatIf(before, after), {}, {}, {"b-2": "lab"}, [], prices, [])
    units = {row["id"]: (row["value_before"]["units"], row["value_after"]["units"]) for row in view["jobs"]}
    assert units == {"a-1": (2.0, 2.0), "b-2": (30.0, 0.0)}
    assert view["before"] == {"gpu_hours": {"t4": 2.0, "t4@lab": 3.0}, "units": 32.0}
    assert view["after"] == {"gpu_hours": {"t4": 2.0}, "units": 2.0}


@pytest.mark.parametrize(
    ("later", "text"),
    [
        ({}, "No job is here whose start or end could change."),
        ({"a-1": 0.0}, "No job ends noticeably sooner or later."),
        ({"a-1": 600.0}, "a ends later, by about 10 min."),
        ({"a-1": 600.0, "b-2": 300.0}, "2 jobs end later, a most, by about 10 min."),
        (
            {"a-1": 600.0, "b-2": -300.0, "c-3": -900.0},
            "a ends later, by about 10 min; 2 jobs end sooner, c most, by about 15 min.",
        ),
    ],
)
def test_the_answer_is_one_sentence_that_names_who_is_moved_most(later: dict[str, float], text: str) -> None:
    jobs = {job: JobForecast(end=Span(4000.0, 3900.0, 4100.0)) for job in later}
    moved = {job: Span(by, by, by) for job, by in later.items()}
    made = Forecast(100.0, 7, 1, 0.1, jobs)
    view = whatif_view(WhatIf(made, made, moved), {job: job[0] for job in jobs}, {}, {}, [], {}, [])
    assert view["text"] == text
