"""Jobs that really train, for chaos: their cluster is started by the commands that operators type."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from coadapt.client.client import Client
from coadapt.client.http_api import HttpApi
from coadapt.core.job import JobSpec
from coadapt.core.settings import Settings

from .victims import variable
from .world import Way, World

NODES = "2x a100:2, 4x t4:2"
UP_S = 300.0


class RealWorld(World):
    """A cluster of emulated nodes, on which jobs train.

    Args:
        jobs: so many train at a time.
    """

    def __init__(self, folder: Path, spec: JobSpec, jobs: int, mark: str, dice: random.Random) -> None:
        self._spec, self._jobs = spec, jobs
        super().__init__(Settings(state_dir=str(folder / "state")), mark, dice)

    def up(self) -> None:
        """Start the cluster, as an operator or systemd does it. Raises: RuntimeError."""
        done = self._typed("up", "--emulate", NODES, "--round-interval", "5")
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
        self._typed("down", "--grace", "5", "--yes")
        super().close()

    def _ways(self) -> Mapping[str, Way]:
        there = self._there
        return {
            "training": self._killing(there.training),
            "worker": self._of("ray::Worker"),
            "executor": self._of("ray::AdaptiveExecutor"),
            "service": self._of("ray::SchedulerService"),
            "api": self._of("ray::ApiActor"),
            "raylet": self._kill_node,
            "connections": self._cut,
            "store errors": self._refusing(lambda: there.actors("ray::SchedulerService")),
            "checkpoint errors": self._refusing(
                lambda: [one for one in there.training() if variable(one, "RANK") == "0"]
            ),
        }

    def _submit_one(self) -> str:
        return self.client.submit(self._spec)

    def _going(self) -> list[dict[str, object]]:
        return [dict(row) for row in self.client.list() if row["finished_s"] is None]

    def _typed(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "COADAPT_HOME": self.settings.state_dir}
        command = [sys.executable, "-m", "coadapt.cli.main", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=UP_S, check=False)
