"""`python -m coadapt.executor.processes.template`: import torch once and fork training processes.

Importing takes seconds of CPU, a fork milliseconds. The template imports, and makes sure that no thread runs and
that CUDA is untouched. Then it waits for requests on its Unix socket and for the ends of its children. If whoever
asked for a child goes away, the template ends that child and what it started. `template_client.py` starts it and
asks it.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import select
import selectors
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ..sandbox import ownership
from .process_view import show_as
from .template_wire import READY, ForkRequest, Owner, receive, send

IDLE_S = 600.0  # it ends after so long without a child
REQUEST_S = 5.0  # a message that has begun arrives within this time
TRIES_S = 1.0  # between two tries to end, while another process looks for a template
# Almost every script loads these later; the first optimizer of a process imports the first of them.
PRELOADED = ("torch._dynamo", "torch.utils.data", "torch.utils.serialization", "fsspec.implementations.local")
# Python itself ignores these in every process.
_IGNORED = {signal.SIGPIPE, signal.SIGXFSZ}


class TemplateError(RuntimeError):
    """Report that this process cannot be forked safely."""


@dataclass
class Child:
    """Hold a forked process and the connection of whoever asked for it."""

    pid: int
    pidfd: int
    connection: socket.socket


class Template:
    """Serve requests until nothing has run for `idle_s`, or the last owner is gone."""

    def __init__(self, listener: socket.socket, path: Path, idle_s: float = IDLE_S) -> None:
        self._listener = listener
        self._path = path
        self._idle_s = idle_s
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, Child] = {}
        self._owners: dict[int, int] = {}  # pid -> pidfd
        self._had_owners = False
        self._idle_since_s = time.monotonic()
        # A child keeps descriptors that libraries have opened, and none of ours.
        self._kept = _open_descriptors() - {listener.fileno(), self._selector.fileno()}
        self._watch(listener, self._accept)

    def serve(self) -> None:
        while True:
            for key, _ in self._selector.select(self._patience_s()):
                # One event may have closed what another of the same select is about.
                if self._selector.get_map().get(key.fd) is key:
                    key.data()
            if self._over() and self._closed():
                return

    # --- its own end ----------------------------------------------------------------------------------------

    def _patience_s(self) -> float | None:
        if self._children:
            return None
        return TRIES_S if self._over() else self._idle_since_s + self._idle_s - time.monotonic()

    def _over(self) -> bool:
        if self._children:
            return False
        return (self._had_owners and not self._owners) or time.monotonic() >= self._idle_since_s + self._idle_s

    def _closed(self) -> bool:
        """Remove the socket, unless someone is looking for a template now; return whether it is gone."""
        with (self._path.parent / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            for path in (self._path, self._path.with_suffix(".log")):
                path.unlink(missing_ok=True)
            self._listener.close()
        return True

    # --- requests -------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.settimeout(REQUEST_S)
            with suppress(OSError):  # whoever only names an owner does not wait for this
                send(connection, READY)
            self._watch(connection, lambda: self._ask(connection))

    def _ask(self, connection: socket.socket) -> None:
        """Read the one message of a connection and carry it out."""
        self._unwatch(connection)
        try:
            message, descriptors = receive(connection)
        except OSError:
            connection.close()
            return
        try:
            wanted, lasts = message.pop("fork", False), message.pop("lasts", False)
            self._own(Owner(**message))
            if wanted and len(descriptors) == 3 and not _hung_up(connection):
                self._fork(connection, *descriptors, lasts=bool(lasts))
            else:
                connection.close()
        except (OSError, TypeError):
            connection.close()
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _own(self, owner: Owner) -> None:
        self._had_owners = True
        if owner.pid in self._owners:
            return
        with suppress(ProcessLookupError):
            pidfd = os.pidfd_open(owner.pid)
            self._owners[owner.pid] = pidfd
            self._watch(pidfd, lambda: self._disown(owner.pid))

    def _disown(self, pid: int) -> None:
        pidfd = self._owners.pop(pid)
        self._unwatch(pidfd)
        os.close(pidfd)

    # --- children -------------------------------------------------------------------------------------------

    def _fork(self, connection: socket.socket, channel: int, output: int, request: int, *, lasts: bool) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            become(request, channel, output, self._kept, parent)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        child = self._children[pid] = Child(pid, pidfd, connection)
        self._watch(pidfd, lambda: self._ended(child))
        if not lasts:  # else it serves others, too, and ends by itself
            self._watch(connection, lambda: _end(child))
        try:
            send(connection, {"pid": pid}, [pidfd])
        except OSError:
            _end(child)

    def _ended(self, child: Child) -> None:
        """Forget a child that has ended; until it is waited for its number cannot be anyone else's."""
        _end(child)
        status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        with suppress(OSError):
            send(child.connection, {"status": status})
        for end in (child.pidfd, child.connection):
            self._unwatch(end)
        os.close(child.pidfd)
        child.connection.close()
        del self._children[child.pid]
        self._idle_since_s = time.monotonic()

    # --- what is waited for ---------------------------------------------------------------------------------

    def _watch(self, end: int | socket.socket, act: Callable[[], None]) -> None:
        self._selector.register(end, selectors.EVENT_READ, act)

    def _unwatch(self, end: int | socket.socket) -> None:
        with suppress(KeyError):
            self._selector.unregister(end)


def _end(child: Child) -> None:
    """End a child and everything it started; without its own session it has started nothing yet."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


# The module of each kind of process, as its command line shows it.
_ROOM = __package__.rpartition(".")[0]
_MODULES = {"script": f"{_ROOM}.training.process", "helper": f"{__package__}.helper"}


def become(file: int, channel: int, output: int, kept: Iterable[int], parent: int) -> NoReturn:
    """Become the process that a file asks for: run its script and end, as if started by itself."""
    from ..training import process
    from . import helper

    status = 1
    try:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        request = ForkRequest.read(file)
        if request.uid is not None:
            ownership.become(request.uid)
        process.die_with(parent)  # the kernel forgets this where a process changes its user
        for descriptor in _open_descriptors() - {0, 1, 2, channel, *kept}:
            os.close(descriptor)
        _usual_signals()
        _environment(request)
        _fresh_entropy()
        os.chdir(request.cwd)
        if request.kind == "helper":
            helper.serve(request.script, channel)
        status = process.serve(request.script, request.args, channel)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            process.leave(status)
        finally:
            os._exit(status)


def _environment(request: ForkRequest) -> None:
    """Set the environment, and what Python derives from it at its start."""
    env = request.environment
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    tempfile.tempdir = None
    # The first entry is for the script's folder, as in every process.
    sys.path[:] = ["", *request.paths, *sys.path[0 if sys.flags.safe_path else 1 :]]
    importlib.invalidate_caches()
    command = [sys.executable, "-u", "-m", _MODULES[request.kind], request.script, *request.args]
    show_as(command, env)


def _usual_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.valid_signals():
        # None: not set by Python, but say by a fault handler that the environment asked for.
        if number in _IGNORED or signal.getsignal(number) in (None, signal.SIG_DFL):
            continue
        with suppress(OSError, ValueError):  # SIGKILL and the like
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _fresh_entropy() -> None:
    """Seed what a fork would share; Python's own generator seeds itself."""
    import multiprocessing

    import numpy as np

    np.random.seed()  # noqa: NPY002 - what scripts that ask numpy for numbers draw from
    multiprocessing.current_process().authkey = os.urandom(32)


# --- start ------------------------------------------------------------------------------------------------------


def load() -> None:
    """Import everything and make sure that this process can be forked. Raises: TemplateError, ImportError."""
    gc.disable()
    for name in _MODULES.values():  # by name: an import that nothing here uses would be taken for a leftover
        importlib.import_module(name)
    for name in PRELOADED:
        with suppress(ImportError):  # another version of torch
            importlib.import_module(name)
    _try_a_fork()
    gc.enable()
    gc.collect()
    gc.freeze()


def _try_a_fork() -> None:
    """Fork once, which ends idle threads of libraries such as OpenBLAS; no other thread may run then."""
    import torch

    pid = os.fork()
    if pid == 0:
        # A process whose parent has only looked for a GPU cannot use one.
        os._exit(int(getattr(torch._C, "_cuda_isInBadFork", bool)()))
    if os.waitpid(pid, 0)[1]:
        raise TemplateError("a library has touched CUDA while it was imported")
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise TemplateError(f"{threads - 1} threads run beside the main one")


def _open_descriptors() -> set[int]:
    # The descriptor that lists them is closed before they are looked at.
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}


def _hung_up(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def main() -> None:
    """Run `template SOCKET`, with the listening socket as standard input."""
    if os.fork():
        os._exit(0)  # nobody's child: Ray ends the children of its workers with them
    path = Path(sys.argv[1])
    listener = socket.socket(fileno=os.dup(0))
    os.set_inheritable(listener.fileno(), False)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    load()
    Template(listener, path).serve()
    os._exit(0)  # there is nothing to tidy up, and what libraries do at exit takes a while


if __name__ == "__main__":
    main()
