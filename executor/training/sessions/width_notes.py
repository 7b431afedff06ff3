"""Whether activations grow with width: the first group of a study of narrow models looks, before it trains."""

from __future__ import annotations

import os

from ....core.trials import of_variable
from ...protocol import messages
from ..fused.trial_number import TrialNumber
from ..shrunk.trial_steps import TrialSteps
from ..shrunk.width import divisor, known
from ..state.checkpoint import CheckpointStore
from ..state.checkpoint_errors import CheckpointError
from ..state.prepared import Prepared

FIRST = 0  # the number of the trial whose group looks, as it is the first of its study


def begin(prepared: Prepared) -> TrialSteps | str | None:
    """Return what looks, before models are narrowed; why nothing can; or None, where another group does.

    A script that builds its model by `coadapt.width` has no wide one to compare with.
    """
    if divisor() == 1 or known() or len(prepared.modules) != 1 or not _begins_study():
        return None
    try:
        return TrialSteps(prepared.modules[0], prepared.optimizers[0], prepared.loader, _middle(prepared))
    except Exception as error:  # of code of the model
        return _unknown(error)


def end(begun: TrialSteps | str | None) -> list[str]:
    """Return sentences for the study's user, once models are narrowed: at most one, on the first such layer."""
    if begun is None or isinstance(begun, str):
        return [] if begun is None else [begun]
    try:
        found = begun.growing(divisor())
    except Exception as error:
        return [_unknown(error)]
    rest = len(found) - 1
    more = f"; {rest} more layer{' is' if rest == 1 else 's are'} so" if rest > 0 else ""
    return [found[0] + more] if found else []


def _unknown(error: Exception) -> str:
    reason = (str(error).strip().splitlines() or [""])[0].rstrip(".") or type(error).__name__
    return f"activations: nobody knows whether they grow with width, as the model took no step apart: {reason}"


def _begins_study() -> bool:
    """Return whether this process has the first trial, from its start."""
    trials = of_variable(os.environ[messages.TRIALS])
    if not any(trial.number == FIRST and trial.from_job is None for trial in trials):
        return False
    url = os.environ.get(messages.CHECKPOINT_URL)
    try:
        return url is None or CheckpointStore(url).newest() is None
    except CheckpointError:
        return False  # the session tells of it


def _middle(prepared: Prepared) -> int:
    """Return the trial with the middle learning rate."""
    rate = prepared.optimizers[0].param_groups[0]["lr"]
    values = rate.values if isinstance(rate, TrialNumber) else (rate,)
    return sorted(range(len(values)), key=lambda trial: values[trial])[(len(values) - 1) // 2]
