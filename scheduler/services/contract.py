"""The contract of services: they learn from what the cluster has seen, and they advise.

A service reads no clock, touches no Ray and acts on nothing. The live service and the simulator call the same
functions in the same order of time. Services share no state. All times are seconds since 1970; those of a
simulation follow the calendar of its trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel

from ...estimators.foretold import Foretold
from ...estimators.job_history import EndedJob, StartedJob, SubmittedJob
from ...policies.contract.arrivals import Arrivals
from ...policies.contract.foresight import Foresight
from ...policies.contract.round import Plan, Round


@dataclass(frozen=True, order=True)
class NodeKind:
    """Nodes that can stand in for each other: of one pool and one GPU type."""

    pool: str
    gpu_type: str


@dataclass(frozen=True)
class NodeCounts:
    """How many nodes of each kind there are, awake or not, and how many of them had a job at a moment."""

    at_s: float
    running: Mapping[NodeKind, int]
    total: Mapping[NodeKind, int]


Fact = SubmittedJob | StartedJob | EndedJob | NodeCounts


@dataclass(frozen=True)
class Advice:
    """What a service would do with machines. Names are those of `Node.machine_name`.

    wake: machines to wake now, most wanted first.
    sleep: machines that may sleep now; nothing runs on any of them.
    until_s: until when each of these is likely not needed, as far as it is foreseen.
    reasons: one sentence per machine.
    again_s: when the service wants to be asked again; None: in the next round.
    """

    wake: tuple[str, ...] = ()
    sleep: tuple[str, ...] = ()
    until_s: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    again_s: float | None = None


NO_ADVICE = Advice()


class Service:
    """One service. A subclass overrides what it needs; by default it learns nothing and advises nothing.

    Its class takes one argument, an instance of its own `Options`.
    """

    name: ClassVar[str]
    Options: ClassVar[type[BaseModel]]
    advises_machines: ClassVar[bool] = False  # whether it says which machines wake and sleep

    def observe(self, fact: Fact) -> None:
        """Take note of a fact, at once. Facts come in order of time.

        A job that `foretell` is asked about is not told of as a `SubmittedJob`, too.
        """

    def foretell(self, job: SubmittedJob) -> Foretold | None:
        """Return how long a job will take that is submitted now; None: nobody can tell."""
        return None

    def arriving(self, now: float) -> Arrivals | None:
        """Return what is to arrive in the mean of the next slots of 10 min; None: it is not foretold."""
        return None

    def foresight(self, now: float) -> Foresight | None:
        """Return what teams will submit after `now`; None: it is not foretold."""
        return None

    def distrusted(self) -> Mapping[str, str]:
        """Return what of its forecasts the service does not go by now: a sentence for each, by a stable key."""
        return {}

    def forget(self, job_id: str) -> None:
        """Drop what is kept of a job that ended without ever having GPUs."""

    def advise(self, now: float, round: Round, plan: Plan) -> Advice:
        """Return which machines to wake and which may sleep after a round."""
        return NO_ADVICE

    def fit_due(self, now: float) -> bool:
        """Return whether the model should be fitted anew."""
        return False

    def fit_wanted(self, now: float) -> bool:
        """Return whether the model may be fitted anew while nobody needs the CPU, before it should be."""
        return False

    def fitting(self, now: float) -> Callable[[], Any]:
        """Return a function that fits a model to what was observed by now.

        It runs in a thread of its own and may take seconds. It reads nothing that `observe` changes.
        """
        raise NotImplementedError("only a service that says a fit is due has one")

    def take(self, model: Any) -> None:
        """Use a model that `fitting` made, from now on."""

    def document(self) -> Mapping[str, Any] | None:
        """Return the model in use as plain JSON values; None: there is none."""
        return None

    def read(self, document: Mapping[str, Any]) -> None:
        """Use the model that `document` returned. Raises ValueError, in one sentence, for any other document."""
