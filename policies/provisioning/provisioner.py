"""From an order of jobs to a plan with CPUs and memory: who runs, on which nodes, and with how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.cluster import Cluster
from ...core.decisions import Placed, Refused, Waiting, WaitReason
from ...core.job import JobSpec
from ...core.placement import NodeShare, Placement
from ...core.resources import Totals
from ...core.wording import n_gpus
from ...estimators.goodput import JobModel, best_batch
from ...estimators.sensitivity.choices import Choices, choices
from ..choosing.decided import QueueReasons, decisions_of
from ..contract.round import JobView, Plan, Round
from .ideal import Machine
from .mechanism import Mechanism, Prices
from .mechanisms import Provisioning, mechanism_of
from .needs import Need
from .room import NodeRoom
from .serving import Served, admitted, asking, running_on, started, types_of
from .settle import squeeze
from .shares import Shares
from .told import SHARE_CPUS, SHARE_MEMORY_GIB, SPEED
from .types_chosen import Typed, types_chosen


@dataclass(frozen=True)
class Provisioner:
    """Provisions jobs of a fixed size by a mechanism.

    saturation: as in `best_case`. hands_out: whether what is left over goes to the jobs that gain most.
    own: a mechanism in place of the one with that name.
    """

    name: Provisioning
    saturation: float = 0.0
    hands_out: bool = True
    own: Mechanism | None = None

    def _mechanism(self) -> Mechanism:
        return self.own or mechanism_of(self.name, hands_out=self.hands_out)

    def plan(self, round: Round, order: np.ndarray, *, preempts: bool, type_blind: bool) -> Plan:
        """Return a plan in which the first jobs of an order run.

        Args:
            order: positions in the round.
            preempts: whether running jobs may be stopped for those before them.

        Raises:
            ValueError: one sentence, for a node that states no CPUs or memory.
        """
        mechanism, shares = self._mechanism(), Shares(round.cluster)
        rooms = {t: NodeRoom(Totals.of(round.cluster, t)) for t in round.cluster.gpu_types}
        if mechanism.admits:
            return self._choosing(round, order, rooms, preempts=preempts, type_blind=type_blind)
        serve = admitted if preempts else started
        served, tried = serve(round, order, type_blind=type_blind)
        if self.name is Provisioning.OPTIMAL and len(rooms) > 1:
            served = self._typed(round, served, shares, type_blind)
        prices: dict[str, Prices] = {}
        for gpu_type, room in rooms.items():
            needs = [self.need(round, one, shares) for one in served if one.gpu_type == gpu_type]
            for need in needs:
                if need.pinned:
                    room.reserve(need)
            if (found := mechanism.provide(needs, room)) is not None:
                prices[gpu_type] = found
        return self.made(round, order, tried, rooms, prices, shares)

    def _choosing(
        self, round: Round, order: np.ndarray, rooms: Mapping[str, NodeRoom], *, preempts: bool, type_blind: bool
    ) -> Plan:
        """Return a plan of a mechanism that chooses itself whom it serves. It goes through GPU types in turn."""
        mechanism, shares = self._mechanism(), Shares(round.cluster)
        tried = np.zeros(len(round.columns.gpus), bool)
        stays = {at for at in asking(round, order, preempts=preempts) if self._stays(round, at, preempts)}
        for at in stays:
            held = round.columns.placements[at]
            rooms[held.gpu_type].reserve(self.need(round, Served(at, held.gpu_type, True, held), shares))

        def needs(gpu_type: str, turn: int) -> Iterator[Need]:
            room = rooms[gpu_type]
            for at in asking(round, order, preempts=preempts):
                if at in stays:
                    here = round.columns.placements[at]
                    if turn == 0 and here.gpu_type == gpu_type:
                        yield self.need(round, Served(at, gpu_type, True, here), shares)
                    continue
                if round.columns.ids[at] in placed or round.columns.gpus[at] > room.gpus.sum():
                    continue
                types = list(types_of(round, at, type_blind))
                held = running_on(round, at)
                if held is not None and held.gpu_type in types:
                    types = [held.gpu_type, *(t for t in types if t != held.gpu_type)]
                if turn < len(types) and types[turn] == gpu_type:
                    tried[at] = True
                    yield self.need(round, Served(at, gpu_type, held=held), shares)

        placed: set[str] = set()
        for turn in range(len(rooms)):
            for gpu_type, room in rooms.items():
                mechanism.provide(needs(gpu_type, turn), room)
                placed.update(room.held)
        return self.made(round, order, tried, rooms, {}, shares)

    def _typed(self, round: Round, served: list[Served], shares: Shares, type_blind: bool) -> list[Served]:
        """Return the same jobs on the GPU types that are best for all of them together."""
        jobs: list[Typed] = []
        for one in served:
            job, gpus = round.jobs[one.at], int(round.columns.gpus[one.at])
            speed = {one.gpu_type: 1.0} if one.stays else types_of(round, one.at, type_blind)
            found = {t: self.choices(job, shares, t, gpus) for t in speed}
            at_share = {t: rate * found[t].input_at_share for t, rate in speed.items()}
            alone = at_share.get(one.gpu_type, 1.0)
            jobs.append(Typed(one.gpu_type, found, {t: rate / alone for t, rate in at_share.items()}))
        totals = {t: Totals.of(round.cluster, t) for t in round.cluster.gpu_types}
        machines = {
            t: Machine(float(of.gpus.sum()), float(of.cpus.sum()), float(of.memory_gib.sum()))
            for t, of in totals.items()
        }
        types = types_chosen(jobs, machines)
        return [replace(one, gpu_type=t) for one, t in zip(served, types, strict=True)]

    @staticmethod
    def _stays(round: Round, at: int, preempts: bool) -> bool:
        columns = round.columns
        if not columns.held[at] or (preempts and columns.preemptible[at]):
            return False
        return running_on(round, at) is not None

    def within(self, round: Round, plan: Plan) -> Plan:
        """Return a plan with CPUs and memory for the jobs that it places; their GPUs stay as they are planned.

        Beside a job whose user gave more than its share others may have less than theirs.
        """
        mechanism, shares = self._mechanism(), Shares(round.cluster)
        rooms = {t: NodeRoom(Totals.of(round.cluster, t)) for t in round.cluster.gpu_types}
        needs: dict[str, list[Need]] = {t: [] for t in rooms}
        for at, id in enumerate(round.columns.ids.tolist()):
            if (placement := plan.placements.get(id)) is not None:
                stays = Served(at, placement.gpu_type, True, placement)
                needs[placement.gpu_type].append(self.need(round, stays, shares))
        prices: dict[str, Prices] = {}
        for gpu_type, room in rooms.items():
            for need in needs[gpu_type]:
                room.reserve(need)
            if (found := mechanism.provide(needs[gpu_type], room)) is not None:
                prices[gpu_type] = found
            for need in needs[gpu_type]:
                if need.job not in room.held:  # its share is not free beside a job that asks for more than its own
                    room.give(need, need.before, *need.choices.share, 1.0)
            squeeze(room)
        chosen, extra, ids = _placements(round, rooms), _extra(round, rooms, prices), round.columns.ids
        placements = {id: chosen[id] for id in plan.placements}
        extra["figures"] = {**plan.figures, **extra["figures"]}

        def why(at: int) -> Waiting | Refused:
            said = plan.decision(ids[at])
            assert not isinstance(said, Placed)  # who has no placement is not placed
            return said

        return replace(plan, placements=placements, decisions=decisions_of(round, placements, why), **extra)

    # --- needs ----------------------------------------------------------------------------------------------

    def need(self, round: Round, served: Served, shares: Shares) -> Need:
        """Return what a job is to get on its GPU type."""
        job, held = round.jobs[served.at], served.held
        gpus = held.gpus if served.stays and held is not None else int(round.columns.gpus[served.at])
        before: tuple[tuple[int, int], ...] = ()
        if held is not None and held.gpu_type == served.gpu_type and held.gpus == gpus:
            at = round.cluster.positions
            before = tuple(sorted((at[share.node_id][1], share.gpus) for share in held.shares))
        unit = job.spec.gpus_per_replica(served.gpu_type) or 1
        return Need(job.id, gpus, self.choices(job, shares, served.gpu_type, gpus), unit, before, served.stays)

    def choices(self, job: JobView, shares: Shares, gpu_type: str, gpus: int) -> Choices:
        """Return what a job may get of the nodes of a type."""
        cpus, memory_gib = given_by_user(job.spec)
        return choices(
            job.sensitivity,
            gpus,
            shares.of(gpu_type, gpus),
            step_rate(job, shares.cluster, gpu_type, gpus),
            self.saturation,
            None if cpus is None else gpus * cpus,
            None if memory_gib is None else gpus * memory_gib,
        )

    # --- plans ----------------------------------------------------------------------------------------------

    def made(
        self,
        round: Round,
        order: np.ndarray,
        tried: np.ndarray,
        rooms: Mapping[str, NodeRoom],
        prices: Mapping[str, Prices],
        shares: Shares,
    ) -> Plan:
        """Return what the rooms hold as a plan."""
        placements = _placements(round, rooms)
        reasons = QueueReasons(round, placements, order, tried, len(round.cluster.gpu_types) > 1)
        free = {t: int(room.gpus.sum()) for t, room in rooms.items()}

        def why(at: int) -> Waiting | Refused:
            found, gpus = reasons.why(at), int(round.columns.gpus[at])
            if not tried[at] or isinstance(found, Refused) or found.reason is not WaitReason.FRAGMENTED:
                return found
            t = next((t for t, idle in free.items() if idle >= gpus), None)
            if t is None:
                return found
            asks = self.choices(round.jobs[at], shares, t, gpus).demand
            detail = f"It needs {asks[0]:g} CPUs and {asks[1]:g} GiB beside {n_gpus(gpus)}; free GPUs have less."
            return Waiting(WaitReason.NO_CPUS_OR_MEMORY, detail)

        return Plan(
            placements,
            decisions=decisions_of(round, placements, why),
            order=order,
            **_extra(round, rooms, prices),
        )


def gpus_alone(round: Round) -> Round:
    """Return a round in which jobs hold GPUs alone, so that CPUs and memory of others are in nobody's way."""

    def bare(job: JobView) -> JobView:
        if job.placement is None:
            return job
        shares = tuple(replace(share, cpus=0.0, memory_gib=0.0) for share in job.placement.shares)
        return replace(job, placement=replace(job.placement, shares=shares))

    return replace(round, jobs=[bare(job) for job in round.jobs])


def given_by_user(spec: JobSpec) -> tuple[float | None, float | None]:
    """Return the CPUs and the GiB of memory for each GPU that a user gave; None: the policy chooses."""
    resources = spec.resources
    return resources.cpus_per_gpu or None, resources.memory_gib_per_gpu or None


def step_rate(job: JobView, cluster: Cluster, gpu_type: str, gpus: int) -> float:
    """Return the samples/s of a job on so many GPUs if it never waited for input; inf: nobody knows."""
    if job.sensitivity is None or not isinstance(job.model, JobModel):
        return np.inf
    replicas = gpus // (job.spec.gpus_per_replica(gpu_type) or 1)
    best = best_batch(job.model, gpu_type, -(-gpus // cluster.largest_nodes[gpu_type]), replicas)
    return np.inf if best is None else best.throughput


def _placements(round: Round, rooms: Mapping[str, NodeRoom]) -> dict[str, Placement]:
    found: dict[str, Placement] = {}
    for gpu_type, room in rooms.items():
        nodes = round.cluster.of_type(gpu_type)
        for job, held in room.held.items():
            all_gpus = held.need.gpus
            shares = (
                NodeShare(nodes[at].id, gpus, held.cpus * gpus / all_gpus, held.memory_gib * gpus / all_gpus)
                for at, gpus in held.places
            )
            found[job] = Placement(gpu_type, tuple(shares))
    return found


def _extra(round: Round, rooms: Mapping[str, NodeRoom], prices: Mapping[str, Prices]) -> dict[str, Any]:
    """Return what a plan says of how jobs do against their shares, and of what a CPU and a GiB are worth."""
    count = len(round.columns.ids)
    figures = {name: np.full(count, np.nan) for name in (SHARE_CPUS, SHARE_MEMORY_GIB, SPEED)}
    held = {job: one for room in rooms.values() for job, one in room.held.items()}
    for at, id in enumerate(round.columns.ids.tolist()):
        if (one := held.get(id)) is not None:
            figures[SHARE_CPUS][at], figures[SHARE_MEMORY_GIB][at] = one.need.choices.share
            figures[SPEED][at] = one.speed
    return {
        "figures": figures,
        "cpu_prices": {t: price.cpu for t, price in prices.items()},
        "memory_prices": {t: price.gib for t, price in prices.items()},
    }
