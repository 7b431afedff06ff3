"""The same trials by Ray Tune: each trial has a GPU to itself, at full width."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...tuning.rungs import levels
from ...tuning.space import Value
from .fusion_profile import FusionProfile
from .pool import START_S
from .response import Response


@dataclass(frozen=True)
class RayOutcome:
    """What a study by Ray Tune took and found. `epochs`: of all trials; `trial`, `metric`: the best."""

    makespan_s: float
    epochs: int
    trial: int
    metric: float


def ray_tune(
    trials: Sequence[Mapping[str, Value]],
    epochs: int,
    gpus: int,
    profile: FusionProfile,
    response: Response,
    asha: tuple[int, int] | None = None,
    shrink: int = 1,
) -> RayOutcome:
    """Return what trials take that start in their order, each on the next GPU that is free.

    Args:
        asha: grace and reduction; None: every trial is trained to the end. A trial goes on at a rung unless it is
            below the (1 - 1 / reduction) quantile of those that came before it, as in Ray Tune's scheduler.
        shrink: divisor of the width, for shrinking alone.
    """
    rungs = [] if asha is None else levels(asha[0], asha[1], epochs)
    quantile = 0.0 if asha is None else 1 - 1 / asha[1]
    recorded: dict[int, list[float]] = {rung: [] for rung in rungs}
    last: dict[int, float] = {}
    events: list[tuple[float, int, int]] = []  # when a trial ends its epoch
    at = [0] * len(trials)
    waiting = list(range(len(trials)))[::-1]
    total, now_s = 0, 0.0

    def seconds(trial: int) -> float:
        batch = trials[trial].get("batch_size", 256)
        return profile.epoch_s(1, shrink, batch if isinstance(batch, int) else 256)

    for _ in range(min(gpus, len(trials))):
        trial = waiting.pop()
        heapq.heappush(events, (START_S + seconds(trial), trial, 0))
    while events:
        now_s, trial, _ = heapq.heappop(events)
        at[trial] += 1
        total += 1
        ends = at[trial] >= epochs
        if not ends and at[trial] not in recorded:
            heapq.heappush(events, (now_s + seconds(trial), trial, 0))
            continue
        last[trial] = metric = response.metric(trials[trial], shrink, at[trial], epochs)
        if at[trial] in recorded:
            before = recorded[at[trial]]
            ends = ends or bool(before and metric < float(np.quantile(before, quantile)))
            before.append(metric)
        if not ends:
            heapq.heappush(events, (now_s + seconds(trial), trial, 0))
        elif waiting:
            trial = waiting.pop()
            heapq.heappush(events, (now_s + START_S + seconds(trial), trial, 0))
    best = max(last, key=lambda one: (last[one], -one))
    return RayOutcome(now_s, total, best, last[best])
