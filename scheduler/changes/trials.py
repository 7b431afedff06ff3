"""What a study asks of a group of trials: to train fewer of them on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...core.errors import JobStateError
from ...core.events import EventKind
from ...core.trials import kept
from ..jobs.record import JobRecord
from ..store.events import Event
from .commands import KeepTrials
from .reactions import Reaction
from .trial_rows import n_trials


def keep(job: JobRecord, now: float, numbers: Sequence[int], with_state: bool = False) -> Reaction:
    """Let a group train only the trials with these numbers on.

    Asked again it asks the group again, so that one that has come back from an earlier checkpoint drops them, too.

    Args:
        with_state: whether the others' states stay in its checkpoint, so that they can go on elsewhere.

    Raises: JobStateError where the job is no group, has ended, or has no such trial.
    """
    if not job.active:
        raise JobStateError(f"{job.id} has ended ({job.phase}), so it trains no trials")
    if not job.spec.is_group:
        raise JobStateError(f"{job.id} is no group of trials, so it cannot keep some of them")
    try:
        left = kept(job.spec.trials, numbers)
    except ValueError as error:
        raise JobStateError(f"{job.id}: {error}") from None
    gone = [trial.number for trial in job.spec.trials if trial.number not in set(numbers)]
    changed = replace(job, spec=job.spec.model_copy(update={"trials": left}))
    text = f"trains {n_trials(len(left))} on" + (f", without {', '.join(map(str, gone))}" if gone else "")
    events = (Event(EventKind.TRIALS, now, job.id, {"text": text}),) if gone else ()
    return Reaction(changed, events, commands=(KeepTrials(with_state),))
