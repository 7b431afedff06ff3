"""`python -m coadapt.executor.processes.store_host`: serve the stores in which the jobs of a node meet.

It loads torch once for all executors of a machine. `rendezvous_store.py` starts it and asks it. A request comes on
its Unix socket with a listening socket. The store is served on that until whoever asked closes the connection.
"""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

from ..protocol.ranks import Rendezvous
from .template_wire import READY, receive, send

IDLE_S = 10.0  # it ends after so long without a store
LOOK_S = 1.0


class StoreHost:
    """Serve stores until there has been none for `idle_s`."""

    def __init__(self, listener: socket.socket, path: Path, idle_s: float = IDLE_S) -> None:
        self._listener, self._path, self._idle_s = listener, path, idle_s
        self._lock = threading.Lock()
        self._stores = 0
        self._idle_since_s = time.monotonic()

    def serve(self) -> None:
        self._listener.settimeout(LOOK_S)
        while not (self._is_idle() and self._closed()):
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            with self._lock:
                self._stores += 1
            threading.Thread(target=self._keep, args=(connection,), daemon=True).start()

    def _keep(self, connection: socket.socket) -> None:
        """Serve one store while its connection lasts."""
        with connection:
            try:
                self._store(connection)
            except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
                print(f"a store could not be served: {error}", file=sys.stderr, flush=True)
            finally:
                with self._lock:
                    self._stores -= 1
                    self._idle_since_s = time.monotonic()

    def _store(self, connection: socket.socket) -> None:
        from torch.distributed import TCPStore

        message, (listener,) = receive(connection)
        address = Rendezvous(message["host"], message["port"])
        store = TCPStore(
            address.host, address.port, is_master=True, wait_for_workers=False, master_listen_fd=listener
        )
        send(connection, READY)
        while connection.recv(1):
            pass
        del store  # its socket, too; the executor has one of its own while it lives

    def _is_idle(self) -> bool:
        with self._lock:
            return not self._stores and time.monotonic() > self._idle_since_s + self._idle_s

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


def serve(path: str, listener: int) -> NoReturn:
    """Serve stores on a listening Unix socket, and end the process."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each store takes a dozen descriptors
    StoreHost(socket.socket(fileno=listener), Path(path)).serve()
    os._exit(0)


def main() -> None:
    """Run `store_host SOCKET`, with the listening socket as standard input."""
    if os.fork():
        os._exit(0)  # nobody's child: Ray ends the children of its workers with them
    serve(sys.argv[1], os.dup(0))


if __name__ == "__main__":
    main()
