"""What a plan decides about each job, computed only for jobs that someone asks about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...core.cluster import Cluster
from ...core.decisions import Decision, Placed, Refused, Waiting, WaitReason
from ...core.job import JobSpec
from ...core.placement import Placement
from ...core.resources import idle_gpus
from ...core.wording import n_gpus
from ..contract.configuration import Configuration, ConfigurationSet
from ..contract.round import JobView, Round
from ..contract.sharing import Standing
from ..placing.demand import WISH, Demand
from ..placing.devices import gpus_only
from ..placing.ledger import Ledger
from ..placing.speeds import is_whole, rates_of, types_for, types_with_room
from .eligibility import has_room
from .lazy import LazyMapping


def decisions_of(
    round: Round, placements: Mapping[str, Placement], why: Callable[[int], Waiting | Refused]
) -> Mapping[str, Decision]:
    """Return the decision about every job of the round. Each is computed when it is read.

    Args:
        why: called with the position of a job that has no placement. It may be called long after the round, so it
            reads nothing that a later round changes.
    """
    ids: list[str] = round.columns.ids.tolist()

    def decision(i: int) -> Decision:
        placement = placements.get(ids[i])
        return why(i) if placement is None else Placed(placement)

    return LazyMapping(ids, decision)


@dataclass(frozen=True, eq=False)
class Left:
    """What a plan leaves free, worked out once for all jobs that someone asks about."""

    round: Round
    placements: Mapping[str, Placement]

    @cached_property
    def gpus(self) -> Mapping[str, int]:
        """Return the free GPUs of each type."""
        return idle_gpus(self.round.cluster, self.placements.values())

    @cached_property
    def ledger(self) -> Ledger:
        """Return who holds what."""
        return Ledger.of(self.round.cluster, self.placements)

    @cached_property
    def gpu_ledger(self) -> Ledger:
        """Return who holds what of nodes that have all CPUs and memory that anybody asks for."""
        return Ledger.of(gpus_only(self.round.cluster), self.placements)


def never_runs(spec: JobSpec) -> Refused | None:
    """Refuse a job whose limits allow no number of whole replicas on any GPU type; else return None."""
    resources = spec.resources
    least, most = resources.gpus or resources.min_gpus, resources.gpus or resources.max_gpus
    each = resources.gpus_per_replica
    sizes = [each] if isinstance(each, int) else [n for t, n in each.items() if spec.gpus_per_replica(t)]
    if spec.reservation is not None or any(-(-least // n) * n <= most for n in sizes):
        return None
    named = " or ".join(str(n) for n in sorted(set(sizes)))
    between = f"{least}" if least == most else f"{least} to {most}"
    return Refused(f"No number of GPUs it accepts ({between}) is a multiple of {named}, the GPUs of one replica.")


def cannot_run(job: JobView, gpus: int, cluster: Cluster) -> Waiting | Refused | None:
    """Say why a job of a fixed size has no room even while nothing runs; None: it has."""
    if (refused := never_runs(job.spec)) is not None:
        return refused
    capacity = cluster.capacity()
    allowed = [t for t in capacity if job.spec.gpus_per_replica(t)]
    if not allowed:
        return _no_type(job.spec, cluster)
    large = [t for t in allowed if capacity[t] >= gpus]
    if not large:
        return _too_large(gpus, max(capacity[t] for t in allowed), cluster)
    whole = types_with_room(gpus_only(cluster), gpus, WISH).intersection(types_for(job.spec, gpus, cluster))
    if whole and whole.isdisjoint(types_with_room(cluster, gpus, Demand.of(job.spec))):
        return Waiting(WaitReason.NO_CPUS_OR_MEMORY, f"{_asks(job.spec)}; idle nodes have less than that.")
    return None


def room_reason(job: JobView, gpus: int, left: Left, types: Collection[str] | None = None) -> Waiting | Refused:
    """Say why a job of a fixed size found no room: the cluster cannot run it, or has too little free.

    Args:
        types: GPU types that can run the job; None: those its user allows and its known speeds do not exclude.
    """
    cluster = left.round.cluster
    if (never := cannot_run(job, gpus, cluster)) is not None:
        return never
    capacity = cluster.capacity()
    large = [t for t in capacity if capacity[t] >= gpus and job.spec.gpus_per_replica(t)]
    if types is None:
        rates = dict(zip(cluster.gpu_types, rates_of(job, gpus, cluster).tolist(), strict=True))
        types = [t for t in large if rates[t] > 0]
    able = [t for t in large if t in types and t in types_for(job.spec, gpus, cluster)]
    if not able:
        return Waiting(WaitReason.NO_GPU_TYPE, f"It cannot run on {n_gpus(gpus)} of {' or '.join(large)}.")
    most = max(left.gpus[t] for t in able)
    if most < gpus:
        return Waiting(
            WaitReason.NO_ROOM,
            f"It needs {n_gpus(gpus)} of one type; at most {most} of those it can use are free.",
        )
    if (lacks := no_cpus_or_memory(job, gpus, left, able)) is not None:
        return lacks
    return Waiting(
        WaitReason.FRAGMENTED,
        f"It needs {n_gpus(gpus)} on as few nodes as can be; {most} of one type are free, but not together.",
    )


def no_cpus_or_memory(job: JobView, gpus: int, left: Left, types: Collection[str]) -> Waiting | None:
    """Say that so many GPUs of these types are free and lack CPUs or memory beside them; None: that is not so."""
    found = left.gpu_ledger.find(gpus, types)
    if found is None or not is_whole(found, job.spec):
        return None
    if left.ledger.find(gpus, types, demand=Demand.of(job.spec)) is not None:
        return None
    return Waiting(WaitReason.NO_CPUS_OR_MEMORY, f"{_asks(job.spec)}; free GPUs have less than that.")


def capped_types(standing: Mapping[str, Standing], could: Mapping[str, int]) -> list[str]:
    """Return the GPU types that a job could use, if its team's caps block all of them.

    Args:
        could: the fewest GPUs that it may have of each type.
    """
    capped = [
        t
        for t, gpus in could.items()
        if t in standing and (most := standing[t].cap) is not None and standing[t].used + gpus > most
    ]
    return capped if len(capped) == len(could) else []


def _is_preferred(team: str, own: str, standing: Standing | None) -> bool:
    return team != own and standing is not None and standing.under > 0


def what_it_takes(spec: JobSpec) -> str:
    """Return the subject and verb of a sentence on what others could do with what a job takes."""
    return "its GPUs are" if Demand.of(spec).is_wish else "its GPUs, CPUs and memory are"


def _asks(spec: JobSpec) -> str:
    demand = Demand.of(spec)
    cpus = "" if demand.cpus_per_gpu is None else f"{demand.cpus_per_gpu:g} CPUs"
    memory = f"{demand.memory_gib_per_gpu:g} GiB of memory" if demand.memory_gib_per_gpu else ""
    return f"It asks for {' and '.join(filter(None, (cpus, memory)))} beside each GPU"


def _no_type(spec: JobSpec, cluster: Cluster) -> Waiting:
    each = spec.resources.gpus_per_replica
    wanted = spec.resources.gpu_types or (each if isinstance(each, dict) else ())
    have = ", ".join(cluster.gpu_types) or "no GPUs"
    named = " or ".join(sorted(wanted)) or "GPUs"
    return Waiting(WaitReason.NO_GPU_TYPE, f"It runs on {named} only; {cluster.called} has {have}.")


def _too_large(gpus: int, most: int, cluster: Cluster) -> Waiting:
    detail = f"It needs {n_gpus(gpus)} of one type; {cluster.called} has at most {most}."
    return Waiting(WaitReason.TOO_LARGE, detail)


@dataclass(frozen=True, eq=False)
class QueueReasons:
    """Tells why jobs that are served in an order wait; `why` is for `decisions_of`.

    Args:
        order: positions in the round, in the order in which jobs are served.
        tried: mask by position of the jobs for which the policy looked for room. Any other waiting job is behind
            others.
        asks_speeds: whether the policy excludes GPU types that cannot run a job. Policies that only order jobs do
            not exclude any on a cluster of one type.
    """

    round: Round
    placements: Mapping[str, Placement]
    order: np.ndarray
    tried: np.ndarray
    asks_speeds: bool = True

    @cached_property
    def _left(self) -> Left:
        return Left(self.round, self.placements)

    @cached_property
    def _before(self) -> np.ndarray:
        """(2, jobs) how many jobs come before each in the order, and how many of these wait."""
        ids = self.round.columns.ids[self.order].tolist()
        waits = np.array([id not in self.placements for id in ids], np.int64)
        before = np.empty((2, len(ids)), np.int64)
        before[:, self.order] = np.arange(len(ids)), np.cumsum(waits) - waits
        return before

    def why(self, i: int) -> Waiting | Refused:
        job, gpus = self.round.jobs[i], int(self.round.columns.gpus[i])
        types = None if self.asks_speeds else self.round.cluster.gpu_types
        found = room_reason(job, gpus, self._left, types)
        never = found.reason == WaitReason.NO_GPU_TYPE or cannot_run(job, gpus, self.round.cluster) is not None
        if self.tried[i] or never:
            return found
        ahead, waiting = self._before[:, i].tolist()
        return Waiting(WaitReason.BEHIND_OTHERS, f"Jobs before it in the order: {ahead}, of which {waiting} wait.")


def no_configuration(job: JobView, configurations: ConfigurationSet) -> Waiting | Refused:
    """Say why a job has no option among the configurations of the cluster."""
    refused = never_runs(job.spec)
    if refused is not None:
        return refused
    resources, cluster = job.spec.resources, configurations.cluster
    capacity = cluster.capacity()
    types = [t for t in capacity if job.spec.gpus_per_replica(t)]
    if not types:
        return _no_type(job.spec, cluster)
    least, most = resources.gpus or resources.min_gpus, max(capacity[t] for t in types)
    if least > most:
        return _too_large(least, most, cluster)
    if not has_room(job.spec, configurations).any():
        return Waiting(WaitReason.NO_CPUS_OR_MEMORY, f"{_asks(job.spec)}; idle nodes have less than that.")
    return Waiting(
        WaitReason.NO_CONFIGURATION,
        f"No configuration of {cluster.called} is within its limits: its GPU counts, batch sizes and model.",
    )


@dataclass(frozen=True, eq=False)
class ProgramReasons:
    """Tells why a job gets nothing in a round that is one program; `why` is for `decisions_of`.

    Args:
        gains, costs: as in `Plan`.
        wanted: what the program chose for each job, before it was placed.
        placements: where that is.
        unmet: jobs that must be served and cannot be.
        resting: jobs that rest after their turn.
        waits: why jobs that are no part of the program wait, by their ids.
        teams: how teams stand, by team and GPU type.
    """

    round: Round
    configurations: ConfigurationSet
    gains: Mapping[str, np.ndarray]
    costs: Mapping[str, np.ndarray]
    wanted: Mapping[str, Configuration]
    placements: Mapping[str, Placement]
    unmet: Collection[str] = ()
    resting: Collection[str] = ()
    waits: Mapping[str, Waiting] = field(default_factory=dict)
    teams: Mapping[str, Mapping[str, Standing]] = field(default_factory=dict)

    @cached_property
    def _left(self) -> Left:
        return Left(self.round, self.placements)

    def why(self, i: int) -> Waiting | Refused:
        job = self.round.jobs[i]
        if (waits := self.waits.get(job.id)) is not None:
            return waits
        if job.id in self.wanted:
            c = self.wanted[job.id]
            return self._lacks(job, c) or Waiting(
                WaitReason.FRAGMENTED, f"No room for {c} is left together on the nodes."
            )
        gains = self.gains[job.id]
        options = np.isfinite(gains)
        if not options.any():
            return no_configuration(job, self.configurations)
        sizes = np.where(options, self.configurations.arrays.gpus, np.iinfo(np.int64).max)
        smallest = self.configurations[int(sizes.argmin())]
        if job.id in self.unmet:
            if (lacks := self._lacks(job, smallest)) is not None:
                return lacks
            reserved = job.spec.reservation
            what = (
                "Once it runs it may not be stopped"
                if reserved is None
                else f"It reserved {reserved.gpus} {reserved.gpu_type}"
            )
            return Waiting(WaitReason.KEPT_BY_OTHERS, f"{what}; jobs that must keep their GPUs leave it no room.")
        best = int(gains.argmax())
        name, gain = self.configurations.names[best], float(gains[best])
        if job.id in self.resting:
            return Waiting(WaitReason.HAD_ITS_TURN, "It has had its turn of the time that jobs share.")
        if gain <= 0:
            return Waiting(
                WaitReason.NOT_WORTH_IT,
                f"Its best option, {name}, adds {gain:.3g} to the objective; leaving it out adds 0.",
            )
        if (lacks := self._lacks(job, smallest)) is not None:
            return lacks
        if (shared := self._by_teams(job, options, best)) is not None:
            return shared
        cost = float(self.costs[job.id][best])
        to_others = f"{what_it_takes(job.spec)} worth {cost:.3g} to other jobs"
        return Waiting(
            WaitReason.OUTBID, f"Its best option, {name}, would add {gain:.3g} to the objective; {to_others}."
        )

    def _by_teams(self, job: JobView, options: np.ndarray, best: int) -> Waiting | None:
        """Say that its team's cap, or the guarantee of another team, keeps a job waiting; None: neither does."""
        sharing = self.round.sharing
        if sharing is None:
            return None
        arrays, own = self.configurations.arrays, sharing.team.get(job.id, "")
        could = {
            t: int(arrays.gpus[options & (arrays.type_index == i)].min())
            for i, t in enumerate(arrays.gpu_types)
            if (options & (arrays.type_index == i)).any()
        }
        if capped := capped_types(self.teams.get(own, {}), could):
            t = capped[0]
            return Waiting(WaitReason.TEAM_CAP, self.teams[own][t].told(own, t))
        gpu_type = self.configurations[best].gpu_type
        first = [team for team, by_type in self.teams.items() if _is_preferred(team, own, by_type.get(gpu_type))]
        if not first:
            return None
        detail = f"Other teams ask for their guarantees of {gpu_type}: {', '.join(sorted(first)[:3])}."
        return Waiting(WaitReason.KEPT_FOR_TEAMS, detail)

    def _lacks(self, job: JobView, c: Configuration) -> Waiting | None:
        return no_cpus_or_memory(job, c.gpus, self._left, (c.gpu_type,))
