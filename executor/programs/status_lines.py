"""What a program says of how far it is, as an object of JSON or as a line of its output. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..protocol.command_events import Status

# The names by which programs tell each amount. The first is ours, the others are those of common trainers.
_NAMES: dict[str, tuple[str, ...]] = {
    "step": ("step", "global_step", "current_step", "iteration"),
    "steps": ("steps", "total_steps", "max_steps", "of"),
    "epoch": ("epoch", "current_epoch"),
    "epochs": ("epochs", "total_epochs", "num_train_epochs", "max_epochs"),
    "fraction": ("fraction",),
    "percent": ("percent", "percentage", "progress_percentage"),
    "samples": ("samples", "consumed_samples"),
}
_OF = {name: amount for amount, names in _NAMES.items() for name in names}
_IGNORED = ("time", "timestamp", "job_id")
MOST = 1e15  # of an amount; what follows from it is still exact


class StatusError(ValueError):
    """A status that cannot be taken; one sentence."""


def status_in_line(line: str, job_id: str, time_s: float) -> Status:
    """Return what a line of JSON says. Raises: StatusError."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise StatusError(f"status: {line[:80]!r} is no line of JSON; it was left out") from None
    if not isinstance(said, dict):
        raise StatusError(f"status: {line[:80]!r} is no JSON object; it was left out")
    return status_of(said, job_id, time_s)


def status_of(said: Mapping[str, Any], job_id: str, time_s: float) -> Status:
    """Return what an object says; other numbers than amounts are metrics, and other values are left out.

    Raises: StatusError for an amount that is no number of its kind, or a status of another job.
    """
    if (whose := said.get("job_id", job_id)) != job_id:
        raise StatusError(f"status: it is of job {whose}, and this is {job_id}; it was left out")
    amounts: dict[str, float] = {}
    metrics: dict[str, float] = {}
    for name, value in said.items():
        if name in _IGNORED:
            continue
        if (amount := _OF.get(name)) is not None:
            amounts[amount] = _amount(name, value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            metrics[name] = _float(value)
    return _status(amounts, metrics, time_s)


def _amount(name: str, value: Any) -> float:
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError):
            number = _float(value)
    if not 0 <= number <= MOST:
        shown = repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}…"
        accepted = f"a number from 0 to {MOST:.0e}" if number > MOST else "a number of 0 or more"
        raise StatusError(f"status: {name} is {shown}, and {accepted} is expected; it was left out")
    return number


def _float(value: int | float | str) -> float:
    """Return a number as a float; a whole number beyond all floats is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if int(value) > 0 else -math.inf


def _status(amounts: Mapping[str, float], metrics: Mapping[str, float], time_s: float) -> Status:
    fraction = amounts.get("fraction")
    step, steps = amounts.get("step"), amounts.get("steps")
    epoch, epochs = amounts.get("epoch"), amounts.get("epochs")
    if fraction is None and step is not None and steps:
        fraction = step / steps  # finer than a percentage, which trainers round
    if fraction is None and "percent" in amounts:
        fraction = amounts["percent"] / 100
    if fraction is None and epoch is not None and epochs:
        fraction = epoch / epochs
    return Status(
        time_s=time_s,
        step=None if step is None else int(step),
        steps=None if not steps else int(steps),
        epoch=epoch,
        epochs=epochs,
        fraction=None if fraction is None else min(fraction, 1.0),
        samples=None if "samples" not in amounts else int(amounts["samples"]),
        metrics=dict(metrics),
    )


class LogPattern:
    """Find statuses in lines of the output: the named groups of a regular expression are amounts and metrics."""

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)
        self._rest = ""

    def statuses(self, text: str, time_s: float) -> list[Status]:
        """Return what the lines that `text` completes say. A group that is no number is left out."""
        *lines, self._rest = re.split(r"[\r\n]", self._rest + text)
        found = [self._pattern.search(line) for line in lines]
        return [_of_groups(match.groupdict(), time_s) for match in found if match is not None]


def _of_groups(groups: Mapping[str, str | None], time_s: float) -> Status:
    amounts: dict[str, float] = {}
    metrics: dict[str, float] = {}
    for name, text in groups.items():
        try:
            number = float((text or "").replace(",", ""))
        except ValueError:
            continue
        if (amount := _OF.get(name)) is None:
            metrics[name] = number
        elif 0 <= number <= MOST:
            amounts[amount] = number
    return _status(amounts, metrics, time_s)
