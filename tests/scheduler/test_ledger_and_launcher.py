"""Plans by the ledger, applied by the launcher, in 10,000 histories: no GPU is given twice, nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec, ResourceRequest
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.resources import Resources
from coadapt.core.slot import Slot
from coadapt.policies.placing.demand import Demand
from coadapt.policies.placing.devices import name_devices
from coadapt.policies.placing.ledger import Ledger, OverCommitted
from coadapt.scheduler.rounds.launcher import Assign, Holding, same_amounts, slots_of, step

CLUSTERS = (
    Cluster((Node("n1", "t4", 2, 4.0, 16.0), Node("n2", "t4", 1))),
    Cluster((Node("n1", "t4", 3, 3.0), Node("n2", "a100", 2, 8.0, 8.0))),
    Cluster((Node("n1", "t4", 4, 8.0), Node("n2", "t4", 2, 2.0, 4.0), Node("n3", "a100", 1))),
)
SPECS = {
    "a": JobSpec(name="a", script="t.py"),
    "b": JobSpec(name="b", script="t.py", resources=ResourceRequest(gpus_per_replica=2)),
    "c": JobSpec(name="c", script="t.py", resources=ResourceRequest(cpus_per_gpu=2.0, memory_gib_per_gpu=4.0)),
    "d": JobSpec(name="d", script="t.py"),
}
TENANTS = 2
PARTS = (0.25, 0.5)


class History:
    """Rounds over one cluster; executors leave what they are told to leave, sooner or later."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.cluster = random.choice(CLUSTERS)
        self.whole = {node.id: Resources.of_node(node) for node in self.cluster.nodes}
        self.leases = {node.id: f"l{node.id}" for node in self.cluster.nodes}
        self.holdings = {job: Holding() for job in SPECS}
        self.wanted: dict[str, tuple[Slot, ...]] = {}
        self.placed: Mapping[str, Placement] = {}

    def plan(self) -> None:
        """Give some jobs what they have, some other GPUs, some a part of one, and some nothing."""
        ledger = Ledger(self.cluster, TENANTS)
        for job in self.random.sample(sorted(SPECS), len(SPECS)):
            placement = self._wish(job, ledger)
            if placement is not None:
                try:
                    ledger.take(job, placement)
                except OverCommitted:
                    continue
        for node in self.whole:
            left = ledger.free(node)
            assert min(left.cpus, left.memory_gib, *left.devices.values(), 1.0) >= 0
        held = {job: _devices(holding) for job, holding in self.holdings.items()}
        found = name_devices(ledger.held, held, self.cluster, TENANTS)
        assert not found.refused
        self.placed, self.wanted = found.placements, {}
        for job, placement in found.placements.items():
            now = self.holdings[job].held
            self.wanted[job] = slots_of(placement, SPECS[job], self.cluster, self.leases, now)

    def _wish(self, job: str, ledger: Ledger) -> Placement | None:
        wish = self.random.random()
        if wish < 0.2:
            return None
        if wish < 0.5 and job in self.placed:
            return self.placed[job]
        if wish < 0.65 and job in "ad":
            node = self.random.choice(self.cluster.nodes)
            part, device = self.random.choice(PARTS), self.random.randrange(node.gpus)
            return Placement(node.gpu_type, (NodeShare(node.id, 1, part, 0.0, part, (device,)),))
        gpus = SPECS[job].gpus_per_replica("t4") or 1
        if gpus == 1:
            gpus = self.random.choice((1, 1, 2))
        return ledger.find(gpus, demand=Demand.of(SPECS[job]))

    def launch(self) -> None:
        """Send what may be sent, look after each command, and have some jobs leave what they are to leave."""
        for action in step(self.wanted, self.holdings, self.whole, 0.0, 1e9):
            assert isinstance(action, Assign)
            before, target = self.holdings[action.job_id], frozenset(action.slots)
            self.holdings[action.job_id] = replace(before, target=target, held=target | before.held)
            self.check()
        for job, holding in self.holdings.items():
            if self.random.random() < 0.6:
                self.holdings[job] = replace(holding, held=holding.target)

    def run_out(self) -> None:
        for _ in range(60):
            self.launch()
            if all(same_amounts(self.wanted.get(job, ()), held.held) for job, held in self.holdings.items()):
                return
        raise AssertionError(f"never as planned: {self.wanted}, {self.holdings}")

    def check(self) -> None:
        """Check that no GPU is above its share, and no amount below 0."""
        free = dict(self.whole)
        for holding in self.holdings.values():
            for slot in holding.held:
                amount = Resources.of_slot(slot)
                assert amount.fits(free[slot.node_id]), f"{slot} beside {self.holdings}"
                free[slot.node_id] -= amount


def _devices(holding: Holding) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for slot in (*sorted(holding.target), *sorted(holding.releasing)):
        found.setdefault(slot.node_id, []).extend(slot.devices)
    return found


@pytest.mark.parametrize(
    "seeds", [range(2_500), pytest.param(range(2_500, 10_000), marks=pytest.mark.slow)], ids=len
)
def test_no_history_gives_a_gpu_twice_or_loses_one(seeds: range) -> None:
    for seed in seeds:
        history = History(Random(seed))
        for _ in range(history.random.randint(1, 3)):
            history.plan()
            for _ in range(history.random.randint(0, 2)):
                history.launch()
        history.run_out()
        history.wanted = {}
        history.run_out()
        assert not any(holding.held for holding in history.holdings.values()), seed
