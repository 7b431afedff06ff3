"""What executors need of the head's disk: the folder of their job's log, and the job's package.

An executor on the head's own node reads and writes there itself. All others ask one actor there, `HeadFiles`.
"""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from .files.job_log import Piece
from .files.received_log import ReceivedLog
from .package_parts import read_part

FILES_NAME = "coadapt-files"
ANSWER_S = 30.0
UNUSED_S = 300.0  # a log that nobody has written to for so long is closed


class HeadFiles:
    """Write the logs of executors on other nodes, and hand packages out to them.

    The service makes it a detached Ray actor on its own node, which Ray restarts. Its methods raise ValueError for
    paths that are not below `state_dir`.
    """

    def __init__(self, state_dir: str) -> None:
        self._root = Path(state_dir).resolve()
        self._lock = threading.Lock()
        self._logs: dict[str, ReceivedLog] = {}  # by folder
        self._swept_s = time.monotonic()
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each rank of each job has a file

    def write(self, folder: str, sender: str, number: int, pieces: Sequence[Piece]) -> None:
        """Write the `number`-th batch of a sender. One that comes again is written once."""
        self._check(folder)
        now = time.monotonic()
        with self._lock:
            self._sweep(now)
            log = self._logs.get(folder)
            if log is None or log.sender != sender:  # a new executor of the job; the one before it is gone
                log = self._logs[folder] = ReceivedLog(folder, sender)
            log.used_s = now
        log.take(number, pieces)

    def close(self, folder: str, sender: str) -> None:
        """Forget a log to which a sender writes no more."""
        with self._lock:
            log = self._logs.get(folder)
            if log is not None and log.sender == sender:
                self._logs.pop(folder).close()

    def package_part(self, package: str, offset: int) -> bytes:
        """Return a part of a package from an offset on; empty at its end."""
        self._check(package)
        return read_part(package, offset)

    def _sweep(self, now: float) -> None:
        """Close logs that are not written to, as of executors that were killed. They go on where they ended."""
        if now < self._swept_s + UNUSED_S:
            return
        self._swept_s = now
        for folder in [name for name, log in self._logs.items() if now > log.used_s + UNUSED_S]:
            self._logs.pop(folder).close()

    def _check(self, path: str) -> None:
        if not Path(path).resolve().is_relative_to(self._root):
            raise ValueError(f"{path} is not below {self._root}")


class HeadDisk:
    """One executor's way to the head's disk.

    Args:
        head_node: the node with that disk; "": this one.
    """

    def __init__(self, head_node: str, namespace: str) -> None:
        self.here = not head_node or ray.get_runtime_context().get_node_id() == head_node
        self._namespace = namespace

    def package_part(self, package: str, offset: int) -> bytes:
        """Return a part of a package from an offset on. Raises: OSError where it cannot be had."""
        if self.here:
            return read_part(package, offset)
        try:
            part: bytes = ray.get(self._files().package_part.remote(package, offset), timeout=ANSWER_S)
        except (RayError, ValueError) as error:
            raise OSError(f"the head does not give it: {error}") from error
        return part

    def write(self, folder: str, sender: str, number: int, pieces: Sequence[Piece]) -> bool:
        """Have a batch written; return False where the head did not answer, so that it has to be sent again."""
        try:
            ray.get(self._files().write.remote(folder, sender, number, list(pieces)), timeout=ANSWER_S)
        except (RayError, ValueError):
            return False
        return True

    def close(self, folder: str, sender: str) -> None:
        """Tell the head that a sender writes no more."""
        try:
            ray.get(self._files().close.remote(folder, sender), timeout=ANSWER_S)
        except (RayError, ValueError):
            return

    def _files(self) -> Any:
        return ray.get_actor(FILES_NAME, namespace=self._namespace)
