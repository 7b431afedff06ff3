"""Finds out while a script's loop runs how it treats its batches.

A loop that counts its batches has to be given its own ones. Another loop may be given larger ones, which are
faster than several small passes. It has to show during a whole pass over the data that it does not count.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook

from ..variables.own_code import is_ours
from ..variables.script_frames import reach
from ..variables.undue import operation

# So many batches of a pass are looked at: a counter moves with each of them.
LOOKS = 6


@dataclass
class LoopHabits:
    """What one process has seen of its script's loop."""

    counts: bool = False
    _counters: dict[str, int] = field(default_factory=dict)
    _moving: set[str] | None = None
    _rates: Sequence[float] = ()
    _batches: int = -1
    _looks: int = 0

    def look(self, batches: int, rates: Sequence[float], has_scheduler: bool) -> None:
        """Look at the script before a batch, when `batches` are done; `rates` are the learning rates now."""
        if self.counts or self._looks > LOOKS:
            return
        now = {path: leaf.value for path, leaf in reach((int,)).leaves.items()}
        if batches == self._batches + 1 and self._looks:
            moved = {name for name, value in now.items() if self._counters.get(name, value) + 1 == value}
            self._moving = moved if self._moving is None else self._moving & moved
            if rates != self._rates and not has_scheduler:
                self.counts = True  # a learning rate that is set by hand goes by a count
        self._counters, self._rates, self._batches = now, list(rates), batches
        self._looks += 1
        if self._looks > 3 and self._moving:
            self.counts = True
        elif self._looks > LOOKS:
            self._counters = {}

    @property
    def looked(self) -> bool:
        """Whether enough was seen to say that the loop does not count."""
        return self._looks > 3


# What a `for` loop does to get its next item, and what hands that on between generators.
_LOOPS = frozenset({"FOR_ITER", "SEND", "YIELD_VALUE", "RESUME", "JUMP_BACKWARD_NO_INTERRUPT"})


def takes_by_next() -> bool:
    """Return whether the batch asked for now is taken by a call, such as `next(iterator)`, and not by a `for`.

    What the script iterates calls this. A loop of such calls counts its batches, so each has to be given once.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_ours(frame):  # such as our enumerate
            frame = frame.f_back
            continue
        if operation(frame) not in _LOOPS:
            return True
        if not frame.f_code.co_flags & inspect.CO_GENERATOR:
            return False
        frame = frame.f_back
    return False


class AheadWatch:
    """Notices a loop that asks for a batch before it has trained on the last one.

    What such a loop trains on between two batches is not known.
    """

    SENTENCE = (
        "the loop asks for its next batch before it has trained on the last one; take a batch where the model is "
        "given it, after the backward of the one before, and leave reading ahead to the DataLoader (num_workers)"
    )
    BATCHES = 3  # batches that are watched, in each process

    def __init__(self) -> None:
        self._forwards = 0
        self._taken = 0
        self._trained = False
        self._handle: Any = register_module_forward_pre_hook(self._forward)

    def _forward(self, module: Any, inputs: Any) -> None:
        self._forwards += 1

    def taken(self) -> None:
        """Note that a batch is asked for. Raises RuntimeError where nothing was done with the first one."""
        if self._handle is None:
            return
        if self._taken == 1 and not self._forwards and not self._trained:
            self._fail()
        self._taken += 1
        self._forwards, self._trained = 0, False
        if self._taken > self.BATCHES:
            self.end()

    def trained(self) -> None:
        """Note a backward. Raises RuntimeError where it is of a batch that was taken before the last one."""
        if self._handle is not None and self._taken > 1 and not self._forwards and not self._trained:
            self._fail()
        self._trained = True

    def end(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _fail(self) -> None:
        self.end()
        raise RuntimeError(self.SENTENCE)
