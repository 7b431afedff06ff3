"""What a mechanism is, and the prices that it may know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from .needs import Need
from .room import NodeRoom


@dataclass(frozen=True)
class Prices:
    """What one more CPU and one more GiB are worth, in speeds at the share. bound: of the sum of speeds."""

    cpu: float = 0.0
    gib: float = 0.0
    bound: float = float("nan")


class Mechanism(Protocol):
    """Places jobs on the nodes of one GPU type, each with CPUs and memory."""

    @property
    def admits(self) -> bool:
        """Whether it chooses itself whom it serves. Else whoever finds GPUs in the policy's order is served."""

    def provide(self, needs: Iterable[Need], room: NodeRoom) -> Prices | None:
        """Give needs, in the policy's order, what they get of the room. Return prices, if it knows any.

        The room has kept the GPUs of pinned jobs. Whoever does not find its place in `room.held` waits.
        """
