"""Guards what must be equal on all replicas whenever gradients are combined: learning rates, steps and batches."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from torch import Tensor

from ...protocol.script_errors import SHARE_DECISIONS
from ..state.prepared import Prepared
from .loop_state import LoopState
from .peers import Peers


class StepGuard:
    """The words of a replica that are compared with those of the others (`reduction.Guard`)."""

    def __init__(self, prepared: Prepared, loop: LoopState, peers: Peers) -> None:
        self._prepared, self._loop, self._peers = prepared, loop, peers

    def words(self) -> Sequence[int]:
        """Return two words on the learning rates, one on the number of steps and one on that of batches."""
        rates = self.rates()
        packed = zlib.crc32(struct.pack(f"{len(rates)}d", *rates))
        return (
            packed & 0xFFF,
            (packed >> 12) & 0xFFF,
            self._loop.position.steps & 0xFFF,
            self._loop.number & 0xFFF,
        )

    def differs(self, word: int) -> str:
        """Return one sentence on what it means that a word differs."""
        position, rank = self._loop.position, self._peers.rank
        where = f"in batch {self._loop.number} of epoch {position.epoch}"
        if word < 2:
            rates = ", ".join(f"{rate:.6g}" for rate in self.rates())
            return (
                f"replicas have different learning rates {where}: {rates} on replica {rank}; give prepare a "
                "scheduler that decides by a value, and set a rate by hand from values that all share, such as "
                "coadapt.combine(value)"
            )
        if word == 2:
            return f"replicas have made different numbers of steps {where}: {position.steps} on {rank}"
        return (
            f"replicas are at different batches: replica {rank} is {where}; where one of them leaves a batch "
            f"out, {SHARE_DECISIONS}"
        )

    def rates(self) -> list[float]:
        """Return learning rates as the script set them. Those on a GPU are left out: reading them would wait."""
        return [
            float(group["lr"])
            for optimizer in self._prepared.optimizers
            for group in optimizer.param_groups
            if "lr" in group and not (isinstance(group["lr"], Tensor) and group["lr"].is_cuda)
        ]
