"""CPUs that a plan leaves to nobody go to what shows how fast a job's input is with more of them.

A profile run measures on all that its node has left. A job that was measured on few CPUs, and whose input was
still getting faster at the most of these, trains with more as soon as they are free. What its training shows
then counts as measured. A job that needs CPUs has them in the next plan, as no policy counts these.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from ...core.cluster import Cluster
from ...core.placement import Placement
from ...core.resources import TOLERANCE
from ...estimators.sensitivity.measured import MeasuredSensitivity
from ...policies.contract.round import JobView
from ...policies.provisioning.provisioner import step_rate

TIMES = 2.0  # as many CPUs as were measured are tried next


def tried_next(jobs: Iterable[JobView], placements: Mapping[str, Placement], cluster: Cluster) -> dict[str, int]:
    """Return the whole CPUs for each GPU with which jobs should be measured next; others are not named.

    Those are left out whose input does not get faster, or is as fast as their GPUs.
    """
    found: dict[str, int] = {}
    for job in jobs:
        known, placement = job.sensitivity, placements.get(job.id)
        if placement is None or not isinstance(known, MeasuredSensitivity) or not known.climbs:
            continue
        gpus = placement.gpus
        if known.prepared[-1] * gpus < step_rate(job, cluster, placement.gpu_type, gpus):
            found[job.id] = math.floor(known.cpus[-1] * TIMES)
    return found


def with_spare(
    placements: Mapping[str, Placement],
    chosen: Container[str],
    cluster: Cluster,
    runs: Container[str],
    tried: Mapping[str, int],
) -> dict[str, Placement]:
    """Return placements in which whole CPUs that are left go to profile runs, and then to jobs that try more.

    A job that stays as it is keeps its placement, as the same object.

    Args:
        chosen: whose CPUs the scheduler chooses; the others have those that their users gave.
        runs: ids of profile runs.
        tried: of `tried_next`.
    """
    left = {node.id: node.cpus for node in cluster.nodes if node.cpus >= node.gpus}
    for placement in placements.values():
        for share in placement.shares:
            if share.node_id in left:
                left[share.node_id] -= share.cpus
    found = dict(placements)
    for job in (id for id in placements if id in chosen):
        shares = placements[job].shares
        if not all(share.node_id in left for share in shares):
            continue
        most = min((share.cpus + left[share.node_id]) / share.gpus for share in shares)
        wanted = most if job in runs else tried.get(job, 0)
        cpus = math.floor(min(wanted, most) + TOLERANCE)
        if cpus <= max(share.cpus / share.gpus for share in shares) + TOLERANCE:
            continue
        for share in shares:
            left[share.node_id] -= cpus * share.gpus - share.cpus
        given = tuple(replace(share, cpus=float(cpus * share.gpus)) for share in shares)
        found[job] = Placement(placements[job].gpu_type, given)
    return found
