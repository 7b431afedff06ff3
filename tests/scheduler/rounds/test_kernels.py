"""The service answers while the solver's kernels are compiled, once per install."""

import subprocess
import sys
from pathlib import Path

LOADED = """
import json, sys
from numba.core import event
from coadapt.scheduler.rounds.kernels import load_kernels

compiled, told = [], []
class Listener(event.Listener):
    def on_start(self, event): compiled.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event): pass
with event.install_listener("numba:compile", Listener()):
    load_kernels("fifo", {}, lambda: told.append("compiling"))
    begun = len(compiled)
print(json.dumps([told, begun]))
"""


def loaded(cache: Path) -> str:
    """Load kernels in a new process: what it tells, and how many compilations it began itself."""
    environment = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": ":".join(filter(None, sys.path))}
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def test_another_process_compiles_what_is_not_there_and_the_service_only_reads_it(tmp_path: Path) -> None:
    # The first is given up where it begins; all others are compiled by the child and read here.
    assert loaded(tmp_path) == '[["compiling"], 1]'
    assert list(tmp_path.rglob("*.nbc"))
    assert loaded(tmp_path) == "[[], 0]"


def test_an_unknown_policy_is_named() -> None:
    command = [sys.executable, "-m", "coadapt.scheduler.rounds.kernels", "best", "{}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "policy: 'best' is unknown" in done.stderr
