"""Synergy-OPT (OSDI'22, section 4.3): two linear programs a round. A yardstick, not for production.

LP-1 (`ideal`) chooses CPUs and memory as if all nodes were one machine. LP-2 maps the jobs to nodes with as few
split ones as can be, at most three a node. Parts of a GPU are then rounded by largest remainders. Jobs step down
where a node cannot give what LP-1 chose. So nodes can carry the plan, and LP-1's own value is its bound.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ...optimizer.highs import Highs, Method
from ...optimizer.linear_program import LinearProgram
from .classes import Chosen
from .leftovers import hand_out
from .mechanism import Prices
from .needs import Need, Places
from .room import NodeRoom
from .settle import drop_what_exceeds, step_down

Floats = NDArray[np.float64]


class Optimal:
    """Chooses by LP-1, maps by LP-2 and rounds.

    Args:
        hands_out: whether what is left over goes to the jobs that gain most.
    """

    admits = False

    def __init__(self, *, hands_out: bool = True) -> None:
        self._hands_out = hands_out

    def provide(self, needs: Iterable[Need], room: NodeRoom) -> Prices | None:
        """Give the needs what the two programs say; see `Mechanism.provide`."""
        needs = list(needs)
        chosen = Chosen(needs, room, whole=True)
        loose: list[int] = []
        for at, (need, k) in enumerate(zip(needs, chosen.choice, strict=True)):
            if need.pinned:
                cpus, memory_gib, speed = need.choices.lists
                room.give(need, need.before, cpus[k], memory_gib[k], speed[k])
            else:
                loose.append(at)
        jobs = [needs[at] for at in loose]
        asked = np.array(
            [
                (
                    needs[at].gpus,
                    needs[at].choices.cpus[chosen.choice[at]],
                    needs[at].choices.memory_gib[chosen.choice[at]],
                )
                for at in loose
            ],
            float,
        ).reshape(-1, 3)
        free = np.stack([room.gpus.astype(float), room.cpus, room.memory_gib], axis=1)
        parts = mapped(asked, np.maximum(free, 0.0))
        order = sorted(range(len(jobs)), key=lambda j: (-jobs[j].gpus, -float(parts[j].max())))
        for j in order:
            need, k = jobs[j], chosen.choice[loose[j]]
            places = rounded(parts[j] * need.gpus, need.gpus, room.gpus, need.unit) or room.find_gpus(need)
            if places is not None:
                cpus, memory_gib, speed = need.choices.lists
                room.give(need, places, cpus[k], memory_gib[k], speed[k])
        step_down(room)
        drop_what_exceeds(room)
        if self._hands_out:
            hand_out(room)
        return chosen.prices


def mapped(asked: Floats, free: Floats) -> Floats:
    """Return (jobs, nodes) the part of each job on each node: LP-2, of which a vertex splits few jobs.

    A vertex has no more non-zeros than rows. So at most as many jobs are split as there are limits: three a node.
    Where the nodes have too little in all, each job counts as spread evenly.

    Args:
        asked: (jobs, 3) GPUs, CPUs and memory. free: (nodes, 3) the same.
    """
    jobs, nodes = len(asked), len(free)
    if not jobs:
        return np.zeros((0, nodes))
    job, node = (axis.ravel() for axis in np.meshgrid(np.arange(jobs), np.arange(nodes), indexing="ij"))
    column = np.arange(jobs * nodes)
    rows = np.concatenate([*(3 * node + kind for kind in range(3)), 3 * nodes + job])
    values = np.concatenate([*(asked[job, kind] for kind in range(3)), np.ones(len(column))])
    matrix = sparse.csr_array((values, (rows, np.tile(column, 4))), shape=(3 * nodes + jobs, jobs * nodes))
    program = LinearProgram(
        cost=np.ones(len(column)),
        matrix=matrix,
        row_lower=np.concatenate([np.full(3 * nodes, -np.inf), np.ones(jobs)]),
        row_upper=np.concatenate([free.ravel() + 1e-7, np.full(jobs, np.inf)]),
        lower=np.zeros(len(column)),
        upper=np.full(len(column), np.inf),
    )
    found = Highs(Method.SIMPLEX).solve(program)
    if found.x is None:
        return np.full((jobs, nodes), 1.0 / nodes)
    return found.x.reshape(jobs, nodes)


def rounded(parts: Floats, gpus: int, free: NDArray[np.int64], unit: int = 1) -> Places | None:
    """Return whole GPUs for parts of them, by largest remainder; None: the nodes have too few free.

    Args:
        parts: (nodes,) GPUs that add up to `gpus`. free: (nodes,) free GPUs. unit: GPUs of a replica.
    """
    units, most = gpus // unit, free // unit
    share = np.clip(parts / unit, 0.0, None)
    whole = np.minimum(np.floor(share + 1e-9).astype(np.int64), most)
    used = share > 1e-9
    while (left := units - int(whole.sum())) > 0:
        open_ = whole < most
        if not open_.any():
            return None
        # A node that has a part of the job already comes before all others.
        at = int(np.argmax(np.where(open_, share - whole + 1e3 * used, -np.inf)))
        more = 1 if used[at] else min(left, int(most[at] - whole[at]))
        whole[at] += more
    return tuple((int(node), int(count) * unit) for node, count in enumerate(whole) if count)
