"""Hosts services: hands them facts in order of time, asks for their advice, and has their models fitted.

The live service and the simulator differ only in who fits: a thread beside rounds, or at once in virtual time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, ClassVar, Protocol

from ...estimators.foretold import Foretold
from ...estimators.job_history import EndedJob, StartedJob, SubmittedJob
from ...policies.contract.arrivals import Arrivals
from ...policies.contract.foresight import Foresight
from ...policies.contract.round import Plan, Round
from .contract import Advice, Fact, NodeCounts, Service


class Fitter(Protocol):
    """Fits models of services, at once or beside others.

    at_once: a fit has ended when it has begun. So fits are in order with facts, and else they wait for the newest.
    """

    @property
    def at_once(self) -> bool: ...

    def idle(self) -> bool:
        """Return whether a CPU has nothing to do."""

    def begin(self, name: str, fit: Callable[[], Any]) -> None:
        """Begin a fit for a service; nothing happens while one for it is under way."""

    def ended(self) -> Sequence[tuple[str, Any]]:
        """Return (service, model) of fits that have ended since the last call. A fit that failed is left out."""


class FitAtOnce:
    """Fits in virtual time: a fit has ended when it has begun."""

    at_once: ClassVar[bool] = True

    def __init__(self) -> None:
        self._ended: list[tuple[str, Any]] = []

    def idle(self) -> bool:
        return False  # so that simulated fits come at the times that options name

    def begin(self, name: str, fit: Callable[[], Any]) -> None:
        """Fit now."""
        self._ended.append((name, fit()))

    def ended(self) -> Sequence[tuple[str, Any]]:
        """Return what was fitted since the last call."""
        found, self._ended = self._ended, []
        return found


@dataclass(order=True)
class _Coming:
    """A fact that services have not seen. Of one moment, submissions come first, as ends then do not count."""

    at_s: float
    kind: int  # 0: a job was submitted; 1: it got GPUs; 2: it has ended; 3: nodes were counted
    number: int
    fact: Fact = field(compare=False)


class ServiceHost:
    """Runs services over one history, in order of time. All times are seconds since 1970.

    Facts may be told early or in any order. `advance` hands them on as soon as nothing earlier can come.
    """

    def __init__(self, services: Mapping[str, Service], fitter: Fitter) -> None:
        self._services, self._fitter = dict(services), fitter
        self._coming: list[_Coming] = []
        self._ended_s = -math.inf  # of the last end that was handed on
        self._asked: set[str] = set()  # jobs that are to be foretold
        self._taken: set[str] = set()  # services with a new model
        self._number = count()

    def __bool__(self) -> bool:
        return bool(self._services)

    @property
    def services(self) -> Mapping[str, Service]:
        """Return the services by name."""
        return dict(self._services)

    def submitted(self, job: SubmittedJob, *, asked: bool = True) -> None:
        """Take note of a job; `advance` foretells it if that is asked.

        A job that is told of too late, as jobs have ended since, counts as submitted when the last of them ended.
        """
        if job.submitted_s < self._ended_s:
            job = replace(job, submitted_s=self._ended_s)
        self._tell(job.submitted_s, 0, job)
        if asked and self._services:
            self._asked.add(job.id)

    def started(self, job: StartedJob) -> None:
        """Take note of the first GPUs of a job."""
        self._tell(job.started_s, 1, job)

    def ended(self, job: EndedJob) -> None:
        """Take note of the end of a job."""
        self._tell(job.ended_s, 2, job)

    def forget(self, job_id: str) -> None:
        """Let services drop a job that ended without ever having GPUs."""
        for service in self._services.values():
            service.forget(job_id)

    def counted(self, counts: NodeCounts) -> None:
        """Take note of how many nodes have jobs."""
        self._tell(counts.at_s, 3, counts)

    def _tell(self, at_s: float, kind: int, fact: Fact) -> None:
        if self._services:
            heapq.heappush(self._coming, _Coming(at_s, kind, next(self._number), fact))

    def advance(self, now: float) -> dict[str, Foretold]:
        """Hand on all facts up to `now`. Return, by job id, how long jobs take that were submitted meanwhile."""
        found: dict[str, Foretold] = {}
        while self._coming and self._coming[0].at_s <= now:
            coming = heapq.heappop(self._coming)
            if self._fitter.at_once:
                self._fit(coming.at_s)
            if isinstance(coming.fact, SubmittedJob) and coming.fact.id in self._asked:
                self._asked.discard(coming.fact.id)
                told = (service.foretell(coming.fact) for service in self._services.values())
                if (first := next((one for one in told if one is not None), None)) is not None:
                    found[coming.fact.id] = first
            else:
                if isinstance(coming.fact, EndedJob):
                    self._ended_s = coming.at_s
                for service in self._services.values():
                    service.observe(coming.fact)
        self._fit(now)
        return found

    def _fit(self, now: float) -> None:
        for name, service in self._services.items():
            if service.fit_due(now) or (service.fit_wanted(now) and self._fitter.idle()):
                self._fitter.begin(name, service.fitting(now))
        for name, model in self._fitter.ended():
            self._services[name].take(model)
            self._taken.add(name)

    def arriving(self, now: float) -> Arrivals | None:
        """Return what the first service foretells that foretells arrivals; None: none does."""
        told = (service.arriving(now) for service in self._services.values())
        return next((one for one in told if one is not None), None)

    def foresight(self, now: float) -> Foresight | None:
        """Return what the first service foretells that foretells what teams will submit; None: none does."""
        told = (service.foresight(now) for service in self._services.values())
        return next((one for one in told if one is not None), None)

    def distrusted(self) -> dict[str, str]:
        """Return what of their forecasts services do not go by now: sentences by key."""
        return {
            f"{name}/{key}": text for name, one in self._services.items() for key, text in one.distrusted().items()
        }

    def taken(self, name: str) -> bool:
        """Return whether a service has taken a model since the last call."""
        found = name in self._taken
        self._taken.discard(name)
        return found

    def advise(self, now: float, round: Round, plan: Plan) -> Advice:
        """Return the advice of all services on a round as one: who wants a machine awake comes first."""
        return together([service.advise(now, round, plan) for service in self._services.values()])


def together(advices: Sequence[Advice]) -> Advice:
    """Return several pieces of advice as one. A machine that one wants awake does not sleep for another."""
    if len(advices) == 1:
        return advices[0]
    wake = tuple(dict.fromkeys(name for one in advices for name in one.wake))
    sleep = tuple(dict.fromkeys(name for one in advices for name in one.sleep if name not in wake))
    reasons = {name: text for one in reversed(advices) for name, text in one.reasons.items()}
    until_s = {name: at for one in reversed(advices) for name, at in one.until_s.items() if name not in wake}
    again_s = min((one.again_s for one in advices if one.again_s is not None), default=math.inf)
    return Advice(wake, sleep, until_s, reasons, None if math.isinf(again_s) else again_s)
