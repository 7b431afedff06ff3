"""Measurements that a job takes over from earlier jobs training the same model. Pure."""

from __future__ import annotations

from ..estimators.measurements import Measurements


def measured_types(measured: Measurements | None) -> frozenset[str]:
    """Return the GPU types there are step times of."""
    return frozenset(measured.profiles) if measured is not None else frozenset()


def fingerprint(measured: Measurements | None) -> str:
    """Return the model's fingerprint; empty before the script has said it."""
    info = measured.info if measured is not None else None
    return info.fingerprint if info is not None else ""


def merged(
    mine: Measurements | None, known: Measurements | None, script: Measurements | None = None
) -> Measurements | None:
    """Return both as one; where both measured the same, what this job measured itself.

    Step times are the model's. Gradient noise is one run's, and a loop's habits are one script's: neither is ever
    taken over. `script`: what runs of the very same script measured; what it asks for is taken over from it alone.
    """
    if known is None:
        return mine
    theirs = known.of_another_run()
    both = theirs if mine is None else mine.completed_by(theirs)
    return both if script is None else both.completed_by(script.of_another_run(same_script=True))


def kept(mine: Measurements | None, stored: Measurements | None) -> Measurements | None:
    """Return what an executor says it has measured, with the GPU types that only the record knows.

    The stored value itself comes back where nothing is new, and else its profiles that are: models are kept by
    their identity.
    """
    if mine is None or stored is None:
        return stored if mine is None else mine
    if mine == stored:
        return stored
    mine = mine.sharing(stored)
    return mine if measured_types(stored) <= measured_types(mine) else merged(mine, stored)
