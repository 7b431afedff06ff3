"""Jobs of stub executors, for chaos: so cheap that there are many, and over so soon that all of them end."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from coadapt.client.client import Client
from coadapt.client.http_api import HttpApi

from .house import House, house, settings_in
from .many_jobs import SPEC
from .world import Way, World

NODES = "4x t4:8"
LASTS_S, PROFILE_S = 20.0, 1.0
JOBS = 24  # that have not ended, at a time


class StubWorld(World):
    """A cluster on which one actor stands for the executors of all jobs."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self._folder, self._stack = folder, ExitStack()
        super().__init__(settings_in(folder / "state", round_interval_s=2.0, policy="fifo"), str(folder), dice)

    def up(self) -> None:
        """Start the cluster with its service, after what is left of the one before."""
        self._stack.close()
        self._house: House = self._stack.enter_context(house(self.settings, NODES, LASTS_S, PROFILE_S))
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
        super().close()

    def _ways(self) -> Mapping[str, Way]:
        return {
            "executors": self._of("ray::StubExecutors"),
            "service": self._of("ray::TimedService"),
            "api": self._of("ray::ApiActor"),
            "raylet": self._kill_node,
            "connections": self._cut,
            "store errors": self._refusing(lambda: self._there.actors("ray::TimedService")),
        }

    def _submit_one(self) -> str:
        return self._house.submit(self.client, SPEC, self._package)

    def _ended(self) -> int:
        return sum(row["finished_s"] is not None for row in self.client.list())
