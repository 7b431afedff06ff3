"""How many cores' worth of work this machine does beside what it does already."""

from __future__ import annotations

import subprocess
import sys

SPIN_S = 1.0
# As many threads of work as there are emulated GPUs: beside busy processes, many get more than few.
PROCESSES = 8
_SPIN = """
import time
ends = time.monotonic() + {seconds}
while time.monotonic() < ends:
    pass
print(time.process_time())
"""


def cores() -> float:
    """Return what `PROCESSES` busy processes get in all; at most the machine's (or the container's) cores."""
    command = [sys.executable, "-S", "-c", _SPIN.format(seconds=SPIN_S)]
    spinning = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    return sum(float(process.communicate()[0]) for process in spinning) / SPIN_S
