"""A training process ends like any script: what the script left to be done at exit is done."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import atexit, threading
from coadapt.executor.training.process import leave

class Late(threading.Thread):
    awaited = threading.Event()

    def join(self, timeout=None):
        self.awaited.set()
        super().join(timeout)

    def run(self):
        self.awaited.wait(60)
        print("thread")

atexit.register(print, "atexit")
Late().start()
leave(3)
"""


def test_threads_and_exit_handlers_of_a_script_run_before_the_process_ends() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (3, ["thread", "atexit"])
