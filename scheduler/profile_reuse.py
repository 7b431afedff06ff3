"""Measurements that a job takes over from earlier jobs training the same model. Pure."""

from __future__ import annotations

from ..estimators.measurements import Measurements


def measured_types(measurements_json: str) -> frozenset[str]:
    """GPU types there are step times of."""
    return frozenset(Measurements.from_json(measurements_json).profiles) if measurements_json else frozenset()


def fingerprint(measurements_json: str) -> str:
    """The model's fingerprint; empty before the script has said it."""
    info = Measurements.from_json(measurements_json).info if measurements_json else None
    return info.fingerprint if info is not None else ""


def merged(mine: str, known: str) -> str:
    """Both as JSON; where both measured the same, what this job measured itself.

    Step times are the model's. Gradient noise is one run's, and a loop's habits are one script's: neither is ever
    taken over.
    """
    if not known:
        return mine
    theirs = Measurements.from_json(known).of_another_run()
    return (Measurements.from_json(mine).completed_by(theirs) if mine else theirs).to_json()


def kept(mine: str, stored: str) -> str:
    """What an executor says it has measured, with the GPU types that only the record knows."""
    if not mine or not stored:
        return mine or stored
    return mine if measured_types(stored) <= measured_types(mine) else merged(mine, stored)
