"""`python -m coadapt.executor.processes.helper`: do for all executors of a machine what takes heavy libraries.

It serves the stores in which groups meet, for which it loads torch, and fits models, for which it loads scipy.
`helper_client.py` starts it and asks it, by one message on its Unix socket:
* `{"host": …, "port": …}` with a listening socket: the store is served there until the connection is closed.
* what `Measurements.unfitted` returns: the answer is what `fits_of` returns.
"""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from ...estimators.compiling import do_without
from ..protocol.ranks import Rendezvous
from .template_wire import READY, receive, send

IDLE_S = 10.0  # it ends after so long without a connection
LOOK_S = 1.0


class Helper:
    """Serve whoever is connected until there has been nobody for `idle_s`."""

    def __init__(self, listener: socket.socket, path: Path, idle_s: float = IDLE_S) -> None:
        self._listener, self._path, self._idle_s = listener, path, idle_s
        self._lock = threading.Lock()
        self._asking = 0
        self._idle_since_s = time.monotonic()

    def serve(self) -> None:
        self._listener.settimeout(LOOK_S)
        while not (self._is_idle() and self._closed()):
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            with self._lock:
                self._asking += 1
            threading.Thread(target=self._keep, args=(connection,), daemon=True).start()

    def _keep(self, connection: socket.socket) -> None:
        """Do what one connection asks for."""
        with connection:
            try:
                message, descriptors = receive(connection)
                if "host" in message:
                    (listener,) = descriptors
                    self._store(Rendezvous(message["host"], message["port"]), listener, connection)
                else:
                    send(connection, _fits_of(message))
            except (OSError, ArithmeticError, RuntimeError, KeyError, TypeError, ValueError) as error:
                print(f"a request could not be served: {error}", file=sys.stderr, flush=True)
            finally:
                with self._lock:
                    self._asking -= 1
                    self._idle_since_s = time.monotonic()

    def _store(self, address: Rendezvous, listener: int, connection: socket.socket) -> None:
        """Serve a store while its connection lasts."""
        from torch.distributed import TCPStore

        store = TCPStore(
            address.host, address.port, is_master=True, wait_for_workers=False, master_listen_fd=listener
        )
        send(connection, READY)
        while connection.recv(1):
            pass
        del store  # its socket, too; the executor has one of its own while it lives

    def _is_idle(self) -> bool:
        with self._lock:
            return not self._asking and time.monotonic() > self._idle_since_s + self._idle_s

    def _closed(self) -> bool:
        """Remove the socket, unless someone looks for this process now; return whether it is gone."""
        with (self._path.parent / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            self._path.unlink(missing_ok=True)
            self._listener.close()
        return True


def _fits_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    do_without()
    from ...estimators.measurements import fits_of

    return fits_of(asked)


def serve(path: str, listener: int) -> NoReturn:
    """Serve executors on a listening Unix socket, and end the process."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each store takes a dozen descriptors
    Helper(socket.socket(fileno=listener), Path(path)).serve()
    os._exit(0)


def main() -> None:
    """Run `helper SOCKET`, with the listening socket as standard input."""
    if os.fork():
        os._exit(0)  # nobody's child: Ray ends the children of its workers with them
    serve(sys.argv[1], os.dup(0))


if __name__ == "__main__":
    main()
