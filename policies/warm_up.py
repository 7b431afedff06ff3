"""Compiles what a policy's rounds call, so that the first round does not wait for it.

numba compiles a kernel on its first call and keeps it in a cache. All kernels take about half a minute, once per
install. Afterwards a process reads them in a second.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numba.core import event

from ..core.cluster import Cluster, Node
from ..core.job import Adaptivity, JobSpec
from ..core.placement import Placement
from ..estimators.goodput import BatchLimits, JobModel, best_batch
from ..estimators.interpretable import lookup
from ..estimators.throughput import ThroughputModel, ThroughputParams
from .catalogue import make_policy
from .choosing.allocation_round import ProgramPolicy
from .contract.round import JobView, Round

_MANY_JOBS = 45
COMPILING = "compiling the solver's kernels, once per install: about half a minute"
_OURS = __name__.split(".")[0]


class _Listener(event.Listener):
    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell: Callable[[], None] | None = tell

    def on_start(self, event: event.Event) -> None:
        if self._tell is not None and event.data["dispatcher"].py_func.__module__.split(".")[0] == _OURS:
            tell, self._tell = self._tell, None
            tell()

    def on_end(self, event: event.Event) -> None:
        pass


@contextmanager
def telling(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` before the first kernel that is compiled within. Kernels in the cache are not compiled."""
    with event.install_listener("numba:compile", _Listener(tell)):
        yield


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Yield a clock, to read afterwards: seconds within, less those for compiling or reading kernels."""
    spent = {"all": 0.0, "compiling": 0.0}
    start = time.perf_counter()
    with event.install_timer("numba:compiler_lock", lambda seconds: spent.update(compiling=seconds)):
        yield lambda: max(spent["all"] - spent["compiling"], 0.0)
        spent["all"] = time.perf_counter() - start


def warm_up(policy: str, options: Mapping[str, Any]) -> None:
    """Compile, or read from the cache, everything that rounds under a policy call.

    Raises ValueError for an unknown policy or option.
    """
    made, first = make_policy(policy, **options), made_up_round({})
    # An error of a made-up round is not told here. A real round meets the same error and tells it.
    with suppress(Exception):
        plan = made.plan(first)
        made.plan(made_up_round(plan.placements))
        if isinstance(made, ProgramPolicy):
            # With a gap of 0 the solver takes all its steps. Two rounds take them cold and warm.
            exact = make_policy(policy, **{**options, "gap": 0.0})
            for later_s in (0.0, 1.0):
                exact.plan(made_up_round(plan.placements, _MANY_JOBS, later_s))
            if options.get("solver") == "continual":
                _change_a_program()
    best_batch(_model(), "a", nodes=1, replicas=1)
    lookup.warm_up()  # services foretell by it, and rounds ask them


def made_up_round(placements: Mapping[str, Placement], count: int = 5, later_s: float = 0.0) -> Round:
    """Return a round of elastic jobs and of fixed sizes that fit so badly that the solver has to search."""
    nodes = tuple(Node(f"{kind}-{i}", kind, 4) for kind in ("a", "b") for i in range(2))
    model = _model()
    sizes = zip(range(count), itertools.cycle((None, 2, 4, 8, 8)))
    jobs = [
        JobView(f"{i}", _spec(f"{i}", gpus), model, placements.get(f"{i}"), age_s=60.0 + later_s)
        for i, gpus in sizes
    ]
    return Round(later_s, 60.0, Cluster(nodes), jobs)


def _change_a_program() -> None:
    """Solve a changing program that is large enough to call every kernel of the continual engine.

    It has more columns than the engine works on at once. Enough requests leave that the rest is moved together.
    """
    from ..optimizer.copter.engine import ContinualProgram, Row  # a room that other policies do without

    count, sizes, rng = 100, np.arange(1.0, 21.0), np.random.default_rng(0)
    program = ContinualProgram(maximise=True)
    program.set_capacity("gpus", 320.0)
    columns = len(sizes) * np.arange(count)[:, None] + np.arange(len(sizes))
    uses = {"gpus": (columns.ravel(), np.tile(sizes, count))}

    def gains() -> np.ndarray:
        return (rng.lognormal(0, 0.6, (count, 1)) * sizes ** rng.uniform(0.6, 0.98, (count, 1))).ravel()

    for first in (0, count):
        ids = [*range(first, first + count)]
        program.add_requests(ids, np.full(count, len(sizes)), gains(), uses, [Row(1.0, upper=1.0)])
        program.solve()
    program.change_costs(ids, gains())
    program.solve()
    program.remove_requests([*range(count)])
    program.add_request("many", np.zeros(20_000), {"gpus": 1.0})
    program.remove_request("many")
    program.solve()


def _model() -> JobModel:
    throughput = ThroughputModel(ThroughputParams(alpha_c=0.01, beta_c=0.01, alpha_r=0.01, alpha_n=0.02), 64, 8)
    return JobModel({"a": throughput, "b": throughput}, 1000.0, BatchLimits(32, 1024), {"a": 1, "b": 1})


def _spec(name: str, gpus: int | None) -> JobSpec:
    fixed = {"training": {"adaptivity": Adaptivity.RIGID}, "resources": {"gpus": gpus}}
    return JobSpec.model_validate({"name": name, "script": "train.py", **(fixed if gpus else {})})
