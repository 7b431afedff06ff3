"""Jobs of each round are foretold beside it. What goes wrong there harms nothing, is told, and heals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.job import JobSpec, Phase
from coadapt.core.job_relations import AfterJobs
from coadapt.forecasts.answers import Forecast, JobForecast, Span
from coadapt.forecasts.questions import Question
from coadapt.forecasts.state import STATE, Part
from coadapt.scheduler.forecasts.forecaster import Budget, Forecaster
from coadapt.scheduler.forecasts.live_state import live_state, measuring_s
from coadapt.scheduler.forecasts.past_jobs import MOST, PastJobs, newest
from coadapt.scheduler.forecasts.process import ForecastProcess, ProcessLost
from coadapt.scheduler.forecasts.shown import settled

from tests.support.cycles import World
from tests.support.live_states import live, past, state

RUNS = """
submit a unprofiled rigid=2
submit b unprofiled rigid=4
wish a t4-000:2
go
? sent assign a 2xt4
runs a
? a running
go
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "1x t4:4", policy="fifo")


@pytest.fixture
def forecaster(world: World) -> Iterator[Forecaster]:
    found = Forecaster(world.store, world.settings, world.clock)
    yield found
    found.stop()


def test_a_round_becomes_a_state_with_every_job(world: World) -> None:
    world.play(RUNS)
    done = world.cycle.last_round
    assert done is not None
    records = {job.id: job for job in world.store.unretired.values()}
    found = live_state(done, records, world.settings, 60.0)
    jobs = {job.id: job for job in found.jobs}
    running, waiting = jobs[world.ids["a"]], jobs[world.ids["b"]]
    assert running.part is Part.JOB
    assert running.placement is not None
    assert running.placement.gpus == 2
    assert waiting.placement is None
    assert waiting.spec.resources.gpus == 4
    assert found.policy == "fifo"


def test_jobs_that_are_measured_take_part_later(world: World) -> None:
    world.play("submit a types=t4\ngo\n? a profiling")
    done = world.cycle.last_round
    assert done is not None
    records = {job.id: job for job in world.store.unretired.values()}
    found = live_state(done, records, world.settings, 45.0)
    parts = {job.id: job for job in found.jobs}
    measured = parts[world.ids["a"]]
    assert measured.ready_s > found.now_s
    assert any(job.part is Part.PROFILE for job in found.jobs)


def test_jobs_that_are_held_or_wait_for_others_are_not_foretold(world: World) -> None:
    world.play("submit a unprofiled rigid=2\nsubmit b types=t4\nsubmit c types=t4\nwish a t4-000:2\ngo")
    done = world.cycle.last_round
    assert done is not None
    b, c = world.store.get(world.ids["b"]), world.store.get(world.ids["c"])
    assert b.phase is Phase.PROFILING
    after = c.spec.model_copy(update={"after": AfterJobs(ok=[world.ids["a"]])})
    submitted = replace(c.state, phase=Phase.SUBMITTED)
    records = {job.id: job for job in world.store.unretired.values()} | {
        b.id: replace(b, on_hold=True),
        c.id: replace(c, spec=after, state=submitted),
    }
    apart = replace(done, round=replace(done.round, jobs=[]))
    assert [job.id for job in live_state(apart, records, world.settings, 45.0).jobs] == []
    ended = {name: job for name, job in records.items() if name != world.ids["a"]}
    assert [job.id for job in live_state(apart, ended, world.settings, 45.0).jobs] == [c.id]


def test_a_job_that_waits_for_its_next_try_is_foretold_from_then_on(world: World) -> None:
    world.play("submit a types=t4\ngo")
    done = world.cycle.last_round
    assert done is not None
    job = world.store.get(world.ids["a"])
    waits = replace(job, state=replace(job.state, phase=Phase.SUBMITTED), not_before_s=done.round.now + 600.0)
    apart = replace(done, round=replace(done.round, jobs=[]))
    (found,) = live_state(apart, {job.id: waits}, world.settings, 45.0).jobs
    assert found.ready_s == done.round.now + 645.0


def test_only_the_newest_jobs_of_the_past_are_kept() -> None:
    jobs = past(MOST + 50)
    kept = newest({one.id: one for one in reversed(jobs)})
    assert list(kept.values()) == sorted(jobs, key=lambda one: one.submitted_s)[50:]


def test_every_view_of_a_round_goes_over_as_json(world: World) -> None:
    spec = JobSpec.model_validate(
        {
            "name": "adapts",
            "script": "train.py",
            "resources": {"max_gpus": 4},
            "training": {"initial_batch_size": 32, "max_batch_size": 256},
            "env": {"KEY": "value"},
        }
    )
    world.ids["adapts"] = world.cycle.orders.submit(spec, idempotency_key="adapts").id
    world.play("go\n? adapts profiling")
    done = world.cycle.last_round
    assert done is not None
    records = {job.id: job for job in world.store.unretired.values()}
    found = live_state(done, records, world.settings, 60.0)
    assert {job.part for job in found.jobs} == {Part.JOB, Part.PROFILE}
    again = STATE.validate_json(STATE.dump_json(found))
    assert again.jobs == found.jobs
    assert all(job.spec.env == {} for job in again.jobs)


def test_a_round_is_foretold_by_a_process_of_its_own(world: World, forecaster: Forecaster) -> None:
    world.play(RUNS)
    done = world.cycle.last_round
    assert done is not None
    assert forecaster.prediction(world.ids["a"]) is None
    forecaster.planned(done)
    assert forecaster.wait(120)
    found = forecaster.prediction(world.ids["a"])
    assert found is not None, forecaster.notes()
    # Nothing is known of how long these scripts take, and nothing is made up.
    assert found["end_s"] is None
    assert found["why_no_end"]
    assert found["worlds"] >= 1
    assert forecaster.notes() == []


def test_a_process_that_ends_is_told_and_started_again(world: World) -> None:
    found = Forecaster(
        world.store, world.settings, world.clock, ForecastProcess(module="tests.support.forecaster_that_ends")
    )
    world.play(RUNS)
    done = world.cycle.last_round
    assert done is not None
    try:
        found.planned(done)
        assert found.wait(60)
        (note,) = found.notes()
        assert "the process that forecasts ended with 3; it is started again" in note
        found._process = ForecastProcess()  # as if the fault were mended
        world.clock.forward(30.0)
        found.planned(done)
        assert found.wait(120)
        assert found.notes() == []
    finally:
        found.stop()


def test_a_process_that_hangs_is_ended() -> None:
    process = ForecastProcess(timeout_s=1.0, module="tests.support.forecaster_that_hangs")
    question = Question("forecast", state("1x t4:4", [live("a")]))
    with pytest.raises(ProcessLost, match="did not answer for 1 s"):
        process.ask(question)
    assert not process.runs


def test_the_past_is_sent_once_and_anew_to_a_new_process(world: World) -> None:
    past = PastJobs(world.store)
    world.play(RUNS + "finish a\ngo\n? a succeeded")
    first = past.news(world.all, world.clock.steady_s())
    assert [one.id for one in first] == [world.ids["a"]]
    assert first[0].served_s > 0
    assert past.news(world.all, world.clock.steady_s()) == []
    past.begin_again()
    assert len(past.news(world.all, world.clock.steady_s())) == 1


def test_forecasts_take_no_more_than_their_part_of_a_minute() -> None:
    budget = Budget(20.0)
    assert budget.begins_s(100.0, 10.0) == 100.0
    budget.spent.append((100.0, 12.0))
    budget.spent.append((110.0, 6.0))
    assert budget.begins_s(115.0, 10.0) == 160.0
    assert budget.left_s(161.0) == 14.0
    assert budget.begins_s(161.0, 10.0) == 161.0
    assert budget.begins_s(161.0, 30.0) == 221.0


def test_numbers_stay_while_a_newer_forecast_says_nearly_the_same() -> None:
    first = JobForecast(end=Span(2000.0, 1900.0, 2100.0))

    def new(at_s: float, now_s: float = 1000.0) -> dict[str, JobForecast]:
        told = JobForecast(end=Span(at_s, at_s - 100, at_s + 100))
        return settled({"a": first}, Forecast(now_s, 2, 9, 1.0, {"a": told}))

    assert new(2020.0)["a"].end == first.end
    assert new(2200.0)["a"].end == Span(2200.0, 2100.0, 2300.0)
    assert new(2004.0, now_s=2001.0)["a"].end == Span(2004.0, 1904.0, 2104.0)  # it should have ended by now
    assert settled({"a": first}, Forecast(1000.0, 2, 9, 1.0, {})) == {}


def test_the_time_to_measure_is_what_jobs_took() -> None:
    assert measuring_s([]) == 60.0
