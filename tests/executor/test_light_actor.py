"""Whoever gets the handle of one of our actors loads none of what the actor itself needs."""

from __future__ import annotations

import queue
import subprocess
import sys
from pathlib import Path

import pytest
from coadapt.executor.adaptive_executor import AdaptiveExecutor
from coadapt.executor.command_executor import CommandExecutor
from coadapt.executor.light_actor import executor_class, light, packed
from coadapt.scheduler.service import SchedulerService
from ray import cloudpickle


def test_it_does_what_the_class_does() -> None:
    actor = light(queue.Queue)(maxsize=1)
    actor.put("a", block=False)
    with pytest.raises(queue.Full):
        actor.put_nowait("b")
    assert (actor.qsize(), actor.get()) == (1, "a")
    assert not hasattr(actor, "_put")
    assert light(queue.Queue).__name__ == "Queue"


@pytest.mark.parametrize("heavy", [AdaptiveExecutor, SchedulerService])
def test_a_handle_loads_neither_solver_nor_compiler(heavy: type, tmp_path: Path) -> None:
    (tmp_path / "class").write_bytes(cloudpickle.dumps(light(heavy)))
    loads = f"""
import sys
from ray import cloudpickle
made = cloudpickle.loads(open({str(tmp_path / "class")!r}, "rb").read())
assert made.__name__ == {heavy.__name__!r}
print(sorted({{"numba", "scipy", "torch", "numpy", {heavy.__module__!r}}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["[]"]


@pytest.mark.parametrize("executor", [AdaptiveExecutor, CommandExecutor])
def test_an_executor_loads_neither_torch_nor_a_compiler(executor: type, tmp_path: Path) -> None:
    (tmp_path / "class").write_bytes(cloudpickle.dumps(executor_class(executor)))
    loads = f"""
import sys
from ray import cloudpickle
made = cloudpickle.loads(open({str(tmp_path / "class")!r}, "rb").read())
try:
    made({packed(None)!r})
except Exception:
    pass  # there is no cluster; its module is loaded by now
assert {executor.__module__!r} in sys.modules
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("numba", "llvmlite", "torch")))
"""
    done = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["[]"]
