"""What plain DistributedDataParallel would make of a script, in one process: for models with BatchNorm.

Statistics over a batch are over each replica's part of it, so a group's parameters are not those of one process.
Here each batch of a script is handed to it part by part. Buffers are those of the first replica, and move once a
batch by the mean of its passes. The optimizer steps once, by the mean of all parts' gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Phase:
    """From optimizer step `step` on, each batch is computed by `replicas` in `passes`."""

    step: int
    replicas: int
    passes: int


def append_phase(phases: list[Phase], phase: Phase) -> None:
    """Note that a group went on from `phase.step`: what came later before it was lost."""
    phases[:] = [earlier for earlier in phases if earlier.step < phase.step]
    phases.append(phase)


class PlainDdp:
    """Runs the loop of a script whose objects are `prepared` as a DDP job that changes by `phases`.

    What is left of an epoch is cut into parts of `least` samples, or of as many as a replica is given of a whole
    batch. If there are too few parts, replicas compute the same one.
    """

    def __init__(self, prepared: Any, phases: Sequence[Phase], least: int) -> None:
        self._phases, self._least, self._steps = phases, least, 0
        self._parameters, self._buffers = prepared.parameters(), prepared.buffers()
        self._stash: list[torch.Tensor] = []
        self._share, self._last = 1.0, True
        loader, kind = next((o, type(o)) for o in prepared.objects if isinstance(o, torch.utils.data.DataLoader))
        loader.__class__ = type(kind.__name__, (kind,), {"__iter__": lambda one: self._parts(kind.__iter__(one))})
        for optimizer in prepared.optimizers:
            optimizer.step = self._stepping(optimizer.step)

    def _parts(self, batches: Iterator[Any]) -> Iterator[Any]:
        whole = 0
        for batch in batches:
            phase = [phase for phase in self._phases if phase.step <= self._steps][-1]
            samples, slots = len(batch[0]), phase.replicas * phase.passes
            whole = max(whole, samples)
            count = max(1, min(slots, samples // min(self._least, -(-whole // slots))))
            before = [buffer.clone() for buffer in self._buffers]
            moved: list[tuple[int, list[torch.Tensor]]] = []
            for slot in range(count):
                part = [column[slot::count] for column in batch]
                self._share, self._last = len(part[0]) / samples, slot == count - 1
                self._set_buffers(before)
                yield part
                if slot % phase.replicas == 0:  # the statistics of other replicas are not kept
                    moved.append((len(part[0]), [buffer.clone() for buffer in self._buffers]))
            self._set_buffers([mean_of(moved, i) for i in range(len(before))])

    def _set_buffers(self, values: Sequence[torch.Tensor]) -> None:
        for buffer, value in zip(self._buffers, values, strict=True):
            buffer.copy_(value)

    def _stepping(self, step: Any) -> Any:
        def stepping() -> None:
            gradients = [parameter.grad * self._share for parameter in self._parameters]
            pairs = zip(self._stash, gradients, strict=True)
            self._stash = [mine + new for mine, new in pairs] if self._stash else gradients
            if self._last:
                for parameter, gradient in zip(self._parameters, self._stash, strict=True):
                    parameter.grad = gradient
                step()
                self._stash, self._steps = [], self._steps + 1

        return stepping


def mean_of(moved: Sequence[tuple[int, Sequence[torch.Tensor]]], place: int) -> torch.Tensor:
    """Return the mean of one buffer over passes, by samples; the last one of whole numbers."""
    values = [(samples, buffers[place]) for samples, buffers in moved]
    if not values[-1][1].is_floating_point():
        return values[-1][1]
    return sum(value * samples for samples, value in values) / sum(samples for samples, _ in values)
