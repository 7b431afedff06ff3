"""Kernels of an emulated GPU that two processes share: each takes its time, and longer beside another's.

A page of shared memory tells who runs one now. Each process takes down when its own ran.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import numpy as np

SLICE_S = 0.001  # between looks at what the other process does


class PacedKernels:
    """Runs kernels of one of two processes.

    Args:
        path: of the page, one for each GPU.
        side: 0 or 1, the process' own place on it.
        beside: its speed while the other one runs a kernel, over that alone.
    """

    def __init__(self, path: Path, side: int, beside: float) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(file, 4096)
        self._page = np.frombuffer(mmap.mmap(file, 4096), dtype=np.float64)
        self._side, self._beside = side, beside
        self.runs: list[tuple[float, float]] = []  # of its kernels, on the machine's monotonic clock

    def run(self, seconds: float) -> None:
        """Take as long as a kernel that needs so many seconds while it is alone."""
        began_s = at = time.monotonic()
        self._page[self._side] = 1.0
        try:
            while seconds > 0:
                speed = self._beside if self._page[1 - self._side] else 1.0
                time.sleep(min(SLICE_S, seconds / speed))
                now = time.monotonic()
                seconds, at = seconds - (now - at) * speed, now
        finally:
            self._page[self._side] = 0.0
            self.runs.append((began_s, at))
