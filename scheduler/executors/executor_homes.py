"""On which node a job's executor stands. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ...core.doors import Door
from ...core.slot import Slot
from ..jobs.record import JobRecord
from ..nodes.node_view import NodesSnapshot

EXECUTOR_GIB = 0.125  # that an executor may take of a node's memory
SHARE = 0.1  # of a node's memory that executors may take; Ray gives jobs less than all of it


def home_of(job: JobRecord, slots: Sequence[Slot], nodes: NodesSnapshot, jobs: Iterable[JobRecord]) -> str | None:
    """Return the node on which the executor of a job shall stand that is given slots; None: the service's own.

    That is a node of the job itself, where one has room. The loss of a node then disturbs its own jobs only.
    Else it is another one off the head, with the fewest executors.

    Args:
        jobs: every job that is active or holds something.
    """
    standing = Counter(each.executor_node for each in jobs if each.id != job.id)
    room = [
        node.id
        for node in nodes.cluster.nodes
        if node.id not in nodes.homes and (standing[node.id] + 1) * EXECUTOR_GIB <= SHARE * node.memory_gib
    ]
    own = {slot.node_id for slot in slots}
    # A program that may not be started again is not to depend on a node that it is not on.
    moves = job.spec.door is not Door.PLAIN or job.spec.restartable
    there = [node for node in room if node in own] or (room if moves else [])
    return min(there, key=lambda node: (standing[node], node), default=None)
