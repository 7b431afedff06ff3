"""Names of the figures of a job's training whose history is kept beside its script's own metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Points = TypeVar("Points")

_MARK = "\x1f"  # before the name of such a figure, so that it is no script's metric
GOODPUT, STEP_S = f"{_MARK}goodput", f"{_MARK}step_s"
BATCH_SIZE, LR, NOISE = f"{_MARK}batch_size", f"{_MARK}lr", f"{_MARK}noise_scale"
CURVES = frozenset({GOODPUT, BATCH_SIZE, LR, NOISE, STEP_S})


def divided(found: Mapping[str, Points]) -> tuple[dict[str, Points], dict[str, Points]]:
    """Return what a script has reported, and the figures of its training by their plain names."""
    own = {name.removeprefix(_MARK): found[name] for name in CURVES if name in found}
    return {name: points for name, points in found.items() if name not in CURVES}, own
