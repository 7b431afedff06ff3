"""What `/metrics` tells Prometheus: the scheduler's figures, and how this process serves requests.

No label is anything that a user has typed. So the number of series has a bound, however many jobs there are.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client import generate_latest as text_of
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ..core.figures import Figures
from ..core.figures import Histogram as Durations
from .metric_table import TABLE, Told
from .scheduler import Scheduler

log = logging.getLogger(__name__)

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FRESH_S = 1.0  # figures are asked for no more often than that, whoever asks
REQUEST_S = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
OTHER = "other"  # a path that is no route, or a method that HTTP does not name
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class ApiMetrics:
    """The metrics of one app, in a registry of their own.

    Args:
        streams: returns how many event streams are open.
    """

    def __init__(self, scheduler: Scheduler, streams: Callable[[], int]) -> None:
        disable_created_metrics()  # else each counter is told with one more series
        self._scheduler = scheduler
        self._figures = _FiguresCollector()
        self._asked_s: float | None = None
        self._asking = asyncio.Lock()
        self.registry = CollectorRegistry()
        self.registry.register(self._figures)
        ProcessCollector(namespace="coadapt_api", registry=self.registry)
        Gauge("coadapt_api_event_streams", "Event streams that are open.", registry=self.registry).set_function(
            streams
        )
        self._requests = Histogram(
            "coadapt_api_request_duration_seconds",
            "Time to an answer.",
            ("method", "route", "status"),
            registry=self.registry,
            buckets=REQUEST_S,
        )

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count an answer. `route`: the path with names in place of values; None: there is no such route."""
        told = method if method in METHODS else OTHER
        self._requests.labels(told, route or OTHER, f"{status // 100}xx").observe(seconds)

    async def text(self) -> bytes:
        """Return all metrics as Prometheus reads them. Those of a scheduler that does not answer are absent."""
        async with self._asking:
            if self._asked_s is None or time.monotonic() - self._asked_s >= FRESH_S:
                await self._ask()
                self._asked_s = time.monotonic()
        return text_of(self.registry)

    async def _ask(self) -> None:
        try:
            self._figures.newest = await self._scheduler.call("figures")
        except Exception as error:
            log.warning("the scheduler told no figures: %s", error)
            self._figures.newest = None


class _FiguresCollector(Collector):
    """Tells the newest figures of the scheduler."""

    def __init__(self) -> None:
        self.newest: Figures | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of the table, without a value where none is known."""
        up = GaugeMetricFamily("coadapt_scheduler_up", "1 if the scheduler answers, else 0.")
        up.add_metric((), self.newest is not None)
        yield up
        info = GaugeMetricFamily(
            "coadapt_build_info", "Versions, and the policy that plans.", labels=("version", "ray", "policy")
        )
        if (found := self.newest) is not None:
            info.add_metric((found["version"], found["ray"], found["policy"]), 1)
        yield info
        for told in TABLE:
            yield _histogram(told, found) if told.bounds else _plain(told, found)


def _plain(told: Told, figures: Figures | None) -> Metric:
    kind = CounterMetricFamily if told.counts else GaugeMetricFamily
    family = kind(told.name, told.meaning, labels=told.labels)
    for labels, value in () if figures is None else told.samples(figures):
        family.add_metric(labels, value)
    return family


def _histogram(told: Told, figures: Figures | None) -> Metric:
    family = HistogramMetricFamily(told.name, told.meaning)
    if figures is not None:
        durations: Durations = told.value(figures)
        bounds = [*(f"{bound:g}" for bound in told.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(durations["counts"]), strict=True))
        family.add_metric((), buckets, durations["sum_s"])
    return family
