"""Places fixed numbers of GPUs on few nodes: best fit within one node, and whole idle nodes beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.cluster import Cluster
from ...core.placement import Placement
from ..contract.round import JobView
from .demand import Demand
from .ledger import Ledger, exists, is_pinned
from .speeds import is_whole


def place_on_types(cluster: Cluster, chosen: Mapping[str, Sequence[tuple[JobView, int]]]) -> dict[str, Placement]:
    """Place the jobs chosen for each GPU type, given with their GPUs.

    A job that stays on its GPU type keeps its GPUs. The others go where there is room, largest first. If small
    jobs leave a large one no room, all jobs of that type but pinned ones are placed anew.
    """
    placements: dict[str, Placement] = {}
    for gpu_type, jobs in chosen.items():
        kept = {
            job.id: job.placement
            for job, gpus in jobs
            if job.placement is not None
            and job.placement.gpu_type == gpu_type
            and job.placement.gpus == gpus
            and exists(job.placement, cluster)
        }
        found, complete = _fill(cluster, gpu_type, jobs, kept)
        if not complete:
            pinned = {job.id: kept[job.id] for job, _ in jobs if job.id in kept and is_pinned(job, cluster)}
            anew, complete = _fill(cluster, gpu_type, jobs, pinned)
            if len(anew) > len(found):
                found = anew
        placements |= found
    return placements


def _fill(
    cluster: Cluster, gpu_type: str, jobs: Sequence[tuple[JobView, int]], kept: Mapping[str, Placement]
) -> tuple[dict[str, Placement], bool]:
    """Return the placements of who is kept and of who finds room beside them, and whether that is everybody."""
    ledger = Ledger.of(cluster, kept)
    complete = True
    for job, gpus in sorted(jobs, key=lambda pair: -pair[1]):
        if job.id in ledger.held:
            continue
        room = ledger.find(gpus, (gpu_type,), demand=Demand.of(job.spec))
        if room is None or not is_whole(room, job.spec):
            complete = False
            continue
        ledger.take(job.id, room)
    return dict(ledger.held), complete
