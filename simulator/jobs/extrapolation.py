"""Step times beyond the measured placements, from the throughput model that is fitted to all measurements."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

import numpy as np

from ...estimators.profile import Profile
from ...estimators.throughput import fit
from .fitted_step_times import FittedStepTimes
from .step_times import Row, Shape, StepTime


class MeasuredStepTimes(Protocol):
    """Step times that raise ValueError for what was not measured."""

    def at(self, shape: Shape, local_bsz: float) -> StepTime: ...

    def sizes(self, shape: Shape) -> tuple[float, float]: ...

    def samples(self) -> Iterator[tuple[Shape, int]]: ...

    def rows(self) -> Iterator[Row]: ...


class NotMeasured(UserWarning):
    """A warning about a model on a GPU type, `about`. The placement that it names may differ between runs."""

    def __init__(self, about: str, text: str) -> None:
        super().__init__(text)
        self.about = about


class ExtrapolatedStepTimes:
    """Measured step times, and fitted ones for the rest. The first use of a fitted one gives a warning."""

    def __init__(self, name: str, times: MeasuredStepTimes) -> None:
        self._name, self._times = name, times  # for messages: model on GPU type
        self._told = False

    def at(self, shape: Shape, local_bsz: float) -> StepTime:
        """Return the step time, measured if possible."""
        try:
            return self._times.at(shape, local_bsz)
        except ValueError:
            self._tell(shape)
            return self.fitted.at(shape, local_bsz)

    def sizes(self, shape: Shape) -> tuple[float, float]:
        """Return the smallest and largest local batch size of a shape, measured if possible."""
        try:
            return self._times.sizes(shape)
        except ValueError:
            self._tell(shape)
            return self.fitted.sizes(shape)

    def samples(self) -> Iterator[tuple[Shape, int]]:
        return self._times.samples()

    def measured(self, shape: Shape) -> bool:
        """Return whether the shape was measured."""
        try:
            self._times.sizes(shape)
        except ValueError:
            return False
        return True

    def _tell(self, shape: Shape) -> None:
        if not self._told:
            self._told = True
            text = (
                f"profiles: {self._name}: placements such as {list(shape)} (replicas per node) were not measured; "
                "their step times are those of the throughput model fitted to all that were"
            )
            warnings.warn(NotMeasured(self._name, text), stacklevel=2)

    @cached_property
    def fitted(self) -> FittedStepTimes:
        """The step times of the throughput model that is fitted to all measured rows."""
        rows = list(self._times.rows())
        nodes, replicas, local_bsz = np.array([row[:3] for row in rows], np.int64).T
        step_s = np.array([time.step_s for *_, time in rows])
        sync_s = np.clip([time.sync_s for *_, time in rows], 0.0, step_s)
        params = fit(
            Profile(
                nodes, replicas, local_bsz, np.zeros_like(nodes), step_s, sync_s, np.ones_like(nodes),
                -(-replicas // nodes),
            )
        )  # fmt: skip
        return FittedStepTimes(params, int(local_bsz.min()), int(local_bsz.max()))
