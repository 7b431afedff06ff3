"""Nodes and jobs for tests of mechanisms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from coadapt.core.resources import Totals
from coadapt.estimators.sensitivity.choices import Choices, Share, choices
from coadapt.estimators.sensitivity.table import SpeedGrid, TabulatedSensitivity
from coadapt.policies.provisioning.mechanism import Mechanism
from coadapt.policies.provisioning.needs import Need, Places
from coadapt.policies.provisioning.room import NodeRoom

TIGHT = 1e-6


def room(*nodes: tuple[int, float, float]) -> NodeRoom:
    """Return idle nodes of (GPUs, CPUs, GiB)."""
    gpus, cpus, memory = zip(*nodes, strict=True)
    return NodeRoom(Totals(np.array(gpus, np.int64), np.array(cpus, float), np.array(memory, float)))


def share_on(nodes: NodeRoom, gpus: int) -> Share:
    """Return the share of each GPU of equal nodes, and the most of a job of so many GPUs."""
    g, c, m = int(nodes.totals.gpus[0]), float(nodes.totals.cpus[0]), float(nodes.totals.memory_gib[0])
    machines = -(-gpus // g)
    return Share(c / g, m / g, machines * c / gpus, machines * m / gpus)


def wants(cpus: float, memory_gib: float, share: tuple[float, float], gpus: int = 1) -> Choices:
    """Return the choices of a job that gains in proportion up to a demand of these totals, in both."""
    points = sorted({*np.linspace(1, max(cpus, share[0] * gpus), 12).tolist(), cpus, share[0] * gpus})
    sizes = sorted({*np.linspace(10, max(memory_gib, share[1] * gpus), 12).tolist(), memory_gib, share[1] * gpus})
    c, m = np.array(points) / gpus, np.array(sizes) / gpus
    speed = np.minimum(np.minimum(c * gpus / cpus, 1.0)[:, None], np.minimum(m * gpus / memory_gib, 1.0)[None, :])
    sensitivity = TabulatedSensitivity({1: SpeedGrid(c, m, speed)})
    return choices(sensitivity, gpus, Share(share[0], share[1], cpus + share[0], memory_gib + share[1]))


def provided(mechanism: Mechanism, nodes: NodeRoom, needs: Sequence[Need]) -> NodeRoom:
    """Let a mechanism provide, as the provisioner does, and return the nodes."""
    for need in needs:
        if need.pinned:
            nodes.reserve(need)
    mechanism.provide(sorted(needs, key=lambda need: not need.pinned), nodes)
    return nodes


def check(nodes: NodeRoom, needs: Sequence[Need]) -> None:
    """Check the rules of placement: nothing is exceeded, all GPUs are there, and amounts go with GPUs."""
    used = np.zeros((len(nodes.totals.gpus), 3))
    by_job = {need.job: need for need in needs}
    for job, held in nodes.held.items():
        need = by_job[job]
        assert sum(gpus for _, gpus in held.places) == need.gpus
        assert all(gpus % need.unit == 0 and gpus > 0 for _, gpus in held.places)
        if need.pinned:
            assert held.places == need.before
        if need.gpus == 1:
            assert len(held.places) == 1
        for node, gpus in held.places:
            used[node] += gpus, held.cpus * gpus / need.gpus, held.memory_gib * gpus / need.gpus
        assert abs(held.speed - need.choices.speed_with(held.cpus, held.memory_gib)) < TIGHT
        if not need.choices.is_wider:
            assert held.speed >= 1 - TIGHT
    totals = np.stack([nodes.totals.gpus, nodes.totals.cpus, nodes.totals.memory_gib], axis=1)
    assert (used <= totals + TIGHT).all(), (used - totals).max()
    free = np.stack([nodes.gpus, nodes.cpus, nodes.memory_gib], axis=1)
    assert np.allclose(totals - used, free, atol=TIGHT)


def places_of(nodes: NodeRoom) -> dict[str, Places]:
    """Return where each job is."""
    return {job: held.places for job, held in nodes.held.items()}
