"""The ranks of a new group. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...core.batch_plan import BatchPlan
from ...core.slot import Slot
from .messages import Join


@dataclass(frozen=True)
class Rendezvous:
    """Name the address at which the job's `TCPStore` listens."""

    host: str
    port: int


def rank_order(slots: Mapping[str, Slot], previous: Sequence[str]) -> list[str]:
    """Return worker ids in rank order: members of the previous group in its order, then newcomers by slot.

    A surviving rank 0 stays rank 0, so that its logs and metrics go on unbroken.
    """
    survivors = [worker for worker in previous if worker in slots]
    newcomers = sorted(set(slots) - set(survivors), key=lambda worker: (slots[worker], worker))
    return survivors + newcomers


def joins(
    order: Sequence[str],
    slots: Mapping[str, Slot],
    generation: int,
    store: Rendezvous,
    batch: BatchPlan | None,
) -> dict[str, Join]:
    """Return the `Join` of each worker of a new group, by worker id."""
    on_node = Counter(slots[worker].node_id for worker in order)
    seen: Counter[str] = Counter()
    commands: dict[str, Join] = {}
    for rank, worker in enumerate(order):
        node = slots[worker].node_id
        commands[worker] = Join(
            generation=generation,
            rank=rank,
            world_size=len(order),
            nodes=len(on_node),
            local_rank=seen[node],
            local_world_size=on_node[node],
            store_host=store.host,
            store_port=store.port,
            batch=batch,
        )
        seen[node] += 1
    return commands
