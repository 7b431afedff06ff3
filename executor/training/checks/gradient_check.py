"""Compares what the parts of a batch bring with what the whole of it brings.

Where a loss has signs of being no sum over samples (`loss_signs.py`), its batch is computed once more as a
whole. Then gradients are compared, and what moves beside them.
This finds a loss that uses statistics of the batch which a script has detached, or a factor of the batch's size.
Some of the first divided batches are looked at. A batch in which something is drawn at random cannot be
compared.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..losses.loss_signs import constants_of, has_signs, rounded
from ..losses.loss_terms import all_nodes
from ..sharding.local import local
from ..state.prepared import Prepared
from ..state.step_backup import StepBackup
from ..variables import script_random
from ..variables.script_frames import script_objects
from ..variables.script_random import GLOBALS
from .batch_memory import statistics_of

COMPARED = (0, 7, 23)  # the divided batches that are looked at, by number
MOST_TRIES = 2  # so many batches that cannot be compared are tried
# More than this is no round-off: of all gradients together, and of one parameter's that are a large part of all.
TOLERANCE = 1e-4
TOLERANCE_OF_ONE = 1e-3
LEAST_SHARE = 1e-2
REDUCED = 100  # times as much where some numbers have 16 bits, or a GPU shortens them

Gradients = Sequence[Tensor | None]


class GradientCheck:
    """Compares a batch in parts with the same batch as a whole, for those of `COMPARED` that have signs.

    `done`: looks that are over. All replicas begin, keep and end one at the same batches.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.done = 0
        self.running = self.compares = False
        self._prepared = prepared
        self._divided = self._tries = 0
        self._drawn: list[tuple[Any, Any]] = []
        self._is_reduced = prepared.device.type == "cuda" and torch.backends.cudnn.allow_tf32
        self._latest: Gradients | None = None
        self._found: list[Gradients] = []
        self._of_whole: list[Gradients] | None = None
        self._rows: set[int] = set()
        self._has_signs, self._losses = False, 0
        self._constants: set[int] = set()  # of each part's losses
        self._backup: StepBackup | None = None
        self._moved: list[Tensor] = []  # parameters that were changed before the batch's first backward
        self._beside_begun: dict[str, Tensor] = {}
        self._rows_of_whole: set[int] = set()
        self._beside_whole: dict[str, Tensor] = {}
        self._normalises = any(
            isinstance(layer, nn.modules.batchnorm._BatchNorm)
            for module in prepared.modules
            for layer in module.modules()
        )

    def is_due(self) -> bool:
        """Return whether the divided batch that comes next is to be looked at; asked once for each."""
        number, self._divided = self._divided, self._divided + 1
        return not self._normalises and self.done < len(COMPARED) and number >= COMPARED[self.done]

    @property
    def has_whole(self) -> bool:
        """Whether a batch was computed as a whole, whose parts come next."""
        return self._of_whole is not None

    def regrouped(self) -> None:
        """Count anew in a group, whose members count from here."""
        self._divided = self._tries = 0
        self._stop()

    def begin(self, backup: StepBackup | None = None, compares: bool = True) -> None:
        """Begin to look at a batch: for signs or, where it `compares`, as a whole or in parts.

        `backup`: the parameters before it.
        """
        self._backup, self.compares = backup, compares
        self.running, self._latest, self._found, self._rows = True, None, [], set()
        self._has_signs, self._constants = False, set()
        self._beside_begun, self._moved = self._beside(), []
        self._drawn = [(one, script_random.state_of(one)) for one in _generators()]

    def note_batch(self, batch: Any, samples: int) -> None:
        """Note that the script is given a batch of so many samples, or a part of one."""
        self._losses = 0
        if self.compares:
            self._rows |= set(_rows_of(batch, samples))

    def note_end(self) -> None:
        """Note that the script is done with what it was given."""
        moved = [*self._moved, *(now for name, now in self._beside().items() if self._has_changed(name, now))]
        for tensor in moved:
            self._losses ^= rounded(tensor)
        self._constants.add(self._losses & 0xFFFFFFFF)

    def _has_changed(self, name: str, now: Tensor) -> bool:
        before = self._beside_begun.get(name)
        return before is not None and not torch.equal(before, now)

    @property
    def signs(self) -> tuple[bool, int]:
        """Whether a loss of the batch may differ from the whole one's; what should be alike on all replicas."""
        return self._has_signs or len(self._constants) > 1, next(iter(self._constants), 0)

    def note_losses(self, losses: Sequence[Any], samples: int, batch: int) -> None:
        """Note the losses of a backward, in a part of so many samples of a batch."""
        if not self._found and self._latest is None:  # before its first step
            has_moved = self._backup is not None and self._backup.moved()
            self._moved = [local(p).detach().clone() for p in self._prepared.parameters()] if has_moved else []
        self._has_signs |= has_signs(losses, samples, batch)
        self._losses = constants_of(losses, samples) ^ self._losses << 1
        roots = [loss.grad_fn for loss in losses if isinstance(loss, Tensor) and loss.grad_fn is not None]
        self._is_reduced |= any(_has_16_bits(node) for node in all_nodes(roots))

    def note_gradients(self) -> None:
        """Keep the gradients of a backward, which are combined over all parts."""
        self._latest = self._now()

    def note_step(self) -> None:
        """Keep the gradients by which the script makes a step now."""
        self._found += [self._now()] if self._latest is None else [self._latest, self._now()]
        self._latest = None

    def is_comparable(self) -> bool:
        """Return whether the batch can be computed once more from the same numbers."""
        if self._latest is not None:
            self.note_step()
        if self._of_whole is not None and not self._rows <= self._rows_of_whole:
            return False  # rows are drawn anew
        moved = any(not script_random.alike(script_random.state_of(one), state) for one, state in self._drawn)
        return not moved and bool(self._found) and all(map(_is_finite, self._found))

    def draw_again(self) -> None:
        """Let a batch that is done again draw the same random numbers as before."""
        for generator, state in self._drawn:
            script_random.put_back(generator, state)

    def keep(self) -> None:
        """Keep what the whole batch has brought; its parts follow."""
        self._of_whole, self._beside_whole, self._rows_of_whole = self._found, self._beside(), self._rows
        self.running = False

    def differs(self) -> str:
        """Return the name of what the parts have brought otherwise; "" where all is the same."""
        parts, whole = self._found, self._of_whole or []
        if len(parts) != len(whole):
            return ""  # steps by pieces are looked for elsewhere
        names = [self._prepared.name_of(parameter) for parameter in self._prepared.parameters()]
        for a, b in zip(parts, whole, strict=True):
            if (found := _unlike(a, b, REDUCED if self._is_reduced else 1)) is not None:
                return f"the gradient of {names[found]}"
        before, now = self._beside_whole, self._beside()
        return next((name for name in now if name in before and _is_apart(before[name], now[name])), "")

    def end(self, compared: bool) -> None:
        """End a look; where it was not `compared`, another batch may be."""
        self._tries += not compared
        self.done = len(COMPARED) if self._tries >= MOST_TRIES else self.done + compared
        self._stop()

    def _stop(self) -> None:
        self.running, self._latest, self._found, self._of_whole, self._drawn = False, None, [], None, []
        self._backup = None
        self._beside_whole = {}

    def _now(self) -> Gradients:
        parameters = self._prepared.parameters()
        return [None if p.grad is None else local(p.grad).detach().clone() for p in parameters]

    def _beside(self) -> dict[str, Tensor]:
        models = [*self._prepared.modules, *self._prepared.companions]
        return {name: tensor.detach().clone() for name, tensor in statistics_of(models)}


def _rows_of(batch: Any, samples: int) -> Iterator[int]:
    """Return a number for each row of what has one for each sample, without the padding at its end."""
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, Tensor | np.ndarray):
        array = batch.detach().cpu().float().numpy() if isinstance(batch, Tensor) else batch
        if array.ndim and len(array) == samples and array.dtype.kind in "iufb":
            for row in array.reshape(samples, -1):
                kept = np.flatnonzero(row != row[-1]) if row.size else row
                yield zlib.crc32(np.ascontiguousarray(row[: kept[-1] + 1 if kept.size else 0]).tobytes())
    elif isinstance(batch, list | tuple):
        for item in batch:
            yield from _rows_of(item, samples)


def _generators() -> list[Any]:
    """Return all generators that a script may draw from."""
    of_gpus = [torch.cuda.default_generators[i] for i in range(torch.cuda.device_count())]
    return [*script_objects(*script_random.GENERATORS), *GLOBALS, torch.default_generator, *of_gpus]


def _is_finite(gradients: Gradients) -> bool:
    return all(bool(torch.isfinite(one).all()) for one in gradients if one is not None)


def _has_16_bits(node: Any) -> bool:
    return bool(node._input_metadata) and node._input_metadata[0].dtype in (torch.float16, torch.bfloat16)


def _unlike(parts: Gradients, whole: Gradients, times: float) -> int | None:
    """Return the number of the parameter whose gradients differ by more than round-off; None where none do."""
    zero = torch.zeros(())
    a, b = ([zero if one is None else one.detach().double().cpu() for one in side] for side in (parts, whole))
    if len(a) != len(b):
        return None
    apart = [float((one - two).norm()) for one, two in zip(a, b, strict=True)]
    sizes = [max(float(one.norm()), float(two.norm())) for one, two in zip(a, b, strict=True)]
    of_all = torch.tensor(sizes).double().norm().item()
    limits = [times * TOLERANCE_OF_ONE * max(size, LEAST_SHARE * of_all) for size in sizes]
    beyond = [i for i, limit in enumerate(limits) if apart[i] > limit]
    if not beyond and torch.tensor(apart).double().norm().item() > times * TOLERANCE * of_all:
        beyond = list(range(len(apart)))
    return max(beyond, key=lambda i: apart[i]) if beyond else None


def _is_apart(a: Tensor, b: Tensor) -> bool:
    a, b = a.double(), b.double()
    return a.shape != b.shape or float((a - b).norm()) > TOLERANCE_OF_ONE * max(float(a.norm()), float(b.norm()))
