"""The input of a job on an emulated node: how long a loader worker takes for a sample, and the storage for a byte.

A worker does its real work, then waits until a core of the described machine would have been done. So workers
that mostly sleep show on two cores how fast a job is with 24. Reading goes on beside preparing, as the storage
reads ahead: a sample is there when both would be done.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ....core.input_profile import InputProfile
from ...protocol.messages import PACE_JSON

GIB = 2**30
MOST_OWED = 5.0  # samples; a stopped laptop must not make those after it free


class Storage(Protocol):
    """The storage of a node, which one job's processes there share."""

    def reserve(self, seconds: float) -> float:
        """Return when it has read for so long, on the monotonic clock, after all that it was asked for before."""


@dataclass
class InputPace:
    """The pace of one loader worker; every time is divided by `time_scale`.

    samples: of the script's data set, which stands for all that the profile describes.
    """

    profile: InputProfile
    workers: int
    samples: int
    time_scale: float = 1.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _owed_s: float = field(default=0.0, init=False)
    _read_at_s: float = field(default=0.0, init=False)

    @property
    def sample_s(self) -> float:
        """Seconds of one worker for a sample, as one of so many."""
        rate = float(np.interp(self.workers, self.profile.cpus, self.profile.prepared))
        return self.workers / rate / self.time_scale

    @property
    def charge(self) -> int:
        """Bytes that a sample takes in a cache, so that all of them take as much as the described data set."""
        return int(self.profile.dataset_gib * GIB / self.samples)

    def read(self, storage: Storage) -> None:
        """Note that a sample comes from the storage."""
        if self.profile.storage_gib_per_s is not None:
            bytes_gib = self.profile.dataset_gib / (self.profile.samples or self.samples)
            seconds = bytes_gib / self.profile.storage_gib_per_s / self.time_scale
            self._read_at_s = max(self._read_at_s, storage.reserve(seconds))

    @contextmanager
    def sample(self, count: int = 1) -> Iterator[None]:
        """Take as long for the samples within the block as the described machine would."""
        global current
        current, self._read_at_s, began_s = self, 0.0, self.clock()
        try:
            yield
        finally:
            current = None
        takes_s = count * self.sample_s
        due_s = max(began_s + takes_s - self._owed_s, self._read_at_s)
        if (pause_s := due_s - self.clock()) > 0:
            self.sleep(pause_s)
        late_s = self.clock() - max(began_s + takes_s, self._read_at_s)
        self._owed_s = min(max(self._owed_s + late_s, 0.0), MOST_OWED * self.sample_s)


current: InputPace | None = None  # of the sample that this process prepares now


def input_pace(workers: int, samples: int) -> InputPace | None:
    """Return the pace that the environment asks for; None: samples take as long as they take."""
    wanted = json.loads(os.environ.get(PACE_JSON) or "{}")
    if not wanted.get("input"):
        return None
    profile = InputProfile.model_validate(wanted["input"])
    return InputPace(profile, workers, samples, float(wanted.get("time_scale", 1.0)))
