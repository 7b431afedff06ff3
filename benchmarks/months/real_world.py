"""Ten jobs that really train, for chaos: their cluster is started by the commands that operators type."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
from coadapt.client.client import Client
from coadapt.client.http_api import HttpApi
from coadapt.core.job import JobSpec
from coadapt.core.settings import Settings

from .counted_jobs import patiently
from .cutting_proxy import CuttingProxy
from .storage_errors import refuse_writes
from .victims import Victims, sigkill, variable

NODES = "2x a100:2, 4x t4:2"
ERRORS_S = 3.0
UP_S = 300.0
HEAD = "head"
Way = Callable[[], bool]


class RealWorld:
    """A cluster of emulated nodes, and jobs that are submitted through a proxy that cuts connections.

    Args:
        jobs: so many train at a time.
    """

    KINDS = (
        *("training", "worker", "executor", "service", "api", "raylet"),
        *("connections", "store errors", "checkpoint errors"),
    )

    def __init__(self, folder: Path, spec: JobSpec, jobs: int, mark: str, dice: random.Random) -> None:
        self.settings = Settings(state_dir=str(folder / "state"))
        self.submitted: list[str] = []
        self._spec, self._jobs, self._dice = spec, jobs, dice
        self._there = Victims(self.settings.state_dir, mark)
        self._proxy = CuttingProxy()
        self.up()

    def up(self) -> None:
        """Start the cluster, as an operator or systemd does it. Raises: RuntimeError."""
        words = [sys.executable, "-m", "coadapt.cli.main", "up", "--emulate", NODES, "--round-interval", "5"]
        environment = {**os.environ, "COADAPT_HOME": self.settings.state_dir}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=UP_S, check=False)
        if done.returncode:
            raise RuntimeError(f"`coadapt up` failed: {done.stderr}")
        record = self._there.record()
        self._proxy.to(record.url)
        self.client = Client(HttpApi(self._proxy.url, record.token()))

    def refill(self) -> None:
        """Submit jobs until enough are there."""
        going = sum(row["id"] in self.submitted for row in self._going())
        for _ in range(self._jobs - going):
            self._submit()

    def moves(self, patience_s: float) -> bool:
        """Return whether some job trains further, within some time."""
        before = {row["id"]: row["steps"] for row in self._going()}
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s:
            if any(row["steps"] > before.get(row["id"], 0) for row in self._going()):
                return True
            time.sleep(0.2)  # between two looks
        return False

    def apply(self, kind: str) -> bool:
        """Let a fault happen; return whether there was something to hurt."""
        there = self._there
        ways: dict[str, Way] = {
            "training": lambda: self._kill(there.training()),
            "worker": lambda: self._kill(there.actors("ray::Worker")),
            "executor": lambda: self._kill(there.actors("ray::AdaptiveExecutor")),
            "service": lambda: self._kill(there.actors("ray::SchedulerService")),
            "api": lambda: self._kill(there.actors("ray::ApiActor")),
            "raylet": self._kill_node,
            "connections": self._cut,
            "store errors": lambda: self._refuse(there.actors("ray::SchedulerService")),
            "checkpoint errors": lambda: self._refuse(
                [one for one in there.training() if variable(one, "RANK") == "0"]
            ),
            HEAD: self._kill_head,
        }
        return ways[kind]()

    def finish(self, patience_s: float) -> list[dict[str, object]]:
        """Return what became of every job, after all have ended or the time is up."""
        with suppress(TimeoutError):
            self.client.wait(self.submitted, timeout_s=patience_s)
        found = [self.client.describe(job_id) for job_id in self.submitted]
        return [{"id": d["id"], "phase": d["phase"], "reason": d["reason"], **d["metrics"]} for d in found]

    def stored(self) -> int:
        """Return how many jobs the store has."""
        return len(self.client.list())

    def close(self) -> None:
        """End the cluster."""
        environment = {**os.environ, "COADAPT_HOME": self.settings.state_dir}
        words = [sys.executable, "-m", "coadapt.cli.main", "down", "--grace", "5", "--yes"]
        subprocess.run(words, env=environment, capture_output=True, timeout=UP_S, check=False)
        self._proxy.close()

    def _going(self) -> list[dict[str, object]]:
        return [dict(row) for row in self.client.list() if row["finished_s"] is None]

    def _submit(self) -> None:
        self.submitted.append(patiently(lambda: self.client.submit(self._spec)))

    def _kill(self, processes: list[psutil.Process]) -> bool:
        return bool(processes) and sigkill(self._dice.choice(processes))

    def _kill_node(self) -> bool:
        self._there.kill_node(self._dice.choice)
        return True

    def _kill_head(self) -> bool:
        for process in self._there.head():
            sigkill(process)
        self.up()
        return True

    def _cut(self) -> bool:
        """Drop the answers to a submit until it has come through."""
        self._proxy.cut(2)
        self._submit()
        return True

    def _refuse(self, processes: list[psutil.Process]) -> bool:
        return bool(processes) and refuse_writes(self._dice.choice(processes), ERRORS_S)
