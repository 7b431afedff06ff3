"""Runs `scripts/input_bound.py` as a job without Ray, for benchmarks of loader workers and caches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.executor.processes.left_overs import remove_left_overs
from coadapt.executor.protocol import messages
from coadapt.executor.protocol.messages import Command, Joined
from coadapt.executor.rehearsal.group import Member, TrainingGroup

SCRIPT = Path(__file__).parent / "scripts" / "input_bound.py"
QUICK = TrainingConfig(report_interval_s=0.2, checkpoint=CheckpointConfig(at_epoch_end=False))
USUAL: dict[str, Any] = {
    "samples": 400,
    "sample_bytes": 1000,
    "epochs": 4,
    "batch": 8,
    "workers": 2,
    "prepare_s": 0.0,
    "step_s": 0.0,
    "cached": True,
    "label": 1,
}


@dataclass
class InputRun:
    """One job that trains by the script; `given` overrides `USUAL`."""

    folder: Path
    given: dict[str, Any] = field(default_factory=dict)
    cache_bytes: int | None = None
    ranks: int = 1
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.given = USUAL | self.given
        self.folder.mkdir(parents=True)
        self.members: list[Member] = []

    @contextmanager
    def running(self, stops: bool = False) -> Iterator[TrainingGroup]:
        """Train within the block. What is not done by its end is waited for, or where it `stops` left out."""
        with self._group() as job:
            self.members = job.start(self.ranks)
            job.join(self.members)
            yield job
            if stops:
                job.stop(save=False)
            else:
                job.finish()

    @contextmanager
    def alone(self) -> Iterator[Member]:
        """Yield a process that joins no group, as one that is profiled."""
        with self._group() as job:
            yield job.start()[0]

    def _group(self) -> TrainingGroup:
        remove_left_overs()
        env = {messages.JOB_ID: self.folder.name, messages.NODE_ID: "here", **self.env}
        if self.cache_bytes is not None:
            env[messages.CACHE_BYTES] = str(self.cache_bytes)
        args = [str(self.folder), json.dumps(self.given)]
        return TrainingGroup(SCRIPT, self.folder, QUICK, checkpoints=False, env=env, args=args)

    def epoch(self) -> int:
        """Return the epoch of the last step."""
        return max((row[0] for row in self.steps()), default=0)

    def send(self, command: Command) -> None:
        for member in self.members:
            member.send(command)

    @property
    def restarts(self) -> int:
        """Groups beyond the first, over all processes."""
        return sum(len(member.all(Joined)) - 1 for member in self.members)

    def steps(self) -> list[list[Any]]:
        """Return (epoch, moment, loss, indices, labels) of each step of each rank."""
        return [
            json.loads(line)
            for file in sorted(self.folder.glob("steps-*.txt"))
            for line in file.read_text().splitlines()
        ]

    def seen(self) -> Counter[tuple[int, int]]:
        """Count how often each (epoch, sample) was trained on."""
        return Counter((epoch, index) for epoch, _, _, indices, _ in self.steps() for index in indices)

    def read_in(self, epoch: int) -> set[int]:
        """Return the samples that were read from storage in an epoch."""
        lines = [
            line.split() for file in self.folder.glob("reads-*.txt") for line in file.read_text().splitlines()
        ]
        return {int(index) for at, index in lines if int(at) == epoch}
