"""Compiling what a policy's rounds call before the first of them has to wait for it.

numba compiles a kernel on its first call and keeps it in a cache: once per install, which takes about a minute for
all of them. Afterwards a process reads them in a second.
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
from ..estimators.throughput import ThroughputModel, ThroughputParams
from ..optimizer.allocation import ChoiceProgram
from ..optimizer.copter.engine import ContinualProgram, Row
from .catalogue import make_policy
from .choosing.allocation_round import ProgramPolicy
from .contract.round import JobView, Round

_MANY_JOBS, _LOOSE = 45, 1e-2
COMPILING = "compiling the solver's kernels, once per install: about a minute"
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
    """`tell` is called before the first kernel that is compiled within, if any is; those in the cache are not."""
    with event.install_listener("numba:compile", _Listener(tell)):
        yield


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Seconds within, to be asked afterwards; those that compiling or reading kernels took are not counted."""
    spent = {"all": 0.0, "compiling": 0.0}
    start = time.perf_counter()
    with event.install_timer("numba:compiler_lock", lambda seconds: spent.update(compiling=seconds)):
        yield lambda: max(spent["all"] - spent["compiling"], 0.0)
        spent["all"] = time.perf_counter() - start


def warm_up(policy: str, options: Mapping[str, Any]) -> None:
    """Have everything compiled, or read from the cache, that rounds under a policy call.

    Raises ValueError for an unknown policy or option.
    """
    made, first = make_policy(policy, **options), made_up_round({})
    # Whatever goes wrong with a made-up round is told where it goes wrong in a real one.
    with suppress(Exception):
        plan = made.plan(first)
        made.plan(made_up_round(plan.placements))
        # Many are searched in another way than few, and where little changes the last vertex is gone on from.
        for later_s in (0.0, 1.0):
            made.plan(made_up_round(plan.placements, _MANY_JOBS, later_s))
        # As plans of thousands of jobs are found, those of a few are too where they may be further off.
        loose = make_policy(policy, **{**options, "gap": _LOOSE})
        loose.plan(made_up_round(plan.placements, _MANY_JOBS))
        if isinstance(made, ProgramPolicy) and "structured" in options.get("solver", "structured"):
            _close_a_program()
        if isinstance(made, ProgramPolicy) and options.get("solver") == "continual":
            _change_a_program()
    best_batch(_model(), "a", nodes=1, replicas=1)


def made_up_round(placements: Mapping[str, Placement], count: int = 5, later_s: float = 0.0) -> Round:
    """Jobs of any size, and some of fixed sizes, which fit together so badly that only a search settles it."""
    nodes = tuple(Node(f"{kind}-{i}", kind, 4) for kind in ("a", "b") for i in range(2))
    model = _model()
    sizes = zip(range(count), itertools.cycle((None, 2, 4, 8, 8)))
    jobs = [
        JobView(f"{i}", _spec(f"{i}", gpus), model, placements.get(f"{i}"), age_s=60.0 + later_s)
        for i, gpus in sizes
    ]
    return Round(later_s, 60.0, Cluster(nodes), jobs)


def _close_a_program() -> None:
    """Rows that take large parts of seven limits each, whose best plan is far from what the LP says."""
    count, types, rng = 60, 7, np.random.default_rng(0)
    sizes = np.concatenate([[1, 2, 4], np.arange(8, 136, 8)])
    size, group = np.tile(sizes, types), np.repeat(np.arange(types), len(sizes))
    rate = rng.lognormal(0, 0.6, (count, types))[:, group] * rng.uniform(0.5, 3, types)[group]
    value = 1.1 + np.sqrt(rate * size ** rng.uniform(0.6, 0.98, (count, 1)))
    usage = np.where(group == np.arange(types)[:, None], size, 0).astype(float)
    program = ChoiceProgram(usage, np.full(types, 320.0), group, size.astype(float))
    ids = [f"{i}" for i in range(count)]
    program.put(ids, value, np.ones(value.shape, bool), np.zeros(count, bool))
    program.solve(ids, gap=1e-6, time_limit_s=60.0)


def _change_a_program() -> None:
    """Requests of more columns than are all worked on, and so many leave that what stays is moved together."""
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
