"""Models too large for one GPU: a replica is a pipeline of stages, and a step takes its whole schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .step_times import Row, Shape, StepTime, StepTimes


@dataclass(frozen=True)
class Pipeline:
    """GPipe's schedule: every replica runs `micro_batches` of one sample through its stages.

    `stages`: GPUs of a replica, by GPU type.
    """

    stages: Mapping[str, int]
    micro_batches: int


# This is the 2.8B GPT of Sia's evaluation (section 3.5.3), measured by stage.
PIPELINES = {"gpt_pmp": Pipeline({"a100": 2, "rtx": 8}, 48)}
_PASSES = 3  # one forward pass, and a backward pass that takes twice as long


class PipelineStepTimes:
    """Step times by replica, computed from the measured times of a stage and of the all-reduce.

    A step takes 3 · (stages - 1 + micro-batches) · stage + all-reduce.
    """

    def __init__(self, stage: StepTimes, stages: int, micro_batches: int) -> None:
        self._stage, self._stages, self._samples = stage, stages, micro_batches

    def at(self, shape: Shape, local_bsz: float) -> StepTime:
        """Return the time of a step. Raise ValueError outside of what was measured."""
        return self._whole(self._stage.at(self._gpus(shape), 1))

    def sizes(self, shape: Shape) -> tuple[float, float]:
        """Return the only local batch size, twice. Raise ValueError if the shape was not measured."""
        self._stage.sizes(self._gpus(shape))
        return float(self._samples), float(self._samples)

    def samples(self) -> Iterator[tuple[Shape, int]]:
        """Yield the shapes of whole replicas that were measured, with the local batch size."""
        for shape, size in self._stage.samples():
            if size == 1 and all(gpus % self._stages == 0 for gpus in shape):
                yield tuple(gpus // self._stages for gpus in shape), self._samples

    def rows(self) -> Iterator[Row]:
        """Yield all measurements of whole replicas."""
        for nodes, gpus, size, time in self._stage.rows():
            if size == 1 and gpus % self._stages == 0 and gpus >= nodes * self._stages:
                yield nodes, gpus // self._stages, self._samples, self._whole(time)

    def _gpus(self, shape: Shape) -> Shape:
        return tuple(replicas * self._stages for replicas in shape)

    def _whole(self, stage: StepTime) -> StepTime:
        step_s = _PASSES * (self._stages - 1 + self._samples) * stage.step_s
        return StepTime(step_s + stage.sync_s, stage.sync_s)
