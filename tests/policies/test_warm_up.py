"""Nobody waits for a compiler in a round, or without being told what for."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from coadapt.policies.catalogue import make_policy, policy_names
from coadapt.policies.warm_up import made_up_round, stopwatch, telling, warm_up
from numba import njit
from numba.core import event

# What a simulation uses beyond what the warm-up had loaded, by name and number of types it was compiled for.
SIMULATION = """
import gc, json, sys
from numba.core.dispatcher import Dispatcher
from coadapt.cli.main import run
from coadapt.policies.warm_up import warm_up

def compiled():
    found = [d for d in gc.get_objects() if isinstance(d, Dispatcher)]
    return {(d.py_func.__qualname__, str(s)) for d in found for s in d.signatures}

policy, options = sys.argv[1], json.loads(sys.argv[2])
warm_up(policy, options)
before = compiled()
given = [f"--policy-option={name}={value}" for name, value in options.items()]
assert run(["simulate", "--jobs", "15", "--rate", "600", "--policy", policy, *given, "--json"]) == 0
print(len(before), sorted(compiled() - before), file=sys.stderr)
"""

COMPILED = """
import gc, json, sys
from numba.core.dispatcher import Dispatcher
from coadapt.policies.warm_up import warm_up

warm_up(sys.argv[1], json.loads(sys.argv[2]))
found = [d for d in gc.get_objects() if isinstance(d, Dispatcher)]
print(json.dumps([d.py_func.__name__ for d in found if d.signatures]))
"""


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_plans_the_made_up_round_it_is_warmed_up_with(name: str) -> None:
    policy = make_policy(name)
    plan = policy.plan(made_up_round({}))
    assert plan.placements
    assert policy.plan(made_up_round(plan.placements)).placements


@pytest.mark.parametrize(
    ("policy", "options"),
    [("sia", {}), ("sia", {"gap": 0.004}), ("sia", {"solver": "continual"}), ("coadapt", {})],
)
def test_after_the_warm_up_a_simulation_has_nothing_left_to_compile(policy: str, options: dict[str, Any]) -> None:
    code = [sys.executable, "-c", SIMULATION, policy, json.dumps(options)]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    loaded, left = done.stderr.strip().splitlines()[-1].split(" ", 1)
    assert int(loaded) > 5
    assert left == "[]"


@pytest.mark.parametrize(("policy", "options", "does"), [("sia", {}, True), ("fifo", {}, False)])
def test_the_solver_is_compiled_for_the_policies_that_use_it(
    policy: str, options: dict[str, float], does: bool
) -> None:
    code = [sys.executable, "-c", COMPILED, policy, json.dumps(options)]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    kernels = json.loads(done.stdout.splitlines()[-1])
    for name in ("smoothed_dual", "optimise", "cheapest_growth"):
        assert (name in kernels) == does


NOT_LOADED = """
import sys
import coadapt.scheduler.service
from coadapt.policies.warm_up import warm_up
warm_up("coadapt", {})
print([name for name in sys.modules if name.startswith("coadapt.optimizer.copter")])
"""


def test_the_scheduler_and_its_policies_do_without_the_solvers_for_comparison() -> None:
    done = subprocess.run([sys.executable, "-c", NOT_LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(ValueError, match="policy: 'best' is unknown"):
        warm_up("best", {})


def kernel(module: str) -> Callable[[int], int]:
    def twice(x: int) -> int:
        return 2 * x

    twice.__module__ = module
    return njit(twice)


def test_it_is_told_once_that_kernels_are_compiled() -> None:
    told: list[str] = []
    with telling(lambda: told.append("compiling")):
        kernel("coadapt.optimizer.some")(1)
        kernel("coadapt.optimizer.other")(1)
    assert told == ["compiling"]


def test_a_stopwatch_does_not_count_compiling() -> None:
    compiling: list[float] = []
    start = time.perf_counter()
    with event.install_timer("numba:compiler_lock", compiling.append), stopwatch() as took_s:
        kernel("coadapt.optimizer.some")(1)
    assert 0.0 < took_s() < time.perf_counter() - start - compiling[0] / 2


def test_a_stopwatch_counts_everything_where_nothing_is_compiled() -> None:
    ours = kernel("coadapt.optimizer.some")
    ours(1)
    with stopwatch() as took_s:
        start = time.perf_counter()
        ours(2)
        spent = time.perf_counter() - start
    assert took_s() >= spent


def test_nothing_is_told_of_kernels_that_are_there_nor_of_those_of_users() -> None:
    told: list[str] = []
    ours = kernel("coadapt.optimizer.some")
    ours(1)
    with telling(lambda: told.append("compiling")):
        ours(2)
        kernel("my_policy")(1)
    assert told == []
