"""Services run beside live rounds: jobs are foretold at their submission, and that survives a restart."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from coadapt.core.expected import ExpectedSource
from coadapt.core.job import JobSpec, Phase
from coadapt.estimators import boosted, learned_file
from coadapt.estimators.durations.model import LEAST_JOBS, Kind
from coadapt.estimators.foretold import Foretold
from coadapt.estimators.job_history import EndedJob, SubmittedJob
from coadapt.scheduler.services.catalogue import make_service
from coadapt.scheduler.services.contract import NodeKind
from coadapt.scheduler.services.counting import counts_of
from coadapt.scheduler.services.durations import DurationOptions, Durations
from coadapt.scheduler.services.team_load import TeamLoadService
from coadapt.scheduler.store.intervals import UsageInterval
from coadapt.scheduler.views.explaining import told_of_its_length
from coadapt.scheduler.views.job_views import job_details

from tests.support.bad_team_load import model
from tests.support.cycles import World

FIRST_RUN = """
submit a unprofiled same=s
wish a t4-000:2
go
runs a
after 97
finish a
left a
go
"""


def world_of(folder: Path, **services: dict[str, object]) -> World:
    return World(folder, "2x t4:4", services=services)


def basis(world: World, name: str) -> str:
    foretold = world.job(name).foretold
    assert foretold is not None
    return foretold.basis


def test_a_job_is_foretold_by_jobs_that_ended_before_it_was_submitted(tmp_path: Path) -> None:
    world = world_of(tmp_path, durations={})
    world.play(FIRST_RUN)
    assert basis(world, "a") == "a guess, as no earlier job has ended"
    world.play("submit b unprofiled\ngo")
    assert basis(world, "b") == "1 earlier job of its owner and size"
    (view,) = [view for view in world.policy.rounds[-1].jobs if view.id == world.ids["b"]]
    assert view.expected.source is ExpectedSource.HISTORY
    told = job_details(world.job("b"), [])["foretold"]
    assert told is not None
    assert told.endswith("by 1 earlier job of its owner and size")


def test_a_forecast_stays_as_it_was_told_also_after_a_restart(tmp_path: Path) -> None:
    world = world_of(tmp_path, durations={})
    world.play("submit b unprofiled\ngo")
    before = world.job("b").foretold
    world.play(FIRST_RUN + "reopen\ngo")
    assert world.job("b").foretold == before
    world.play("submit c unprofiled\ngo")
    assert basis(world, "c") == "1 earlier job of its owner and size", "the store tells what had ended"


def test_a_service_that_raises_is_told_once_and_keeps_nothing_from_going_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Durations, job: SubmittedJob) -> Foretold:
        raise RuntimeError("no forecast today")

    monkeypatch.setattr(Durations, "foretell", fails)
    world = world_of(tmp_path, durations={})
    world.play(
        "submit b unprofiled\nwish b t4-000:2\ngo\nruns b\nsubmit c unprofiled\ngo\nsubmit d unprofiled\ngo"
    )
    assert world.job("b").group
    (event,) = world.store.cluster_events()
    assert "no forecast today" in event.data["text"]


def test_a_job_that_ends_without_gpus_teaches_nothing(tmp_path: Path) -> None:
    world = world_of(tmp_path, durations={})
    world.play("submit a unprofiled\ngo\ncancel a\ngo\nsubmit b unprofiled\ngo")
    assert basis(world, "b") == "a guess, as no earlier job has ended"


def test_without_services_nothing_is_foretold(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.play("submit b unprofiled\ngo")
    assert world.job("b").foretold is None
    assert job_details(world.job("b"), [])["foretold"] is None


def write_model(folder: Path) -> Path:
    """Write the file of a model that was fitted to jobs of an hour."""
    service = make_service("durations", {})
    for n in range(LEAST_JOBS):
        service.observe(EndedJob(SubmittedJob(f"j{n}", "u", "", "", 1, 1.0, float(n)), n + 3600.0, 3600.0))
    service.take(service.fitting(1e4)())
    document = service.document()
    assert document is not None
    path = folder / "learned" / "durations.json"
    learned_file.write(path, "durations", document, 1e4)
    return path


def test_a_model_comes_from_its_file_and_a_torn_one_is_told_and_fitted_anew(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    world = world_of(tmp_path, durations={})
    assert world.store.cluster_events() == []
    world.store.close()
    path.write_text(path.read_text()[:-100])
    world = world_of(tmp_path, durations={})
    (event,) = world.store.cluster_events()
    assert "durations.json: is torn" in event.data["text"]
    assert event.data["text"].endswith("it is fitted anew")
    world.play("submit b unprofiled\ngo")
    assert basis(world, "b") == "a guess, as no earlier job has ended"


def ended_in_the_past(world: World, n: int, now: float, labels: dict[str, str] | None = None) -> None:
    """Enter a job that trained for ten minutes into the store."""
    spec = JobSpec(name=f"old{n}", script="train.py", labels=labels or {})
    job, _ = world.store.submit(spec, now - 700.0, idempotency_key=f"old{n}", owner="ann")
    world.store.hold(UsageInterval(job.id, now - 600.0, None, "t4", 1, 1))
    state = replace(job.state, phase=Phase.CANCELLED, started_s=now - 600.0, finished_s=now)
    world.store.save(replace(job, state=state, retired=True), now=now)


def test_a_fit_runs_beside_rounds_and_its_model_is_kept(tmp_path: Path) -> None:
    world = world_of(tmp_path, durations={"refit_h": 1})
    begun_s = world.clock.steady_s()
    for n in range(LEAST_JOBS):
        ended_in_the_past(world, n, begun_s)
    world.play("reopen\ngo\nafter 3700\ngo")
    world.cycle.foresight.wait(30.0)
    world.play("after 60\ngo")
    world.cycle.foresight.wait(30.0)
    document, _ = learned_file.read(tmp_path / "learned" / "durations.json", "durations")
    assert document["form"] == "ours"


def test_what_the_store_tells_of_starts_and_experiments_outlives_a_restart(tmp_path: Path) -> None:
    world = world_of(tmp_path, team_load={})
    begun_s = world.clock.steady_s()
    for n in range(3):
        ended_in_the_past(world, n, begun_s, {"experiment": "ablation"})
    ended_in_the_past(world, 3, begun_s)
    (first, *_, last) = world.store.ended_jobs(10)
    assert (first.tag, first.started_s) == ("ablation", begun_s - 600.0)
    assert (last.tag, last.started_s) == ("", begun_s - 600.0)
    world.play("reopen\ngo")
    spec = JobSpec(name="other", script="train.py", labels={"experiment": "ablation"})
    job, _ = world.store.submit(spec, world.clock.steady_s(), idempotency_key="new", owner="bob")
    world.play("go")
    found = world.store.find(job.id)
    assert found is not None
    assert found.foretold is not None
    assert found.foretold.basis == "3 earlier jobs of its experiment"
    service = world.cycle.foresight._host.services["team_load"]
    assert isinstance(service, TeamLoadService)
    past = service.pasts()[""]
    assert past.began_s.tolist() == [begun_s - 600.0] * 4


def test_without_lightgbm_jobs_of_teams_are_expected_to_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned_file.write(tmp_path / "learned" / "team_load.json", "team_load", model(), 0.0)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    boosted._library.cache_clear()
    world = world_of(tmp_path, team_load={"windows_s": [300.0, 3600.0, 43200.0]})
    (event,) = world.store.cluster_events()
    assert event.data["text"].startswith("trees: LightGBM cannot be loaded: ")
    world.play("submit b unprofiled\ngo")
    foresight = world.cycle.foresight.of_teams(world.clock.steady_s())
    assert foresight is not None
    assert foresight.new_load("", 300.0) == 1, "as many as of late"
    assert foresight.new_load("guests", 300.0) == math.inf


def test_the_log_tells_which_forecasts_are_not_gone_by_and_when_they_are_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, team_load={})
    service = world.cycle.foresight._host.services["team_load"]
    doubts = {"vision/300": "team vision: jobs were not foretold"}
    for told in ({}, doubts, doubts, {}, {}):
        monkeypatch.setattr(service, "distrusted", lambda told=told: told)
        world.cycle.foresight.of_teams(world.clock.steady_s())
    assert [event.data["text"] for event in world.store.cluster_events()] == [
        "team vision: jobs were not foretold",
        "team vision: its forecast counts again",
    ]


def test_nodes_are_counted_by_kind_awake_or_not(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.play("submit a unprofiled\nwish a t4-000:2\ngo")
    done = world.cycle.last_round
    assert done is not None
    counts = counts_of(done.round.now, done.round, done.plan)
    kind = NodeKind("", "t4")
    assert (counts.running, counts.total) == ({kind: 1}, {kind: 2})


@pytest.mark.parametrize(
    ("services", "why"),
    [
        ({"duratoins": {}}, "service: 'duratoins' is unknown; accepted: arrivals, durations, energy"),
        (
            {"durations": {"lambda": 2}},
            "service durations: lambda: 2 is not accepted, must be a number from 0 to 1",
        ),
        ({"durations": {"gamma": 2}}, "service durations: option 'gamma' is unknown"),
    ],
)
def test_a_service_that_cannot_be_keeps_the_scheduler_from_starting(
    services: dict[str, dict[str, object]], why: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=why):
        world_of(tmp_path, **services)


def test_the_sum_of_a_forecast_stays_with_its_job_and_explain_tells_it(tmp_path: Path) -> None:
    """Two hundred jobs teach the service, and the next one is foretold by a sum."""
    random = np.random.default_rng(0)
    service = Durations(DurationOptions(model=Kind.ADDITIVE))
    for n in range(LEAST_JOBS):
        job = SubmittedJob(f"j{n}", "ann", "train", "", 1 + n % 4, 8.0, 0.0)
        service.observe(EndedJob(job, 100.0 + n, 600.0 * float(np.exp(0.3 * random.standard_normal()))))
    service.take(service.fitting(1000.0)())
    learned_file.write(tmp_path / "learned" / "durations.json", "durations", service.document() or {}, 1000.0)
    world = world_of(tmp_path, durations={"model": "additive"})
    world.play("submit a unprofiled\ngo")
    told = world.job("a").foretold
    assert told is not None
    assert " = " in told.sum
    assert " jobs like it" in told.sum
    assert told_of_its_length(world.job("a")) == [f"Its length was foretold as {told.sum}, by {told.basis}."]
    world.play("reopen")
    assert world.job("a").foretold == told
    assert told_of_its_length(replace(world.job("a"), foretold=replace(told, sum=""))) == []
