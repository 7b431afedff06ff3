"""The pace of a GPU type on a node that has none.

A training process on an emulated node does its real work on CPU, then waits until its GPU type would have been
done. Where the CPU is the slower one, the time is owed and taken off later waits, so that the mean is right.
A real GPU is never paced: its process has no `COADAPT_PACE`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..core.emulated_nodes import PACE_PROFILES
from .throughput import ThroughputParams

# The most time owed, in steps: a long pause (a stopped laptop) must not make the steps after it free.
MAX_OWED_STEPS = 5.0


@dataclass
class Pace:
    """How fast `profile`'s model is on `gpu_type`; every time is divided by `time_scale`."""

    profile: str
    gpu_type: str
    params: ThroughputParams
    max_local_bsz: int
    time_scale: float = 1.0
    clock: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    owed_s: float = field(default=0.0, init=False)
    busy_s: float = field(default=0.0, init=False)  # for so long the GPU would have worked until now
    on_step: Callable[[float, float], None] | None = field(default=None, init=False)  # told busy_s, step's seconds

    @staticmethod
    def from_json(text: str | None, gpu_type: str) -> Pace | None:
        """Read the pace that a worker's environment asks for; None where it asks for none.

        Raises ValueError for a profile or GPU type that `pace_profiles.json` does not have.
        """
        if not text:
            return None
        wanted = json.loads(text)
        return Pace.of(wanted["profile"], gpu_type, float(wanted.get("time_scale", 1.0)))

    @staticmethod
    def of(profile: str, gpu_type: str, time_scale: float = 1.0) -> Pace:
        """Return the pace of a GPU type. Raises ValueError for one that `pace_profiles.json` does not have."""
        if not time_scale > 0:
            raise ValueError(f"emulation.time_scale: {time_scale} is not more than 0")
        profiles = measured_profiles()
        if profile not in profiles:
            raise ValueError(f"emulation.profile: {profile!r} is unknown; there are {_names(profiles)}")
        by_type = profiles[profile]
        if gpu_type not in by_type:
            raise ValueError(
                f"emulation.profile: {profile!r} was not measured on GPU type {gpu_type!r}; "
                f"it was on {_names(by_type)}"
            )
        entry = by_type[gpu_type]
        params = ThroughputParams.from_json(entry["params"])
        return Pace(profile, gpu_type, params, int(entry["max_local_bsz"]), time_scale)

    def step_time_s(self, nodes: int, replicas: int, local_bsz: int, accumulation: int) -> float:
        """Time of one optimizer step."""
        return float(self.params.step_time_s(nodes, replicas, local_bsz, accumulation)) / self.time_scale

    def sync_time_s(self, nodes: int, replicas: int, local_bsz: int, accumulation: int) -> float:
        """Return the part of a step that one replica alone would not need."""
        alone = self.step_time_s(1, 1, local_bsz, accumulation)
        return max(self.step_time_s(nodes, replicas, local_bsz, accumulation) - alone, 0.0)

    def wait(self, started_s: float, nodes: int, replicas: int, local_bsz: int, accumulation: int) -> None:
        """Return when a step that started at `started_s` of `clock` is over on this GPU type."""
        step_time_s = self.step_time_s(nodes, replicas, local_bsz, accumulation)
        pause_s = started_s + step_time_s - self.owed_s - self.clock()
        if pause_s > 0:
            self.sleep(pause_s)
        late_s = self.clock() - started_s - step_time_s
        self.owed_s = min(max(self.owed_s + late_s, 0.0), MAX_OWED_STEPS * step_time_s)
        self.busy_s += step_time_s
        if self.on_step is not None:
            self.on_step(self.busy_s, step_time_s)

    def forgive(self) -> None:
        """Forget what is owed: the group changed."""
        self.owed_s = 0.0


def gpu_types(profile: str) -> list[str]:
    """Return the GPU types a profile knows; raises ValueError for an unknown profile."""
    profiles = measured_profiles()
    if profile not in profiles:
        raise ValueError(f"emulation.profile: {profile!r} is unknown; there are {_names(profiles)}")
    return sorted(profiles[profile])


@cache
def part_of_fastest(profile: str, gpu_type: str) -> float:
    """Return the speed of one GPU of a type over that of the fastest type on which a model was measured.

    Both have the largest batch that fits every type. Raises ValueError as `Pace.of`.
    """
    paces = {t: Pace.of(profile, t) for t in {*gpu_types(profile), gpu_type}}
    local_bsz = min(pace.max_local_bsz for pace in paces.values())
    times_s = {t: pace.step_time_s(1, 1, local_bsz, 0) for t, pace in paces.items()}
    return min(times_s.values()) / times_s[gpu_type]


@cache
def measured_profiles() -> dict[str, dict[str, Any]]:
    """Return what was measured, by model and GPU type."""
    return json.loads(PACE_PROFILES.read_text())["profiles"]


def _names(items: Mapping[str, Any]) -> str:
    return ", ".join(sorted(items))
