"""What would be if something were otherwise: the same worlds before and after a change. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ..core.placement import Placement
from ..forecasts.answers import Span, WhatIf
from ..forecasts.questions import Change
from ..forecasts.state import LiveJob, LiveState, PastJob
from .forecasting.worlds import Ahead, WorldEnd
from .live import MOST_WORLDS, TooLong, forecast_of, span


def whatif(
    state: LiveState,
    past: Sequence[PastJob],
    change: Change,
    *,
    cpu_s: float = 5.0,
    near: int = 20,
    most_worlds: int = MOST_WORLDS,
) -> WhatIf:
    """Return when every job starts and ends before and after a change.

    World by world both are simulated, until the time is used up; the first in any case, in at most twice that.

    Raises: as `live.forecast`.
    """
    began_s = time.process_time()
    before, after = Ahead(state, past, near), Ahead(changed(state, change), past, near)
    pairs: list[tuple[WorldEnd, WorldEnd]] = []
    took_s = 0.0
    while len(pairs) < most_worlds:
        spent_s = time.process_time() - began_s
        left_s = 2 * cpu_s - spent_s if not pairs else cpu_s - spent_s
        if left_s <= took_s * 0.8:
            break
        one = before.world(len(pairs), left_s)
        other = after.world(len(pairs), left_s - (time.process_time() - began_s - spent_s)) if one else None
        if one is None or other is None:
            break
        took_s = time.process_time() - began_s - spent_s
        pairs.append((one, other))
    if not pairs:
        raise TooLong(f"an answer takes more than {2 * cpu_s:.0f} s of a core")
    took_s = time.process_time() - began_s
    ends, others = [one for one, _ in pairs], [other for _, other in pairs]
    return WhatIf(
        forecast_of(before, ends, took_s),
        forecast_of(after, others, took_s),
        _later(pairs, [job.id for job in state.jobs if before.known(job)]),
    )


def changed(state: LiveState, change: Change) -> LiveState:
    """Return the state as it would be."""
    gone = set(change.without)
    nodes = tuple(node for node in state.nodes if node.id not in gone)
    jobs = tuple(_without(job, gone) for job in state.jobs) if gone else state.jobs
    return replace(
        state,
        nodes=(*nodes, *change.nodes),
        jobs=(*jobs, *change.submit),
        policy=state.policy if change.policy is None else change.policy,
        teams=state.teams if change.teams is None else change.teams,
        options=state.options if change.policy is None else change.options,
    )


def _without(job: LiveJob, gone: set[str]) -> LiveJob:
    """Return a job that has lost what it had on nodes that go; it then holds nothing."""
    placement: Placement | None = job.placement
    if placement is None or not gone & set(placement.by_node):
        return job
    return replace(job, placement=None, pause_s=0.0, pace=None, reported_s=None)


def _later(pairs: Sequence[tuple[WorldEnd, WorldEnd]], jobs: Sequence[str]) -> dict[str, Span]:
    """Return by how much each job ends later in the same world."""
    found: dict[str, Span] = {}
    for job in jobs:
        differences = [
            other.ended_s[job] - one.ended_s[job] if job in one.ended_s and job in other.ended_s else float("inf")
            for one, other in pairs
        ]
        if (told := span(differences)) is not None:
            found[job] = told
    return found
