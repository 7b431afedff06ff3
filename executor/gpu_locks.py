"""One worker at a time on a GPU: locks of this machine, which end with the worker that has them.

The scheduler gives a GPU away once its executor says that it is released. Where an executor or a node's agent
died, its workers may live a moment longer. Ray counts no GPUs inside a lease, so that the next worker waits here.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(tempfile.gettempdir()) / f"coadapt-gpus-{os.getuid()}"


def hold(gpus: Sequence[str], shared: bool, folder: Path = FOLDER) -> list[int]:
    """Wait until no other worker is on these GPUs, and keep them until this process ends.

    `gpus`: their names on this machine. `shared`: others that hold a part of a GPU as well may be on it.
    Return the locks' file descriptors. A process that inherits one keeps the GPU until it ends as well.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    locks = []
    for gpu in sorted(set(gpus)):  # in one order, so that nobody waits for each other
        # Never closed here: the kernel does that when the process is gone.
        lock = os.open(folder / gpu.replace("/", "_"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        locks.append(lock)
    return locks
