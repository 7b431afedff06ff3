"""Keeps a place for a job that may not be moved and has waited long, until those in its way have ended.

Without it a job of many GPUs waits for ever while smaller ones that came later start. As in EASY backfilling,
only one job has a place. Jobs that may be moved use it meanwhile. Others of a fixed size start elsewhere, in order
of submission.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...core.cluster import Cluster
from ...core.decisions import Waiting, WaitReason
from ...core.doors import Door
from ...core.job import JobSpec
from ...core.placement import NodeShare, Placement
from ...core.wording import n_gpus
from ..contract.round import JobView
from ..contract.sharing import Sharing, used_by_teams
from ..placing.demand import Demand
from ..placing.ledger import Ledger
from ..placing.speeds import is_whole, startable_on, types_with_room

_KEPT = "\0kept"  # no job is called that
MOST_NAMED = 3  # jobs in the way that are named


@dataclass(frozen=True)
class KeptPlace:
    """What becomes of waiting jobs that may not be moved.

    given: where jobs start now. waits: why others get nothing. Other jobs of the round are not concerned.
    """

    given: Mapping[str, Placement] = field(default_factory=dict)
    waits: Mapping[str, Waiting] = field(default_factory=dict)


def keep_place(
    jobs: Sequence[JobView], held: Mapping[str, Placement], cluster: Cluster, now: float, patience_s: float | None
) -> KeptPlace:
    """Keep a place for the first job, in order of submission, that has waited `patience_s` and has no room.

    Jobs that have waited as long and have room start there. Nobody else is concerned while no place is kept.

    Args:
        jobs: all jobs of the round, in order of submission.
        held: placements that are not to be moved.
        patience_s: None: no place is kept.
    """
    if patience_s is None:
        return KeptPlace()
    waiting = [job for job in jobs if _may_not_move(job) and job.id not in held]
    patient = [job for job in waiting if now - job.submitted_s >= patience_s and _is_fixed(job.spec)]
    if not patient:
        return KeptPlace()
    ledger = Ledger.of(cluster, held)
    given: dict[str, Placement] = {}
    waits: dict[str, Waiting] = {}
    first: JobView | None = None
    for job in patient:
        if first is None and (place := _start(job, ledger, given)) is None:
            place = _soonest(job, ledger)
            if place is not None:
                first = job
                waits[job.id] = _waits_for_place(job, place, held)
                _keep(place, ledger)
    if first is None:
        return KeptPlace(given)
    minutes = round((now - first.submitted_s) / 60)
    for job in waiting:
        if job.id in given or job is first or not _types(job, cluster):
            continue
        if not _is_fixed(job.spec) or _start(job, ledger, given) is None:
            detail = f"A place is kept for job {first.id}, which has waited for {minutes} minutes."
            waits[job.id] = Waiting(WaitReason.PLACE_KEPT, detail)
    return KeptPlace(given, waits)


def within_caps(kept: KeptPlace, sharing: Sharing, held: Mapping[str, Placement]) -> KeptPlace:
    """Return the same without the starts that exceed the caps of teams, beside placements that are held."""
    used, given, waits = used_by_teams(sharing, held), dict[str, Placement](), dict(kept.waits)
    for job, placement in kept.given.items():
        team = sharing.team.get(job, "")
        most = sharing.terms[team].cap.get(placement.gpu_type) if team in sharing.terms else None
        total = used.get((team, placement.gpu_type), 0) + placement.gpus
        if most is not None and total > most:
            waits[job] = Waiting(
                WaitReason.TEAM_CAP, f"Its team {team} has a cap of {most} {placement.gpu_type}; with it, {total}."
            )
            continue
        given[job], used[team, placement.gpu_type] = placement, total
    return KeptPlace(given, waits)


def _may_not_move(job: JobView) -> bool:
    """Return whether a job without a reservation would keep what it is given until it ends."""
    return not job.spec.preemptible and job.spec.reservation is None


def _is_fixed(spec: JobSpec) -> bool:
    return spec.door is Door.PLAIN or spec.resources.gpus is not None


def _start(job: JobView, ledger: Ledger, given: dict[str, Placement]) -> Placement | None:
    """Start a job where room is for it now, if there is."""
    gpus = job.spec.asked_gpus
    speed = startable_on(job, gpus, ledger.cluster, type_blind=False)
    found = ledger.find(gpus, speed, speed, Demand.of(job.spec))
    if found is None or not is_whole(found, job.spec):
        return None
    ledger.take(job.id, found)
    given[job.id] = found
    return found


def _types(job: JobView, cluster: Cluster) -> list[str]:
    """Return the GPU types on which a job could start if nothing else ran."""
    gpus = job.spec.asked_gpus
    room = types_with_room(cluster, gpus, Demand.of(job.spec))
    return [t for t in startable_on(job, gpus, cluster, type_blind=False) if t in room]


def _soonest(job: JobView, ledger: Ledger) -> Placement | None:
    """Return the place for which the fewest GPUs must become free; None if the cluster has none for the job."""
    found = [(*_on_type(job.spec.asked_gpus, t, ledger), t) for t in _types(job, ledger.cluster)]
    found = [one for one in found if is_whole(one[1], job.spec)]
    return min(found, key=lambda one: (one[0], one[2]))[1] if found else None


def _on_type(gpus: int, gpu_type: str, ledger: Ledger) -> tuple[int, Placement]:
    """Return how many GPUs of a place are taken, and the place; the type has so many GPUs on few nodes."""
    nodes = ledger.cluster.of_type(gpu_type)
    sizes = np.array([node.gpus for node in nodes])
    idle = np.array([ledger.idle_on(node.id) for node in nodes])
    size = int(sizes.max())
    count, rest = divmod(gpus, size)
    order = np.lexsort((np.arange(len(nodes)), -idle))
    whole = order[sizes[order] == size][:count]
    shares = [NodeShare(nodes[i].id, size) for i in whole.tolist()]
    lacking = int((size - idle[whole]).sum())
    if rest:
        last = next(i for i in order.tolist() if sizes[i] >= rest and i not in whole)
        shares.append(NodeShare(nodes[last].id, rest))
        lacking += max(0, rest - int(idle[last]))
    return lacking, Placement(gpu_type, tuple(shares))


def _keep(place: Placement, ledger: Ledger) -> None:
    """Take what is idle of a place."""
    idle = ((share.node_id, min(share.gpus, ledger.idle_on(share.node_id))) for share in place.shares)
    if shares := tuple(NodeShare(node, gpus) for node, gpus in idle if gpus):
        ledger.take(_KEPT, Placement(place.gpu_type, shares))


def _waits_for_place(job: JobView, place: Placement, held: Mapping[str, Placement]) -> Waiting:
    nodes = {share.node_id for share in place.shares}
    there = (id for id, other in sorted(held.items()) if any(s.node_id in nodes for s in other.shares))
    return Waiting(
        WaitReason.KEPT_BY_OTHERS,
        f"{n_gpus(job.spec.asked_gpus)} on {_named(sorted(nodes))} are kept for it until jobs that may not be "
        f"stopped leave them: {_named(there)}.",
    )


def _named(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more
