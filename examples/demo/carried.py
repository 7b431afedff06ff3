"""The amount of work that this machine can do beside what it does already, in cores."""

from __future__ import annotations

import subprocess
import sys

SPIN_S = 1.0
# There are as many as emulated GPUs, since many processes get more than few beside busy ones.
PROCESSES = 8
_SPIN = """
import time
ends = time.monotonic() + {seconds}
while time.monotonic() < ends:
    pass
print(time.process_time())
"""


def cores() -> float:
    """Return the cores that `PROCESSES` busy processes get together, at most those of the machine or container."""
    command = [sys.executable, "-S", "-c", _SPIN.format(seconds=SPIN_S)]
    spinning = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    return sum(float(process.communicate()[0]) for process in spinning) / SPIN_S
