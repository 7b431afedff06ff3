"""One worker at a time on a GPU, or two that hold parts of it: locks of this machine, which end with them.

The scheduler gives a GPU away once its executor says that it is released. Where an executor or a node's agent
died, its workers may live a moment longer. Ray counts no GPUs inside a lease, so that the next worker waits here.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(tempfile.gettempdir()) / f"coadapt-gpus-{os.getuid()}"
LOOK_S = 0.05  # between tries to get a lock that another worker has


class GpuLocks:
    """The locks of one worker. `shared`: others that hold a part of its GPUs as well may be on them."""

    def __init__(self, shared: bool, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._open: list[int] = []
        self._lock = threading.Lock()
        self._changed = threading.Event()

    def hold(self, gpus: Sequence[str]) -> list[int]:
        """Wait until no other worker is on these GPUs that may not be, and keep them until this process ends.

        `gpus`: their names on this machine. Return the locks' file descriptors. A process that inherits one keeps
        the GPU until it ends as well.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for gpu in sorted(set(gpus)):  # in one order, so that nobody waits for each other
            # Never closed here: the kernel does that when the process is gone.
            file = os.open(self._folder / gpu.replace("/", "_"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            while not self._takes(file):
                self._changed.wait(LOOK_S)
                self._changed.clear()
        return list(self._open)

    def share(self) -> None:
        """Let others that hold a part be on the GPUs as well, from now on, also where they are waited for.

        A worker that is alone again goes on sharing: whoever wants a GPU whole waits for all that are on it.
        """
        with self._lock:
            if self._mode != fcntl.LOCK_SH:
                self._mode = fcntl.LOCK_SH
                for file in self._open:
                    fcntl.flock(file, fcntl.LOCK_SH)
        self._changed.set()

    def _takes(self, file: int) -> bool:
        with self._lock:
            try:
                fcntl.flock(file, self._mode | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            self._open.append(file)
            return True
