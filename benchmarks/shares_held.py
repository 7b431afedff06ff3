"""Whether jobs ever held more of a GPU than there is, or more than two were on one, as the event log tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coadapt.core.resources import TOLERANCE
from coadapt.policies.contract.traits import TENANTS
from coadapt.scheduler.store.events import Event

Gpu = tuple[str, str]  # node, position


@dataclass
class Shares:
    """What is read of a log. `exceeded`: a line for each event after which a GPU was given away beyond its whole.

    shared: GPUs that two jobs held at some moment.
    """

    exceeded: list[str] = field(default_factory=list)
    shared: set[Gpu] = field(default_factory=set)


def read(events: Iterable[Event]) -> Shares:
    """Return what events tell of who held which part of which GPU."""
    found, held = Shares(), dict[str, Mapping[Gpu, float]]()
    for event in sorted(events, key=lambda one: one.number):
        if event.job_id is None or "on" not in event.data:
            continue
        mine = {(node, gpu): float(part) for node, gpus in event.data["on"].items() for gpu, part in gpus.items()}
        held[event.job_id] = mine
        for gpu in mine:
            parts = {job: gpus[gpu] for job, gpus in held.items() if gpu in gpus}
            if len(parts) > 1:
                found.shared.add(gpu)
            if sum(parts.values()) > 1 + TOLERANCE or len(parts) > TENANTS:
                said = ", ".join(f"{job} {part:g}" for job, part in sorted(parts.items()))
                found.exceeded.append(f"{event.time_s:.1f}: GPU {gpu[1]} of node {gpu[0][:8]}: {said}")
    return found
