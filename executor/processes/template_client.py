"""Get a training process from the machine's template, and start the template if there is none.

A template serves one user, Ray session, interpreter and environment of libraries (`template_key`). Its socket lies
in a folder that only its user can enter. A caller that gets no answer makes the socket under a lock and hands it
to a new template. So others can already connect while it imports. Without a template only time is lost: the caller
starts its process the plain way.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ..sandbox.environment import around
from .process_view import ROOM_ARGUMENT, ROOM_ENV
from .template_wire import ForkRequest, Owner, loaded_with, receive, send, template_key

log = logging.getLogger(__name__)

START_S = 60.0  # a new template answers within this time
ANSWER_S = 10.0  # one that has started answers within this time
BACKLOG = 128
BROKEN_S = 600.0  # after a template ended or hung instead of answering, none is tried for so long
LOOK_S = 0.2
SOCKET_PATH_BYTES = 100  # the kernel takes 107
NO_HOME = "/nonexistent"  # of a template: what lies in a home is not for the jobs


class NoTemplate(RuntimeError):
    """Say in one sentence why there is no template here and now."""


class Forked:
    """Follow a process that a template has forked."""

    def __init__(self, connection: socket.socket, pid: int, pidfd: int) -> None:
        self.pid = pid
        self._connection = connection
        self._pidfd = pidfd
        self._lock = threading.Lock()
        self._over = False

    def wait(self) -> int:
        """Wait until it and all it started are gone; return the exit code, negative for a signal."""
        try:
            status = int(receive(self._connection)[0]["status"])
        except (OSError, KeyError, ValueError):
            # The template was killed, and the kernel kills its children with it.
            self.kill()
            _readable(self._pidfd)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            status = -signal.SIGKILL
        with self._lock:
            self._over = True
            self._connection.close()
            os.close(self._pidfd)
        return status

    def leave(self) -> None:
        """Follow it no longer; one that nobody owns goes on."""
        with self._lock:
            self._over = True
            self._connection.close()
            os.close(self._pidfd)

    def kill(self) -> None:
        """End it now; the template ends what it started."""
        with self._lock:
            if self._over:
                return
            with suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)


def fork(request: ForkRequest, channel: int, output: int, given_up: Callable[[], bool]) -> Forked:
    """Have a template fork the process, which gets copies of the descriptors `channel` and `output`.

    `given_up` is asked while a template is waited for. Raises: NoTemplate.
    """
    path = _path(request.env, request.owner.session, request.python)
    if _is_broken(path):
        raise NoTemplate(f"the template at {path} did not answer a while ago")
    try:
        connection = _ready_connection(path, request, given_up)
    except (OSError, ValueError) as error:
        with suppress(OSError):
            path.with_suffix(".broken").touch()
        raise NoTemplate(f"the template at {path} could not be used: {error}") from error
    try:
        file = request.file()
        try:
            send(connection, request.message(), [channel, output, file])
        finally:
            os.close(file)
        answer, (pidfd,) = receive(connection)
        connection.settimeout(None)
        return Forked(connection, int(answer["pid"]), pidfd)
    except (OSError, ValueError, KeyError) as error:
        connection.close()
        raise NoTemplate(f"the template at {path} did not fork: {error}") from error


def warm(env: Mapping[str, str], owner: Owner) -> None:
    """Start a template for processes with this environment if there is none; neither wait for it nor fail."""
    with suppress(OSError, NoTemplate):
        path = _path(env, owner.session)
        if not _is_broken(path):
            with _connect(path, env, "") as connection:
                send(connection, {"session": owner.session, "pid": owner.pid})


def _path(env: Mapping[str, str], session: str, python: str = "") -> Path:
    if sys.platform != "linux":
        raise NoTemplate("only Linux forks a process safely")
    try:
        folder = private_folder()
    except OSError as error:
        raise NoTemplate(f"{template_folder()}: {error.strerror}") from None
    return folder / f"{template_key(env, session, python)}.sock"


def private_folder() -> Path:
    """Return `template_folder`, which it makes. Raises: OSError, also where other users may enter it."""
    folder = template_folder()
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or folder.is_symlink():
        raise PermissionError(errno.EPERM, "it is open to other users", os.fspath(folder))
    return folder


def template_folder() -> Path:
    """Return the user's own folder of sockets on this machine."""
    name = f"coadapt-{os.getuid()}"
    usual = Path(tempfile.gettempdir()) / name
    return usual if len(os.fsencode(usual)) + 30 < SOCKET_PATH_BYTES else Path("/tmp") / name


def _connect(path: Path, env: Mapping[str, str], python: str) -> socket.socket:
    """Return a connection to the template, which may have to import everything first."""
    try:
        return connection_to(path)
    except (FileNotFoundError, ConnectionRefusedError):
        pass
    with (path.parent / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError, ConnectionRefusedError):
            return connection_to(path)
        _remove_dead(path.parent)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.fspath(path))
            path.chmod(0o600)
            listener.listen(BACKLOG)
            _start(listener, path, env, python or sys.executable)
        return connection_to(path)


def connection_to(path: Path, timeout_s: float | None = ANSWER_S) -> socket.socket:
    """Return a connection to a Unix socket. Raises: OSError."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout_s)
    try:
        connection.connect(os.fspath(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _start(listener: socket.socket, path: Path, env: Mapping[str, str], python: str) -> None:
    """Start the template in its own session, as nobody's child.

    Its environment is what any job may see, but for variables that libraries are loaded with: those are the job's.
    """
    ours = {name: value for name, value in around(os.environ).items() if not loaded_with({name: value})}
    with path.with_suffix(".log").open("wb") as output:
        starter = subprocess.Popen(
            [python, "-u", "-m", f"{__package__}.template", os.fspath(path), ROOM_ARGUMENT],
            env={**ours, **loaded_with(env), **ROOM_ENV, "HOME": NO_HOME},
            cwd="/",
            stdin=listener.fileno(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    starter.wait()


def _remove_dead(folder: Path) -> None:
    """Remove what killed templates have left."""
    for path in folder.glob("*.sock"):
        try:
            connection_to(path).close()
        except OSError:
            path.unlink(missing_ok=True)
            path.with_suffix(".log").unlink(missing_ok=True)
    for path in folder.glob("*.broken"):
        if not _is_broken(path):
            path.unlink(missing_ok=True)


def _ready_connection(path: Path, request: ForkRequest, given_up: Callable[[], bool]) -> socket.socket:
    """Return a connection to a template that has imported everything; replace one that was just ending."""
    for tries_left in (1, 0):
        connection = _connect(path, request.env, request.python)
        try:
            _wait(connection, _patience_s(path), given_up)
            receive(connection)
            return connection
        except (ConnectionError, FileNotFoundError):
            connection.close()
            if not tries_left:
                raise
        except BaseException:
            connection.close()
            raise
    raise AssertionError


def _wait(connection: socket.socket, patience_s: float, given_up: Callable[[], bool]) -> None:
    deadline = time.monotonic() + patience_s
    while not _readable(connection.fileno(), LOOK_S):
        if given_up():
            raise NoTemplate("the process is not needed any more")
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not answer in {patience_s:.0f} s")


def _readable(descriptor: int, timeout_s: float | None = None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def _patience_s(path: Path) -> float:
    age_s = time.time() - path.stat().st_mtime
    return max(START_S - age_s, ANSWER_S)


def _is_broken(path: Path) -> bool:
    try:
        return time.time() - path.with_suffix(".broken").stat().st_mtime < BROKEN_S
    except FileNotFoundError:
        return False
