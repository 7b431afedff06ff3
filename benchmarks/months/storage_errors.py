"""Storage that fails for a while, for one process: the kernel refuses every write of it to a file."""

from __future__ import annotations

import resource
import time
from contextlib import suppress

import psutil


def refuse_writes(process: psutil.Process, seconds: float) -> bool:
    """Have every write of a process to a file fail for some seconds; return whether it was there.

    Python ignores the signal that comes with it, so that the write fails as on a disk that is full.
    """
    with suppress(psutil.Error):
        soft, hard = process.rlimit(resource.RLIMIT_FSIZE)
        process.rlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            time.sleep(seconds)  # the fault lasts so long
        finally:
            with suppress(psutil.NoSuchProcess):
                process.rlimit(resource.RLIMIT_FSIZE, (soft, hard))
        return True
    return False
