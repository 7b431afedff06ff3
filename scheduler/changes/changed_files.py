"""What of a changed job file does not fit a job's checkpoints, as far as files and measurements tell. Pure.

The training process looks again when it loads the checkpoint, and that check is the sure one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.doors import Door
from ...core.job import JobSpec
from ...estimators.measurements import Measurements
from ..jobs.record import JobRecord


@dataclass(frozen=True)
class Fit:
    """Why a file cannot go on from a checkpoint, and what a user should know of it; a sentence each."""

    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def fit(source: JobRecord, spec: JobSpec, known: Measurements | None) -> Fit:
    """Compare a job with the file of one that goes on from its checkpoint.

    Args:
        known: what was measured of an earlier job with the same files and arguments as `spec`; None: nothing.
    """
    if spec.door is not Door.NATIVE or source.spec.door is not Door.NATIVE:
        return Fit(notes=_other_program(source, spec))
    notes = list(_other_program(source, spec))
    shards = spec.resources.processes_per_replica
    if shards != (before := source.spec.resources.processes_per_replica):
        notes.append(
            f"resources.processes_per_replica: {shards}, and the checkpoint is of a job with {before}; "
            "it is cut anew, if the model is the same"
        )
    then = source.measurements.info if source.measurements is not None else None
    now = known.info if known is not None else None
    if then is None or now is None or then.fingerprint == now.fingerprint:
        return Fit(notes=tuple(notes))
    if then.parameters != now.parameters:
        told = (
            f"{spec.script}: trains a model of {now.parameters:,} parameters, as an earlier job of it showed, and "
            f"the checkpoint of {source.id} is of one with {then.parameters:,}"
        )
        return Fit((told,), tuple(notes))
    notes.append(f"{spec.script}: its model has other layers than that of {source.id}, which may not fit")
    return Fit(notes=tuple(notes))


def _other_program(source: JobRecord, spec: JobSpec) -> tuple[str, ...]:
    if spec.script and spec.script != source.spec.script and source.spec.script:
        told = f"script: {spec.script}, and {source.id} ran {source.spec.script}; it has to prepare the same model"
        return (told,) if spec.door is Door.NATIVE else ()
    if spec.command and spec.command[:1] != source.spec.command[:1]:
        return (f"command: {spec.called}, and {source.id} ran {source.spec.called}; it finds the same outputs",)
    return ()
