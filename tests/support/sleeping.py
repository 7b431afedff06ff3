"""Machines and jobs of a fixed size, for tests of which machines wake and sleep."""

from __future__ import annotations

from typing import Any

from coadapt.core.cluster import Node
from coadapt.policies.contract.round import JobView

from tests.support.rounds import job


def machines(count: int, gpu_type: str = "t4", *, pool: str = "", first: int = 0) -> tuple[Node, ...]:
    """Return nodes t4-000, t4-001, … with 8 GPUs each, which are machines m-t4-000, m-t4-001, …"""
    return tuple(
        Node(f"{gpu_type}-{i:03d}", gpu_type, 8, pool=pool, machine=f"m-{gpu_type}-{i:03d}")
        for i in range(first, first + count)
    )


def rigid(id: str, gpus: int, **more: Any) -> JobView:
    """Return a job of a fixed size of which nothing is known."""
    return job(id, known=False, adaptivity="rigid", gpus=gpus, **more)
