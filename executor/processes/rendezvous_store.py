"""The store in which a job's groups meet, served by one process for all executors of a machine.

So no executor imports torch, which would cost each job seconds of CPU and hundreds of MiB. The machine's template
forks that process (`store_host.py`). Without a template it is started the plain way.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ..protocol.ranks import Rendezvous
from . import template_client
from .template_wire import ONE_THREAD, ForkRequest, Owner, receive, send, template_key

log = logging.getLogger(__name__)

START_S = 120.0  # a new process imports torch before it answers
SOON_S = 5.0  # a store that was lost sooner is served anew after a pause
BACKLOG = 128


def keep(listener: socket.socket, address: Rendezvous, owner: Owner) -> None:
    """Have the store served while this process lives; call it in its own thread.

    Whoever connects before waits in the listener's queue. A store whose process is lost is served anew by the
    next one; groups that have formed do not need it.
    """
    while True:
        began_s = time.monotonic()
        try:
            with _connected(owner) as connection:
                send(connection, {"host": address.host, "port": address.port}, [listener.fileno()])
                connection.settimeout(START_S)
                receive(connection)
                connection.settimeout(None)
                connection.recv(1)
        except OSError as error:
            log.warning("the store at %s:%d: %s", address.host, address.port, error)
        log.warning("the store at %s:%d was lost and is served anew", address.host, address.port)
        if time.monotonic() - began_s < SOON_S:
            time.sleep(1.0)  # in a thread of its own


def _connected(owner: Owner) -> socket.socket:
    """Return a connection to the machine's process for stores; start it if there is none. Raises: OSError."""
    # Emulated replicas have the same environment, so that on a laptop they share a template with all stores.
    env = {**os.environ, **ONE_THREAD}
    folder = template_client.private_folder()
    path = folder / f"{template_key(env, owner.session)}.stores"
    with (folder / "lock").open("a") as lock:
        with suppress(FileNotFoundError, ConnectionRefusedError):
            return _connection(path)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError, ConnectionRefusedError):
            return _connection(path)
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.fspath(path))
            path.chmod(0o600)
            listener.listen(BACKLOG)
            connection = _connection(path)
            fcntl.flock(lock, fcntl.LOCK_UN)  # a template is started under it
            _start(listener, path, env, owner)
    return connection


def _connection(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.fspath(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _start(listener: socket.socket, path: Path, env: Mapping[str, str], owner: Owner) -> None:
    request = ForkRequest(os.fspath(path), (), env, "/", (), owner, kind="stores")
    with open(os.devnull, "wb") as nowhere:
        try:
            template_client.fork(request, listener.fileno(), nowhere.fileno(), lambda: False).leave()
            return
        except template_client.NoTemplate as error:
            log.info("the process for stores is started without a template: %s", error)
        starter = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.store_host", os.fspath(path)],
            env=env,
            cwd="/",
            stdin=listener.fileno(),
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,
        )
        starter.wait()
