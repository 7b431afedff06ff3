"""Jobs of stub executors, for chaos: so cheap that there are many, and over so soon that all of them end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
from coadapt.client.client import Client
from coadapt.client.http_api import HttpApi

from .counted_jobs import patiently
from .cutting_proxy import CuttingProxy
from .house import House, house, settings_in
from .many_jobs import SPEC
from .real_world import ERRORS_S, HEAD
from .storage_errors import refuse_writes
from .victims import Victims, sigkill

NODES = "4x t4:8"
LASTS_S = 20.0
JOBS = 24  # that have not ended, at a time


class StubWorld:
    """As `RealWorld`, with one actor for the executors of all jobs."""

    KINDS = ("executors", "service", "api", "raylet", "connections", "store errors")

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.settings = settings_in(folder / "state", round_interval_s=2.0, policy="fifo")
        self.submitted: list[str] = []
        self._folder, self._dice = folder, dice
        self._there = Victims(self.settings.state_dir, str(folder))
        self._proxy, self._stack = CuttingProxy(), ExitStack()
        self.up()

    def up(self) -> None:
        """Start the cluster with its service."""
        self._house: House = self._stack.enter_context(house(self.settings, NODES, LASTS_S))
        self._proxy.to(self._house.record.url)
        self.client = Client(HttpApi(self._proxy.url, self._house.record.token()))
        self._package = self._house.put_package(self._folder / "script")

    def refill(self) -> None:
        """Submit jobs until enough are there."""
        going = sum(row["finished_s"] is None for row in self.client.list())
        for _ in range(JOBS - going):
            self._submit()

    def moves(self, patience_s: float) -> bool:
        """Return whether some job ends, within some time."""
        ended = self._ended()
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s:
            if self._ended() > ended:
                return True
            time.sleep(0.2)  # between two looks
        return False

    def apply(self, kind: str) -> bool:
        """Let a fault happen; return whether there was something to hurt."""
        there = self._there
        ways: dict[str, Callable[[], bool]] = {
            "executors": lambda: self._kill(there.actors("ray::StubExecutors")),
            "service": lambda: self._kill(there.actors("ray::TimedService")),
            "api": lambda: self._kill(there.actors("ray::ApiActor")),
            "raylet": self._kill_node,
            "connections": self._cut,
            "store errors": lambda: self._refuse(there.actors("ray::TimedService")),
            HEAD: self._kill_head,
        }
        return ways[kind]()

    def finish(self, patience_s: float) -> list[dict[str, object]]:
        """Return what became of every job, after all have ended or the time is up."""
        with suppress(TimeoutError):
            self.client.wait(self.submitted, timeout_s=patience_s)
        rows = {row["id"]: row for row in self.client.jobs()}
        return [
            {"id": name, "phase": rows[name]["phase"], "reason": rows[name]["reason"], "wrong": 0.0}
            if name in rows
            else {"id": name, "phase": "lost", "reason": "no such job"}
            for name in self.submitted
        ]

    def stored(self) -> int:
        """Return how many jobs the store has."""
        return len(self.client.jobs())

    def close(self) -> None:
        """End the cluster."""
        self._stack.close()
        self._proxy.close()

    def _submit(self) -> None:
        self.submitted.append(patiently(lambda: self._house.submit(self.client, SPEC, self._package)))

    def _ended(self) -> int:
        return sum(row["finished_s"] is not None for row in self.client.list())

    def _kill(self, processes: list[psutil.Process]) -> bool:
        return bool(processes) and sigkill(self._dice.choice(processes))

    def _kill_node(self) -> bool:
        self._there.kill_node(self._dice.choice)
        return True

    def _kill_head(self) -> bool:
        for process in self._there.head():
            sigkill(process)
        self._stack.close()
        self.up()
        return True

    def _cut(self) -> bool:
        self._proxy.cut(2)
        self._submit()
        return True

    def _refuse(self, processes: list[psutil.Process]) -> bool:
        return bool(processes) and refuse_writes(self._dice.choice(processes), ERRORS_S)
