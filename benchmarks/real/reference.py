"""What plain DistributedDataParallel would make of a script, in one process: for models with BatchNorm.

Statistics over a batch are over each replica's part of it, so that a group's parameters are not those of one
process. Here each batch of a script is handed to it part by part; buffers are those of the first replica, and the
optimizer steps once, by the mean of all parts' gradients.
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
    """A group went on from `phase.step`: what came later before it was lost."""
    phases[:] = [earlier for earlier in phases if earlier.step < phase.step]
    phases.append(phase)


class PlainDdp:
    """Runs the loop of a script whose objects are `prepared` as a DDP job that changes by `phases`.

    `least`: what is left of an epoch is cut into parts of so many samples, or of as many as a replica is given
    of a whole batch; replicas compute one alike where there are too few.
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
            for slot in range(count):
                part = [column[slot::count] for column in batch]
                self._share, self._last = len(part[0]) / samples, slot == count - 1
                before = [buffer.clone() for buffer in self._buffers]
                yield part
                if slot % phase.replicas:  # computed by another replica, whose statistics are not kept
                    for buffer, value in zip(self._buffers, before, strict=True):
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
