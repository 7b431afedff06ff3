"""Reports of a command, made from what it says of how far it is. Pure.

The batch size is the program's own and may follow the number of GPUs. So speed is measured in what is done of all:
a program that tells a fraction, or its steps until the end, has all of `NOMINAL_STEPS` steps at every size.
Throughput models then see one batch of a fixed size, divided between the GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.reports import JobInfo, Progress, Report, StepRow
from ..protocol.command_events import Status

NOMINAL_STEPS = 10_000.0  # of the whole, where only a fraction is told
NOMINAL_BATCH = 4096  # samples of a step, where the job's file names none; divided between its GPUs
LEAST_SPAN_S = 1.0  # between two statuses that measure speed
WARM_UP_S = 2.0  # after the first status, in which a program is slower than later


@dataclass(frozen=True)
class Group:
    """Where the program runs: what a throughput model needs to know of it."""

    generation: int
    gpu_type: str
    nodes: int
    gpus: int


@dataclass
class CommandProgress:
    """Follow one job's statuses through all its starts.

    batch_size: samples of a step by the job's file; None: it does not say.
    total_steps: until the end by the job's file, for a program that does not say.
    """

    batch_size: int | None = None
    total_steps: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    last: Status | None = None  # of this generation
    _generation: int = 0
    _since: tuple[float, float] | None = None  # (time, nominal steps) from which speed is measured
    _first_s: float = 0.0
    _first_size: dict[str, tuple[int, int]] = field(default_factory=dict)  # by GPU type: nodes and GPUs

    def kept(self) -> dict[str, Any]:
        """Return what the next executor goes on from, as JSON's own values."""
        return {gpu_type: list(size) for gpu_type, size in self._first_size.items()}

    def go_on(self, kept: Mapping[str, Any]) -> None:
        """Go on from what the last executor has kept."""
        self._first_size = {gpu_type: (nodes, gpus) for gpu_type, (nodes, gpus) in kept.items()}

    @property
    def step_samples(self) -> int:
        return self.batch_size or NOMINAL_BATCH

    @property
    def step(self) -> int:
        """Steps that the program says it has made; what is done of all where it counts none."""
        if self.last is None:
            return 0
        return self.last.step if self.last.step is not None else int(self._nominal_steps(self.last) or 0)

    def info(self, fingerprint: str) -> JobInfo:
        """Return what models need to know of a job, instead of what `coadapt.prepare` tells."""
        return JobInfo(fingerprint, self.step_samples, 0, None, adam_type=False)

    def take(self, status: Status, generation: int) -> None:
        """Take in a status. One of an earlier start is of a process that is gone, and changes nothing."""
        if generation < self._generation:
            return
        if generation > self._generation:
            self._generation, self._since, self.last = generation, None, None
        self.metrics.update(status.metrics)
        known = self.last
        if known is not None:  # a status may tell only what has changed
            status = replace(
                status,
                step=known.step if status.step is None else status.step,
                steps=known.steps if status.steps is None else status.steps,
                epoch=known.epoch if status.epoch is None else status.epoch,
                epochs=known.epochs if status.epochs is None else status.epochs,
                samples=known.samples if status.samples is None else status.samples,
                fraction=self._later_fraction(known, status),
            )
        self.last = status
        done = self._nominal_steps(status)
        if done is None:
            return
        if known is None:
            self._first_s = status.time_s
        before = None if known is None else self._nominal_steps(known)
        warm = self._since is None and status.time_s >= self._first_s + WARM_UP_S
        if warm or (before is not None and done < before):  # it went back to its checkpoint
            self._since = status.time_s, done

    def _later_fraction(self, known: Status, status: Status) -> float | None:
        if status.fraction is not None or status.step is None:
            return known.fraction if status.fraction is None else status.fraction
        steps = status.steps or known.steps or self.total_steps
        return known.fraction if not steps else min(status.step / steps, 1.0)

    def _nominal_steps(self, status: Status) -> float | None:
        """Return how many steps are done, of as many as each size has until the end."""
        if (fraction := self.fraction(status)) is not None:
            return fraction * NOMINAL_STEPS
        return None if status.step is None else float(status.step)

    def fraction(self, status: Status) -> float | None:
        """Return what is done of all; None where neither the program nor the job's file tells how much that is."""
        if status.fraction is None and status.step is not None and self.total_steps:
            return min(status.step / self.total_steps, 1.0)
        return status.fraction

    def report(self, group: Group) -> Report | None:
        """Return a report of what was said since the last one; None where nothing was."""
        status = self.last
        if status is None:
            return None
        fraction = self.fraction(status) or 0.0
        done = self._nominal_steps(status) or 0.0
        samples = status.samples if status.samples is not None else int((status.step or 0) * self.step_samples)
        progress = Progress(
            epoch=int(status.epoch or 0),
            epochs=None if status.epochs is None else math.ceil(status.epochs),
            fraction=fraction,
            steps=status.step or 0,
            samples=samples,
            progress_samples=done * self.step_samples,
        )
        return Report(
            generation=group.generation,
            gpu_type=group.gpu_type,
            nodes=group.nodes,
            replicas=group.gpus,
            rows=self._rows(group, status),
            grad_sqr=None,
            grad_var=None,
            batch_size=self.batch_size or 0,
            local_bsz=0 if self.batch_size is None else -(-self.batch_size // group.gpus),
            accumulation=0,
            lr=self.metrics.get("lr", self.metrics.get("learning_rate", 0.0)),
            gain=1.0,
            progress=progress,
            metrics=dict(self.metrics),
        )

    def _rows(self, group: Group, status: Status) -> tuple[StepRow, ...]:
        """Return the mean step time since the last report, or nothing while that is too short to tell."""
        done = self._nominal_steps(status)
        if self._since is None or done is None:
            return ()
        span_s, steps = status.time_s - self._since[0], done - self._since[1]
        if span_s < LEAST_SPAN_S or steps <= 0:
            return ()
        self._since = status.time_s, done
        local, count = -(-self.step_samples // group.gpus), max(1, round(steps))
        row = StepRow(group.nodes, group.gpus, local, 0, span_s / steps, 0.0, count)
        if self._first_size.setdefault(group.gpu_type, (group.nodes, group.gpus)) != (group.nodes, group.gpus):
            return (row,)
        # One size says nothing of another. Until a second one is measured, half the work takes half the time.
        parts = [part for part in (2, 4, 8) if local >= part]
        return (
            row,
            *(replace(row, local_bsz=local // part, step_time_s=row.step_time_s / part) for part in parts),
        )
