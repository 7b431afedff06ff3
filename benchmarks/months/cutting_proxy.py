"""A proxy on loopback that drops connections, as networks do: some before a request arrives, some after it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

PIECE = 1 << 16


class CuttingProxy:
    """Passes connections on to a port, until it is told to cut some."""

    def __init__(self) -> None:
        self._target = 0
        self._cuts = 0  # answers that are still to be dropped
        self.dropped = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def to(self, url: str) -> None:
        """Pass on to an API from now on."""
        self._target = int(url.rpartition(":")[2])

    def cut(self, answers: int) -> None:
        """End all connections, and drop the next answers after their requests have arrived."""
        with self._lock:
            self._cuts += answers
            some, self._open = self._open, set()
        for one in some:
            _close(one)

    def close(self) -> None:
        """Take no more connections."""
        self._socket.close()
        self.cut(0)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
        except OSError:
            _close(client)
            return
        server.settimeout(None)
        with self._lock:
            self._open |= {client, server}
        threading.Thread(target=self._pass_on, args=(client, server, False), daemon=True).start()
        self._pass_on(server, client, True)

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(PIECE):
                if answers and self._drops():
                    break
                target.sendall(piece)
        with self._lock:
            self._open -= {source, target}
        _close(source)
        _close(target)

    def _drops(self) -> bool:
        with self._lock:
            if not self._cuts:
                return False
            self._cuts -= 1
            self.dropped += 1
            return True


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
