"""Reports leave a history of metrics: a point for each that was measured anew."""

from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.reports import MeasuredAt, Progress, Report
from coadapt.executor.protocol.job_events import JobFinished, Reported
from coadapt.scheduler.observers.metrics_hook import MetricsHook
from coadapt.scheduler.store.metrics import MetricsHistory

from tests.support.api import service_of
from tests.support.cycles import RUNS, World

REPORT = Report(1, "t4", 1, 2, (), 1.0, 50.0, 64, 32, 0, 0.1, 1.5, Progress(2, 10, 0.2, 9, 640, 500.0))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "1x t4:4")


def reported(world: World, metrics: dict[str, float], at: dict[str, MeasuredAt] | None = None) -> None:
    world.clock.forward(30.0)
    world.cycle.on_event("a-1", Reported(replace(REPORT, metrics=metrics, measured_at=at), None))


def test_each_value_that_is_measured_anew_is_a_point(world: World) -> None:
    history = MetricsHistory(world.store)
    world.cycle._hooks._hooks = (*world.cycle._hooks._hooks, MetricsHook(history))
    world.play(RUNS)
    began_s = world.clock.steady_s()
    test = MeasuredAt(1, 640)
    reported(world, {"loss": 0.5, "test": 0.9}, {"loss": MeasuredAt(1, 640), "test": test})
    reported(world, {"loss": 0.4, "test": 0.9}, {"loss": MeasuredAt(1, 1280), "test": test})
    reported(world, {"loss": float("nan")}, {"loss": MeasuredAt(2, 1920)})
    world.cycle.on_event("a-1", JobFinished({"test": 0.95, "loss": float("nan")}))
    found = history.read("a-1")
    assert [(point.at_s - began_s, point.value, point.samples) for point in found["loss"]][:3] == [
        (30.0, 0.5, 640),
        (60.0, 0.4, 1280),
        (90.0, None, 1920),
    ]
    assert [point.value for point in found["test"]] == [0.9, 0.95]
    service = service_of(world)
    told = service.metrics("a-1")
    assert (told["id"], told["metrics"]["test"][0]["value"]) == ("a-1", 0.9)
    with pytest.raises(KeyError, match="no job b-9"):
        service.metrics("b-9")
