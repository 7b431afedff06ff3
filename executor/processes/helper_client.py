"""Reach the process that helps all executors of a machine (`helper.py`), and start it where there is none.

The machine's template forks it. Without a template it is started the plain way.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ..sandbox.environment import around
from . import template_client
from .template_wire import ONE_THREAD, ForkRequest, Owner, receive, send, template_key

log = logging.getLogger(__name__)

BACKLOG = 128
ANSWER_S = 20.0  # it may have to be started first


def answer(question: Mapping[str, Any], owner: Owner, timeout_s: float = ANSWER_S) -> dict[str, Any] | None:
    """Return the helper's answer; None where none came in time."""
    try:
        with connected(owner) as connection:
            connection.settimeout(timeout_s)
            send(connection, question)
            return receive(connection)[0]
    except OSError as error:
        log.warning("the helper of this machine did not answer: %s", error)
        return None


def connected(owner: Owner) -> socket.socket:
    """Return a connection to the machine's helper, which is started if there is none. Raises: OSError."""
    # Emulated replicas have the same environment, so that on a laptop they share a template with the helper.
    env = {**around(os.environ), **ONE_THREAD}
    path = socket_of(owner.session)
    with (path.parent / "lock").open("a") as lock:
        with suppress(FileNotFoundError, ConnectionRefusedError):
            return template_client.connection_to(path, None)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError, ConnectionRefusedError):
            return template_client.connection_to(path, None)
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.fspath(path))
            path.chmod(0o600)
            listener.listen(BACKLOG)
            connection = template_client.connection_to(path, None)
            fcntl.flock(lock, fcntl.LOCK_UN)  # a template is started under it
            _start(listener, path, env, owner)
    return connection


def socket_of(session: str) -> Path:
    """Return where the helper of a session listens on this machine."""
    return template_client.private_folder() / f"{_key(session)}.helper"


@cache
def _key(session: str) -> str:
    """Return the name of the template that forks the helper; this process looks once at what it depends on."""
    return template_key({**around(os.environ), **ONE_THREAD}, session)


def _start(listener: socket.socket, path: Path, env: Mapping[str, str], owner: Owner) -> None:
    request = ForkRequest(os.fspath(path), (), env, "/", (), owner, kind="helper")
    with open(os.devnull, "wb") as nowhere:
        try:
            template_client.fork(request, listener.fileno(), nowhere.fileno(), lambda: False).leave()
            return
        except template_client.NoTemplate as error:
            log.info("the helper is started without a template: %s", error)
        starter = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.helper", os.fspath(path)],
            env=env,
            cwd="/",
            stdin=listener.fileno(),
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,
        )
        starter.wait()
