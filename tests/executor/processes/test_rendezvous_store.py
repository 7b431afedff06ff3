"""The store in which a job's groups meet is there as long as its executor, and costs that no torch."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import timedelta

import psutil
import pytest
from torch.distributed import TCPStore

KEEPS = """
import os, socket, sys, threading
from coadapt.executor.processes import rendezvous_store as store, template_client
from coadapt.executor.protocol.ranks import Rendezvous
from coadapt.executor.processes.template_wire import Owner
if sys.argv[2:] == ["alone"]:
    def none(*args):
        raise template_client.NoTemplate("there is none")
    template_client.fork = none
store.SOON_S = 0.0
listener = socket.create_server(("127.0.0.1", 0))
address = Rendezvous("127.0.0.1", listener.getsockname()[1])
owner = Owner(sys.argv[1], os.getppid())
threading.Thread(target=store.keep, args=(listener, address, owner), daemon=True).start()
print(address.port, flush=True)
input()
print("torch" in sys.modules, flush=True)
"""


SESSION = uuid.uuid4().hex


class Executor:
    """A process that keeps a store."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-c", KEEPS, SESSION, *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def store(self) -> TCPStore:
        return TCPStore("127.0.0.1", self.port, is_master=False, timeout=timedelta(seconds=60))

    def loaded_torch(self) -> bool:
        return self.process.communicate("\n", timeout=60)[0].split() == ["True"]


@pytest.fixture
def executor() -> Iterator[Executor]:
    made = Executor()
    yield made
    made.process.kill()
    made.process.communicate()


def server_of(port: int) -> psutil.Process:
    """Return the forked process that serves at a port, which its command line names."""
    return next(
        process
        for process in psutil.process_iter(["cmdline"])
        if {"coadapt.executor.processes.rendezvous_store", str(port)} <= set(process.info["cmdline"] or ())
    )


def test_groups_meet_there_and_the_executor_loads_no_torch(executor: Executor) -> None:
    executor.store().set("a", "1")
    assert executor.store().get("a") == b"1"
    server = server_of(executor.port)
    assert not executor.loaded_torch()
    server.wait(timeout=60)


def test_a_store_whose_template_was_killed_is_served_anew(executor: Executor) -> None:
    executor.store().set("a", "1")
    first = server_of(executor.port)
    os.kill(first.ppid(), signal.SIGKILL)
    first.wait(timeout=60)
    executor.store().set("b", "2")
    assert executor.store().get("b") == b"2"
    assert server_of(executor.port).pid != first.pid


def test_without_a_template_the_executor_serves_it_itself() -> None:
    alone = Executor("alone")
    alone.store().set("a", "1")
    assert alone.store().get("a") == b"1"
    assert alone.loaded_torch()


def test_it_ends_with_the_executor(executor: Executor) -> None:
    executor.store().set("a", "1")
    server = server_of(executor.port)
    executor.process.kill()
    server.wait(timeout=60)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", executor.port)) != 0
