"""GPU-proportional provisioning: everybody gets the share of its GPUs. The baseline of Synergy (OSDI'22)."""

from __future__ import annotations

from collections.abc import Iterable

from .mechanism import Prices
from .needs import Need, largest_first
from .room import NodeRoom


class Proportional:
    """Gives each job its GPUs' share. Whoever finds GPUs finds CPUs and memory, too."""

    admits = False

    def provide(self, needs: Iterable[Need], room: NodeRoom) -> Prices | None:
        """Place the largest jobs first, each where it is or on the fewest nodes; see `Mechanism.provide`."""
        for need in largest_first(needs, lambda need: (need.gpus, bool(need.before))):
            cpus, memory_gib = need.choices.share
            places = room.find(need, cpus, memory_gib)
            if places is not None:
                room.give(need, places, cpus, memory_gib, 1.0)
        return None
