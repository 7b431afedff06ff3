"""From closed nodes and maintenance windows to what users are shown (`core/schemas.py`). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...core.cluster import Cluster
from ...core.schemas import WindowRow
from ..changes.drain import stays
from ..jobs.fitting_types import runs_somewhere
from ..jobs.record import JobRecord
from ..nodes.node_orders import Window
from ..nodes.node_view import NodesSnapshot

MOST_TOLD = 3  # nodes, and reasons, that a sentence names


def with_closed(rows: Sequence[dict[str, Any]], nodes: NodesSnapshot, ahead_s: float) -> list[dict[str, Any]]:
    """Return rows of machines with why they take no new work."""
    found = {one.machine: one for id, one in nodes.closed.items() if id in nodes.alive}
    return [
        {
            **row,
            "closed": found[row["machine"]].told(ahead_s) if row["machine"] in found else "",
            "leaves": row["machine"] in found and found[row["machine"]].leaves,
            "deadline_s": found[row["machine"]].deadline_s if row["machine"] in found else None,
        }
        for row in rows
    ]


def closed_under(job: JobRecord, nodes: NodesSnapshot, ahead_s: float) -> list[str]:
    """Return a sentence for each node of a job that takes no new work."""
    on = sorted({slot.node_id for slot in job.occupied} & nodes.closed.keys())
    keeps = "; the job keeps what it has" if stays(job, nodes) else ""
    return [
        f"{nodes.closed[id].machine} is {nodes.closed[id].told(ahead_s)}{'' if nodes.closed[id].leaves else keeps}"
        for id in on
    ]


def window_rows(windows: Iterable[Window]) -> list[WindowRow]:
    """Return maintenance windows as they are shown, the next one first."""
    return [
        WindowRow(
            id=one.id,
            nodes=list(one.machines),
            gpu_type=one.gpu_type,
            begins_s=one.begins_s,
            ends_s=one.ends_s,
            lead_s=one.lead_s,
            who=one.who,
            why=one.why,
        )
        for one in sorted(windows, key=lambda one: (one.begins_s, one.id))
    ]


def explained(job: JobRecord, nodes: NodesSnapshot, ahead_s: float) -> list[str]:
    """Return lines that explain what closed nodes make of a job; nothing for one that they do not concern."""
    if why := why_closed_to(job, nodes, ahead_s):
        return [f"{job.id} is {why}"]
    return closed_under(job, nodes, ahead_s) if stays(job, nodes) else []


def why_closed_to(job: JobRecord, nodes: NodesSnapshot, ahead_s: float) -> str:
    """Return what a job waits for that only closed nodes could run; "" for any other."""
    if not nodes.closed_nodes or not job.active or job.paused or job.occupied:
        return ""
    open_too = Cluster((*nodes.cluster.nodes, *nodes.closed_nodes))
    if runs_somewhere(job.spec, nodes.cluster) or not runs_somewhere(job.spec, open_too):
        return ""
    by_reason: dict[str, list[str]] = {}
    for node in nodes.closed_nodes:
        if runs_somewhere(job.spec, Cluster((node,))):
            by_reason.setdefault(nodes.closed[node.id].told(ahead_s), []).append(node.machine_name)
    told = [f"{_named(sorted(machines))} {reason}" for reason, machines in by_reason.items()]
    more = f", and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
    return f"waiting for nodes that take no new work now: {'; '.join(told[:MOST_TOLD])}{more}"


def _named(machines: list[str]) -> str:
    """Return "t4-0 is", or "t4-0, t4-1 are"; of many machines only some by name."""
    more = f" and {len(machines) - MOST_TOLD} more" if len(machines) > MOST_TOLD else ""
    return f"{', '.join(machines[:MOST_TOLD])}{more} {'is' if len(machines) == 1 else 'are'}"
