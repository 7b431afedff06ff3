"""Names the GPUs in records of earlier versions, which only counted them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...core.slot import Slot
from .record import JobRecord


def with_names(jobs: Iterable[JobRecord]) -> list[JobRecord]:
    """Return the records whose slots named no GPUs, now with the lowest GPUs that no other job has.

    Ray chose the real GPUs of these workers. Nobody knows which, until the job's executor is restarted.
    """
    jobs = list(jobs)
    taken = {
        (slot.node_id, device)
        for job in jobs
        for slot in _slots(job)
        if _is_named(slot)
        for device in slot.devices
    }
    named = []
    for job in jobs:
        names: dict[Slot, Slot] = {}
        for slot in _slots(job):
            if slot in names or _is_named(slot):
                continue
            devices: list[int] = []
            while len(devices) < slot.gpus:
                device = next(at for at in range(len(taken) + 1) if (slot.node_id, at) not in taken)
                taken.add((slot.node_id, device))
                devices.append(device)
            names[slot] = replace(slot, devices=tuple(devices))
        if names:
            named.append(_renamed(job, names))
    return named


def _is_named(slot: Slot) -> bool:
    return all(device >= 0 for device in slot.devices)


def _slots(job: JobRecord) -> list[Slot]:
    """Return every slot of a record. Those in which something may live come first."""
    return [*job.occupied, *job.target, *job.group, *(slot for _, slot in job.last_grant)]


def _renamed(job: JobRecord, names: dict[Slot, Slot]) -> JobRecord:
    def of(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        return tuple(names.get(slot, slot) for slot in slots)

    return replace(
        job,
        target=of(job.target),
        held=of(job.held),
        group=of(job.group),
        last_grant=tuple((sequence, names.get(slot, slot)) for sequence, slot in job.last_grant),
        profiles=tuple(
            replace(run, slot=names.get(run.slot, run.slot)) if run.slot is not None else run
            for run in job.profiles
        ),
    )
