"""The history of metrics: bounded, evenly thinned, finite or null, and going on after a restart."""

import math
from pathlib import Path

import pytest
from coadapt.core.job import JobSpec
from coadapt.scheduler.store.metrics import MOST_METRICS, MOST_POINTS, MetricsHistory, Point, stride
from coadapt.scheduler.store.store import Store

from tests.support.stores import raw

SPEC = JobSpec(name="a", script="train.py")


@pytest.fixture
def job(store: Store) -> str:
    return store.submit(SPEC, 0.0, idempotency_key="1")[0].id


@pytest.mark.parametrize("number", [0, 999, 1000, 1999, 2000, 5000, 123_456])
def test_never_more_points_are_kept_than_fit(number: int) -> None:
    assert number // stride(number) + 1 <= MOST_POINTS
    assert number < MOST_POINTS or number // stride(number) + 1 > MOST_POINTS / 2


def test_points_come_back_as_they_were(store: Store, job: str) -> None:
    history = MetricsHistory(store)
    history.add(job, {"loss": Point(1.0, 0.5, epoch=1, samples=640), "accuracy": Point(1.0, 0.25)})
    history.add(job, {"loss": Point(2.0, math.nan, epoch=1, samples=1280)})
    history.add(job, {"loss": Point(3.0, math.inf)})
    assert history.read(job) == {
        "accuracy": [Point(1.0, 0.25)],
        "loss": [Point(1.0, 0.5, 1, 640), Point(2.0, None, 1, 1280), Point(3.0, None)],
    }
    assert history.read("other-9") == {}


def test_long_histories_are_thinned_evenly(where: Path | str) -> None:
    store = Store(where)
    job = store.submit(SPEC, 0.0, idempotency_key="1")[0].id
    history = MetricsHistory(store)
    with store.together():
        for at in range(MOST_POINTS + 300):
            history.add(job, {"loss": Point(float(at), float(at))})
    points = history.read(job)["loss"]
    assert [point.at_s for point in points] == [float(at) for at in range(0, MOST_POINTS + 300, 2)]
    assert raw(where, "select count(*) from metric_points") == [(len(points),)]
    store.close()
    store = Store(where)
    history = MetricsHistory(store)
    for at in (2000.0, 2001.0, 2002.0):
        history.add(job, {"loss": Point(at, at)})
    assert len(history.read(job)["loss"]) == len(points) + 1
    store.close()


def test_a_metric_that_is_seldom_measured_keeps_its_points_beside_one_that_is_often(
    store: Store, job: str
) -> None:
    history = MetricsHistory(store)
    with store.together():
        for at in range(MOST_POINTS + 10):
            history.add(job, {"loss": Point(float(at), 0.0)} | ({"test": Point(at, 1.0)} if at % 100 == 0 else {}))
    assert len(history.read(job)["test"]) == 11


def test_of_too_many_metrics_the_first_ones_have_a_history(store: Store, job: str) -> None:
    history = MetricsHistory(store)
    history.add(job, {f"m{at:03}": Point(0.0, 1.0) for at in range(MOST_METRICS + 50)})
    assert len(history.read(job)) == MOST_METRICS
    history.forget(job)
    history.add(job, {"another": Point(1.0, 1.0)})
    assert len(history.read(job)) == MOST_METRICS
