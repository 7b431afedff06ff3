"""When jobs start and end, as the live state and the jobs of the last weeks let foresee."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.expected import ExpectedSource
from coadapt.core.rewards import Rewards
from coadapt.forecasts.answers import FORECAST
from coadapt.forecasts.state import PAST, STATE
from coadapt.simulator.live import NOBODY_KNOWS, TooLong, forecast, span

from ..support.live_states import NOW_S, live, past, state
from ..support.rounds import on


def test_a_job_alone_ends_when_its_work_is_done_at_its_speed() -> None:
    rigid = live(
        "a", 600.0, placement=on("t4", n0=1), adaptivity="rigid", resources={"gpus": 1, "gpu_types": ["t4"]}
    )
    found = forecast(state("1x t4:4", [rigid], "fifo")).jobs["a"]
    assert found.start is None
    assert found.end is not None
    assert found.end.at_s - NOW_S == pytest.approx(600, rel=0.02)
    assert found.end.low_s < found.end.at_s < found.end.high_s
    # The band is that of what is expected: 600 s times or over 1.1.
    assert found.end.high_s - NOW_S == pytest.approx(660, rel=0.03)
    assert found.gpu_hours["t4"] == pytest.approx(600 / 3600, rel=0.02)


def test_a_waiting_job_starts_when_the_one_before_it_ends() -> None:
    fixed = {"adaptivity": "rigid", "resources": {"gpus": 4, "gpu_types": ["t4"]}}
    runs = live("a", 600.0, placement=on("t4", n0=4), **fixed)
    waits = live("b", 300.0, **fixed)
    found = forecast(state("1x t4:4", [runs, waits], "fifo")).jobs
    # Both are expected on the four GPUs that they ask for; the model is fast there.
    assert found["a"].end is not None
    assert found["b"].start is not None
    assert found["b"].end is not None
    assert found["b"].start.at_s == pytest.approx(found["a"].end.at_s, abs=2.0)
    assert found["b"].end.at_s > found["b"].start.at_s


def test_a_job_that_is_cancelled_with_its_deadline_makes_room_for_the_next() -> None:
    fixed = {"adaptivity": "rigid", "resources": {"gpus": 4, "gpu_types": ["t4"]}}
    due = {"rewards": Rewards.strict(400.0), "cancelled_s": NOW_S + 300.0}
    waits = live("b", 300.0, **fixed)
    for more, starts_s in ((due, 400.0), ({}, 6000.0)):
        runs = live("a", 60_000.0, placement=on("t4", n0=4), **fixed, **more)
        found = forecast(state("1x t4:4", [runs, waits], "fifo", interval_s=30.0)).jobs
        assert found["b"].start is not None
        assert (found["b"].start.at_s - NOW_S < starts_s) == bool(more)


def test_a_job_of_which_nothing_is_known_has_no_made_up_end() -> None:
    runs = live("a", None, placement=on("t4", n0=4))
    found = forecast(state("1x t4:4", [runs])).jobs["a"]
    assert found.end is None
    assert found.why_no_end == NOBODY_KNOWS
    # Neither with jobs of the past that say what such jobs take.
    found = forecast(state("1x t4:4", [runs]), past(20)).jobs["a"]
    assert found.end is None
    assert found.why_no_end == NOBODY_KNOWS


def test_the_pace_that_was_seen_counts_more_than_the_model() -> None:
    fixed = {"adaptivity": "rigid", "resources": {"gpus": 1, "gpu_types": ["t4"]}}
    slow = live("a", 600.0, placement=on("t4", n0=1), pace=5.0, **fixed)
    found = forecast(state("1x t4:4", [slow], "fifo")).jobs["a"]
    assert found.end is not None
    assert found.end.at_s - NOW_S == pytest.approx(1200, rel=0.03)


def test_jobs_that_will_come_delay_those_that_wait() -> None:
    fixed = {"adaptivity": "rigid", "resources": {"gpus": 2, "gpu_types": ["t4"]}}
    jobs = [live(f"j{i}", 1800.0, **fixed) for i in range(4)]
    alone = forecast(state("1x t4:2", jobs, "srtf"))
    crowd = past(200, seconds=400.0, every_s=900.0)
    crowded = forecast(state("1x t4:2", jobs, "srtf"), crowd)
    last, later = alone.jobs["j3"].end, crowded.jobs["j3"].end
    assert last is not None
    assert later is not None
    assert later.at_s > last.at_s + 60


def test_the_same_state_a_moment_later_gives_nearly_the_same_numbers() -> None:
    jobs = [live(f"j{i}", 900.0 + 60 * i, resources={"gpu_types": ["t4"]}) for i in range(6)]
    first = forecast(state("1x t4:4", jobs), past(50), most_worlds=9)
    second = forecast(replace(state("1x t4:4", jobs), now_s=NOW_S + 1), past(50), most_worlds=9)
    for name, one in first.jobs.items():
        other = second.jobs[name]
        assert one.end is not None
        assert other.end is not None
        assert abs(one.end.at_s - other.end.at_s) < 0.1 * (one.end.at_s - NOW_S)


def test_a_band_comes_from_earlier_runs_where_these_tell() -> None:
    job = live("a", 600.0, placement=on("t4", n0=1), adaptivity="rigid", resources={"gpus": 1})
    doubtful = replace(job, low_s=300.0, high_s=1800.0, source=ExpectedSource.EARLIER_RUNS, remaining=None)
    found = forecast(state("1x t4:1", [doubtful], "fifo")).jobs["a"].end
    assert found is not None
    assert found.low_s - NOW_S == pytest.approx(300, rel=0.25)
    assert found.high_s - NOW_S == pytest.approx(1800, rel=0.25)


def test_state_and_answer_go_over_as_json() -> None:
    there = state("1x t4:4", [live("a", 600.0, placement=on("t4", n0=2)), live("b", None)])
    again = STATE.validate_json(STATE.dump_json(there))
    assert STATE.dump_json(again) == STATE.dump_json(there)
    crowd = tuple(past(3))
    assert PAST.dump_json(PAST.validate_json(PAST.dump_json(crowd))) == PAST.dump_json(crowd)
    found, same = forecast(there), forecast(again)
    assert same.jobs == found.jobs
    assert FORECAST.validate_json(FORECAST.dump_json(found)) == found


def test_a_forecast_that_would_take_too_long_says_so() -> None:
    jobs = [live(f"j{i}", 90_000.0) for i in range(40)]
    with pytest.raises(TooLong, match="one look ahead takes more than"):
        forecast(state("1x t4:4", jobs), past(300), cpu_s=0.001)


def test_a_job_that_nothing_here_can_run_never_starts() -> None:
    job = live("a", 600.0, adaptivity="rigid", resources={"gpus": 8, "max_gpus": 8, "gpu_types": ["t4"]})
    found = forecast(state("1x t4:4", [job], "fifo")).jobs["a"]
    assert found.start is None
    assert found.why_no_start
    assert found.end is None


def test_a_span_needs_most_worlds() -> None:
    assert span([1.0, float("inf"), float("inf")]) is None
    found = span([3.0, 1.0, 2.0, float("inf")])
    assert found is not None
    assert found.at_s == 2.0


def test_worlds_know_of_deadlines_as_the_policy_does() -> None:
    fixed = {"adaptivity": "rigid", "resources": {"gpus": 1, "gpu_types": ["t4"]}}
    others = [live(f"o{i}", 600.0, **fixed) for i in range(3)]
    waits = live("due", 900.0, **fixed)
    without = forecast(state("1x t4:1", [*others, waits], "unisched"), most_worlds=3).jobs["due"].end
    due = replace(waits, rewards=Rewards.strict(NOW_S - waits.submitted_s + 1500.0))
    found = forecast(state("1x t4:1", [*others, due], "unisched"), most_worlds=3).jobs["due"].end
    assert without is not None
    assert found is not None
    assert found.at_s <= NOW_S + 1500.0 < without.at_s
