"""What jobs hold of nodes whose GPUs two jobs may share. All placements name their GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from ...core.cluster import Cluster
from ...core.job import JobSpec
from ...core.placement import Placement
from ..contract.traits import TENANTS
from ..placing.demand import WISH, Demand
from ..placing.devices import name_devices
from ..placing.ledger import Ledger, OverCommitted
from ..placing.speeds import types_for

HALF = 1.0 / TENANTS


class Tenants:
    """The account of some nodes. It is kept from round to round, and follows what jobs hold."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._ledger = Ledger(cluster, TENANTS)
        self.touched = True  # something changed since `follow`
        self._fits: dict[tuple[int, tuple[str, ...], Demand], bool] = {}  # if nobody is there
        self._on: dict[frozenset[tuple[str, int]], list[str]] = {}  # the GPUs of a job -> jobs on all of them

    @property
    def held(self) -> Mapping[str, Placement]:
        """What each job holds."""
        return self._ledger.held

    def idle(self, gpu_type: str) -> int:
        """Return how many GPUs of a type nobody is on."""
        return self._ledger.idle(gpu_type)

    def follow(self, held: Mapping[str, Placement]) -> None:
        """Take over what jobs hold now. Who is alone holds whole GPUs. What has no room is left out."""
        known = self.held
        for job in [job for job, at in known.items() if (new := held.get(job)) is not at and new != at]:
            self.give_back(job)
        for job, placement in _named(held, known, self.cluster).items():
            with suppress(ValueError, OverCommitted):
                self.take(job, placement)
        for devices, jobs in list(self._on.items()):
            part = self.held[jobs[0]].shares[0].share
            if len(jobs) == 1 and part < 1.0 and not self._others(devices, jobs[0]):
                self._retake(jobs[0], 1.0)
        self.touched = False

    def take(self, job: str, placement: Placement) -> None:
        """Give a job what a placement says. Raises OverCommitted or ValueError as the ledger does."""
        self._ledger.take(job, placement)
        self.touched = True
        self._on.setdefault(placement.devices, []).append(job)

    def give_back(self, job: str) -> None:
        """Take back all that a job holds."""
        self.touched = True
        devices = self._ledger.give_back(job).devices
        jobs = self._on[devices]
        jobs.remove(job)
        if not jobs:
            del self._on[devices]

    def partner(self, job: str) -> str | None:
        """Return the other job on a job's GPUs; None: it is alone."""
        return next((one for one in self._on[self.held[job].devices] if one != job), None)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the jobs that share GPUs, two by two."""
        return [(jobs[0], jobs[1]) for jobs in self._on.values() if len(jobs) == TENANTS]

    def part(self, job: str) -> None:
        """Take a job off the GPUs that it shares; its partner holds them whole again."""
        partner = self.partner(job)
        self.give_back(job)
        if partner is not None:
            self._retake(partner, 1.0)

    def has_room_if_empty(self, spec: JobSpec, gpus: int) -> bool:
        """Return whether a job of so many GPUs could start if nobody was there."""
        key = gpus, tuple(types_for(spec, gpus, self.cluster)), Demand.of(spec)
        if (known := self._fits.get(key)) is None:
            found = Ledger(self.cluster).find(gpus, key[1], demand=key[2])
            known = self._fits[key] = found is not None
        return known

    def is_alone(self, job: str) -> bool:
        """Return whether nobody else is on any GPU of a job, and a partner would have room."""
        placement = self.held[job]
        return len(self._on[placement.devices]) == 1 and all(share.share == 1.0 for share in placement.shares)

    def find(self, gpus: int, gpu_types: Iterable[str], demand: Demand = WISH) -> Placement | None:
        """Return idle GPUs, on as few nodes as possible, without taking them; None: there are none."""
        found = self._ledger.find(gpus, gpu_types, demand=demand)
        if found is None:
            return None
        shares = []
        for share in found.shares:
            free = [d for d, left in self._ledger.free(share.node_id).devices.items() if left == 1.0]
            shares.append(replace(share, devices=tuple(free[: share.gpus])))
        return Placement(found.gpu_type, tuple(shares))

    def join(self, job: str, partner: str, demand: Demand = WISH) -> Placement:
        """Put a job on the GPUs of another one that is alone there.

        It takes no CPUs where it only wishes for some: those of its GPUs serve both, and idle GPUs keep theirs.
        Raises OverCommitted where a node lacks what it must have.
        """
        whole, nodes = self.held[partner], self.cluster.by_id
        shares = tuple(
            replace(share, share=HALF, cpus=0.0 if demand.is_wish else cpus, memory_gib=memory_gib)
            for share in whole.shares
            for cpus, memory_gib in [demand.on(nodes[share.node_id], share.gpus)]
        )
        self._retake(partner, HALF)
        found = Placement(whole.gpu_type, shares)
        try:
            self.take(job, found)
        except ValueError:
            self._retake(partner, 1.0)
            raise
        return found

    def _retake(self, job: str, part: float) -> None:
        placement = self.held[job].with_share(part)
        self.give_back(job)
        self.take(job, placement)

    def _others(self, devices: frozenset[tuple[str, int]], job: str) -> bool:
        """Return whether other jobs are on some of these GPUs."""
        return any(devices & other for other, jobs in self._on.items() if jobs != [job])


def _named(
    held: Mapping[str, Placement], known: Mapping[str, Placement], cluster: Cluster
) -> dict[str, Placement]:
    """Return placements that are not known yet, with names for GPUs that have none."""
    new = {job: placement for job, placement in held.items() if job not in known}
    if all(share.devices for placement in new.values() for share in placement.shares):
        return new
    both = {**known, **new}
    own = {
        job: {share.node_id: share.devices for share in placement.shares if share.devices}
        for job, placement in both.items()
    }
    named = name_devices(both, own, cluster, TENANTS).placements
    return {job: named[job] for job in new if job in named}
