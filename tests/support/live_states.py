"""Live states for tests of forecasts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from coadapt.core.expected import Expected, ExpectedSource
from coadapt.core.placement import Placement
from coadapt.forecasts.state import LiveJob, LiveState, PastJob

from .rounds import cluster, model, spec

NOW_S = 1_000_000.0


def live(
    id: str,
    seconds: float | None = 600.0,
    *,
    speed: float = 10.0,
    placement: Placement | None = None,
    band: float = 1.1,
    **fields: Any,
) -> LiveJob:
    """Return a job that needs so many seconds on one GPU of type t4, and its GPUs if it has some.

    seconds: None: nobody knows.
    band: the high end of what is expected over its mean.
    """
    resources = {"min_gpus": 1, "max_gpus": 4, **fields.pop("resources", {})}
    adaptivity = fields.pop("adaptivity", "adaptive")
    kwargs: dict[str, Any] = {
        "spec": spec(id, adaptivity, **resources),
        "submitted_s": NOW_S - 100.0,
        "model": model({"t4": speed, "a100": 3 * speed}),
        "placement": placement,
        "start_s": 5.0,
        "move_s": 1.0,
    }
    if seconds is not None:
        expected = Expected(seconds, seconds / band, seconds * band, ExpectedSource.MEASURED_SPEED)
        kwargs |= {
            "mean_s": seconds,
            "low_s": expected.low_s,
            "high_s": expected.high_s,
            "source": expected.source,
            "remaining": seconds * speed,
        }
    return LiveJob(id=id, **{**kwargs, **fields})


def state(where: str, jobs: Sequence[LiveJob], policy: str = "sia", **fields: Any) -> LiveState:
    """Return a state of a cluster such as "2x t4:4"."""
    known: dict[str, Any] = {"round": 7, "interval_s": 60.0, "early_s": 0.5, "options": {}}
    return LiveState(
        now_s=NOW_S, policy=policy, nodes=cluster(where).nodes, jobs=tuple(jobs), **{**known, **fields}
    )


def past(count: int, seconds: float = 300.0, every_s: float = 600.0, seed: int = 0) -> list[PastJob]:
    """Return jobs that were submitted one after the other until now, each with one GPU for about so long."""
    draw = random.Random(seed)
    return [
        PastJob(
            id=f"past-{i}",
            spec=spec(f"past-{i}", min_gpus=1, max_gpus=1),
            owner="ada",
            script_key="",
            submitted_s=NOW_S - (count - i) * every_s + draw.uniform(0, every_s / 2),
            served_s=seconds,
            samples=seconds * 10.0,
            model=model({"t4": 10.0}),
        )
        for i in range(count)
    ]
