"""What is handed on to a tracker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Values:
    """Metrics that were reported together. `step`: optimizer steps by then; `at_s`: seconds since 1970."""

    metrics: Mapping[str, float]
    step: int | None
    at_s: float
