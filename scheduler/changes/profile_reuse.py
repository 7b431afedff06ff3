"""Takes over measurements from earlier jobs that trained the same model. Pure."""

from __future__ import annotations

from ...estimators.measurements import Measurements


def measured_types(measured: Measurements | None) -> frozenset[str]:
    """Return the GPU types with measured step times."""
    return frozenset(measured.profiles) if measured is not None else frozenset()


def fingerprint(measured: Measurements | None) -> str:
    """Return the model's fingerprint; "" before the script has told it."""
    info = measured.info if measured is not None else None
    return info.fingerprint if info is not None else ""


def merged(
    own: Measurements | None, known: Measurements | None, script: Measurements | None = None
) -> Measurements | None:
    """Return a job's own measurements, completed by those of other jobs. The own ones win.

    Step times belong to a model. Gradient noise belongs to one run, and a loop's habits to one script.

    Args:
        known: measurements of another job of the same model; only its step times are taken over.
        script: measurements of another run of the same script; what the script asks for is taken over too.
    """
    if known is None:
        return own
    theirs = known.of_another_run()
    both = theirs if own is None else own.completed_by(theirs)
    return both if script is None else both.completed_by(script.of_another_run(same_script=True))


def kept(told: Measurements | None, stored: Measurements | None) -> Measurements | None:
    """Return what an executor has told, completed by the GPU types that only the record knows.

    Models are cached by the identity of measurements. So the stored value itself is returned if nothing is new,
    and else its unchanged parts are used.
    """
    if told is None or stored is None:
        return stored if told is None else told
    if told == stored:
        return stored
    told = told.sharing(stored)
    return told if measured_types(stored) <= measured_types(told) else merged(told, stored)
