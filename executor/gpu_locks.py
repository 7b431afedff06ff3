"""One worker at a time on a GPU, or two that hold parts of it: locks of this machine, which end with them.

The scheduler gives a GPU away once its executor says that it is released. Where an executor or a node's agent
died, its workers may live a moment longer. Ray counts no GPUs inside a lease, so that the next worker waits here.
A GPU has two locks. Who has it whole holds both, and who has a part of it either. A third lock is the job's own:
no job is twice on a GPU, whatever part it has.
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
    """The locks of one worker. `shared`: it holds a part of its GPUs, and another one may be on them as well."""

    def __init__(self, job: str, shared: bool, folder: Path = FOLDER) -> None:
        self._job, self._shared, self._folder = job, shared, folder
        self._halves: list[tuple[int, ...]] = []  # of each GPU, those that it holds
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
            own, first, second = (self._file(name) for name in (f"{gpu}@{self._job}", gpu, f"{gpu}#"))
            while not (_takes(own) and self._takes(first, second)):
                self._changed.wait(LOOK_S)
                self._changed.clear()
        return list(self._open)

    def share(self) -> None:
        """Let another worker that holds a part be on the GPUs as well, also where they are still waited for.

        A worker that is alone again goes on sharing: whoever wants a GPU whole waits for all that are on it.
        """
        with self._lock:
            self._shared = True
            for file in [file for _, *more in self._halves for file in more]:
                fcntl.flock(file, fcntl.LOCK_UN)
            self._halves = [(first,) for first, *_ in self._halves]
        self._changed.set()

    def _takes(self, first: int, second: int) -> bool:
        """Try to get one half of a GPU, or both. What is there of both is given back where the other is not."""
        with self._lock:
            wanted = 1 if self._shared else 2
            held = tuple(file for file in (first, second) if _takes(file))
            kept = held[:wanted] if len(held) >= wanted else ()
            for file in held[len(kept) :]:
                fcntl.flock(file, fcntl.LOCK_UN)
            if kept:
                self._halves.append(kept)
            return bool(kept)

    def _file(self, name: str) -> int:
        # Never closed here: the kernel does that when the process is gone.
        path = self._folder / name.replace("/", "_")
        self._open.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return self._open[-1]


def _takes(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
