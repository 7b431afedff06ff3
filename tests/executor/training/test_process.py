"""A training process ends like any script: what the script left to be done at exit is done."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import atexit, sys, threading, time
from coadapt.executor.training.process import leave

def late():
    time.sleep(0.2)
    print("thread")

atexit.register(print, "atexit")
threading.Thread(target=late).start()
leave(3)
"""


def test_threads_and_exit_handlers_of_a_script_run_before_the_process_ends() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (3, ["thread", "atexit"])
