"""The store in which a job's groups meet is there as long as its executor, which loads no torch for it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta

import psutil
import pytest
from torch.distributed import TCPStore

HOST = "coadapt.executor.processes.helper"
KEEPS = """
import os, socket, sys, threading
from coadapt.executor.processes import rendezvous_store as store, template_client
from coadapt.executor.protocol.ranks import Rendezvous
from coadapt.executor.processes.template_wire import Owner
if sys.argv[2:] == ["alone"]:
    def none(*args):
        raise template_client.NoTemplate("there is none")
    template_client.fork = none
listener = socket.create_server(("127.0.0.1", 0))
address = Rendezvous("127.0.0.1", listener.getsockname()[1])
owner = Owner(sys.argv[1], os.getppid())
threading.Thread(target=store.keep, args=(listener, address, owner), daemon=True).start()
print(address.port, flush=True)
input()
print("torch" in sys.modules, flush=True)
"""


WAIT_S = 60.0


class Executor:
    """A process that keeps a store."""

    def __init__(self, session: str, *options: str) -> None:
        command = [sys.executable, "-c", KEEPS, session, *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def store(self) -> TCPStore:
        return TCPStore("127.0.0.1", self.port, is_master=False, timeout=timedelta(seconds=60))

    def loaded_torch(self) -> bool:
        return self.process.communicate("\n", timeout=WAIT_S)[0].split() == ["True"]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def begin() -> Iterator[Callable[..., Executor]]:
    """Return a function that starts an executor; those of one test are of one cluster."""
    session = uuid.uuid4().hex
    executors: list[Executor] = []

    def begun(*options: str) -> Executor:
        executors.append(Executor(session, *options))
        return executors[-1]

    yield begun
    for executor in executors:
        executor.end()


def serves(store: TCPStore) -> bool:
    store.set("a", "1")
    return store.get("a") == b"1"


def server_of(port: int) -> psutil.Process:
    """Return the process that serves a store: the one of those for stores that listens there."""
    for process in psutil.process_iter(["cmdline"]):
        sockets = process.net_connections("tcp") if HOST in (process.info["cmdline"] or ()) else ()
        if any(one.laddr.port == port for one in sockets if one.status == "LISTEN"):
            return process
    raise AssertionError(f"no helper listens at port {port}")


def test_groups_meet_there_and_the_executor_loads_no_torch(begin: Callable[..., Executor]) -> None:
    executor = begin()
    assert serves(executor.store())
    assert not executor.loaded_torch()


def test_executors_of_a_machine_share_one_process(begin: Callable[..., Executor]) -> None:
    executors = [begin() for _ in range(3)]
    for executor in executors:
        assert serves(executor.store())
    first = server_of(executors[0].port)
    assert {server_of(executor.port).pid for executor in executors} == {first.pid}
    executors[0].end()
    assert refuses(executors[0].port), "a store ends with its executor"
    assert all(serves(executor.store()) for executor in executors[1:]), "and no other one does"
    for executor in executors[1:]:
        executor.end()
    first.wait(timeout=WAIT_S)


@pytest.mark.parametrize("whom", ["the helper", "the template"])
def test_stores_are_served_anew_where_a_process_was_killed(whom: str, begin: Callable[..., Executor]) -> None:
    executors = [begin() for _ in range(2)]
    assert all(serves(executor.store()) for executor in executors)
    first = server_of(executors[0].port)
    os.kill(first.pid if whom == "the helper" else first.ppid(), signal.SIGKILL)
    first.wait(timeout=WAIT_S)
    assert all(serves(executor.store()) for executor in executors)
    assert server_of(executors[0].port).pid != first.pid


def test_without_a_template_the_process_is_started_the_plain_way(begin: Callable[..., Executor]) -> None:
    alone = begin("alone")
    assert serves(alone.store())
    assert not alone.loaded_torch()


def refuses(port: int) -> bool:
    """Wait until nobody listens at a port."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return True
        time.sleep(0.01)  # between two looks, up to a limit
    return False
