"""From what jobs hold to what a plan wants: which commands to send now. Pure.

`step` is called whenever something changed. It never over-commits: a slot is claimed only when its GPUs
are held by nobody else, and a job that leaves slots holds them until its executor says they are released. A
job trains on where it is until its new slots are free; it is stopped or shrunk first only where others
wait for what it gives up and nothing else would free it (two jobs that swap, for one).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..core.cluster import Cluster
from ..core.job import JobSpec
from ..core.placement import Placement
from ..core.slot import Slot


@dataclass(frozen=True)
class Holding:
    """What a job was told to use (`target`) and where its workers may still live (`held`, a superset).

    `shrinks`: whether a part of the target is of use to the job (not to a rigid one). `patience_s`: how long the
    job may rightly take to leave slots.
    """

    target: frozenset[Slot] = frozenset()
    held: frozenset[Slot] = frozenset()
    pending_since_s: float | None = None
    shrinks: bool = True
    patience_s: float = 0.0

    @property
    def releasing(self) -> frozenset[Slot]:
        return self.held - self.target


@dataclass(frozen=True)
class Assign:
    """Use exactly these slots from now on; an empty tuple: checkpoint and stop."""

    job_id: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class ForceOut:
    """The job has not left its slots in time: restart its executor, which ends its workers."""

    job_id: str
    slots: tuple[Slot, ...]


Action = Assign | ForceOut


def slots_of(
    placement: Placement,
    spec: JobSpec,
    cluster: Cluster,
    leases: Mapping[str, str],
    current: Iterable[Slot] = (),
    others: Iterable[Slot] = (),
) -> tuple[Slot, ...]:
    """One slot per replica; replicas the job already has on a node keep their slots.

    `others` are slots of the same job that something else than these replicas lives in.

    Raises: ValueError where a share is no whole number of replicas, or its node has no lease.
    """
    per_replica = spec.gpus_per_replica(placement.gpu_type)
    if per_replica is None:
        raise ValueError(f"placement: the job cannot run on {placement.gpu_type}")
    current = set(current) - (beside := set(others))
    slots: list[Slot] = []
    for share in placement.shares:
        node, lease = cluster.by_id.get(share.node_id), leases.get(share.node_id)
        if node is None or lease is None:
            raise ValueError(f"placement: node {share.node_id} is not leased")
        replicas, rest = divmod(share.gpus, per_replica)
        if rest:
            raise ValueError(
                f"placement: {share.gpus} GPUs on node {share.node_id} are no multiple of the {per_replica} "
                "GPUs of a replica"
            )
        part = per_replica / node.gpus
        model = Slot(
            node_id=node.id,
            lease_id=lease,
            gpus=per_replica,
            gpu_type=node.gpu_type,
            emulated=node.emulated,
            cpus=_share(spec.resources.cpus_per_gpu * per_replica, node.cpus * part),
            memory_gib=_share(spec.resources.memory_gib_per_gpu * per_replica, node.memory_gib * part),
        )
        mine = sorted(s for s in current if s.node_id == node.id and replace(s, index=0) == model)
        taken = {slot.index for slot in current | beside if slot.node_id == node.id}
        fresh = (i for i in range(len(taken) + replicas) if i not in taken)
        slots += mine[:replicas]
        slots += [replace(model, index=next(fresh)) for _ in range(replicas - len(mine))]
    return tuple(sorted(slots))


def _share(wanted: float, available: float) -> float:
    """What a replica asks for, never more than its part of the lease; in whole thousandths, as Ray counts."""
    return int(min(wanted, available) * 1000) / 1000


def less_given_up(wanted: Sequence[Slot], target: Iterable[Slot], after: Iterable[Slot]) -> tuple[Slot, ...]:
    """What a job shall have, less what its executor gave up of its target: only a new round tries that again.

    `target`, `after`: before and after its executor released slots; leaving others is no giving up.
    """
    given_up = set(target) - set(after)
    return tuple(slot for slot in wanted if slot not in given_up)


def step(
    wanted: Mapping[str, Sequence[Slot]],
    holdings: Mapping[str, Holding],
    capacity: Mapping[str, int],
    now: float,
    release_timeout_s: float,
) -> list[Action]:
    """Commands that may be sent at once, in order.

    Args:
        wanted: slots each job shall have; a job that holds slots and is absent shall have none.
        holdings: every job (and whatever else occupies slots), in the order in which they are served.
        capacity: GPUs per living, leased node.
    """
    actions = _Step(wanted, holdings, capacity).actions()
    redirected = {action.job_id for action in actions}
    late: list[Action] = [
        ForceOut(job_id, tuple(sorted(held.releasing)))
        for job_id, held in holdings.items()
        if held.releasing
        and job_id not in redirected
        and held.pending_since_s is not None
        and now - held.pending_since_s > max(release_timeout_s, held.patience_s)
    ]
    return late + actions


class _Step:
    """One pass over the jobs that are not where they shall be."""

    def __init__(
        self,
        wanted: Mapping[str, Sequence[Slot]],
        holdings: Mapping[str, Holding],
        capacity: Mapping[str, int],
    ) -> None:
        self.holdings = dict(holdings)
        self.wanted = {job_id: frozenset(wanted.get(job_id, ())) for job_id in holdings}
        self.free = Counter(capacity)
        for holding in holdings.values():
            self.free.subtract(_gpus(holding.held))
        self.moving = [j for j, held in self.holdings.items() if self.wanted[j] != held.target]

    def actions(self) -> list[Action]:
        # Pure releases first, then everything that fits; repeated, as nothing else changes `free`.
        claims = sorted(self.moving, key=lambda job_id: bool(self.adds(job_id)))
        sent: list[Action] = [self.send(j, self.wanted[j]) for j in claims if self.fits(j)]
        return sent + self.break_waits()

    def adds(self, job_id: str) -> frozenset[Slot]:
        return self.wanted[job_id] - self.holdings[job_id].target

    def fits(self, job_id: str) -> bool:
        """Whether nobody else holds what it shall get. What it is leaving itself its executor can wait for."""
        return _within(_gpus(self.adds(job_id) - self.holdings[job_id].held), self.free)

    def send(self, job_id: str, slots: frozenset[Slot]) -> Assign:
        held = self.holdings[job_id]
        self.free.subtract(_gpus(slots - held.held))
        self.holdings[job_id] = replace(held, target=slots, held=held.held | slots)
        return Assign(job_id, tuple(sorted(slots)))

    def break_waits(self) -> list[Action]:
        """Stop jobs that wait for each other's slots; the others wait for releases already on their way."""
        sent: list[Action] = []
        waiting = [j for j in self.moving if self.holdings[j].target != self.wanted[j]]
        while True:
            needed = self.stuck(waiting)
            blocker = next((j for j in waiting if self.gives_up(j) & needed), None)
            if blocker is None:
                return sent
            held = self.holdings[blocker]
            kept = held.held & self.wanted[blocker] if held.shrinks else frozenset()
            sent.append(self.send(blocker, kept))

    def stuck(self, waiting: Sequence[str]) -> set[str]:
        """Nodes short of GPUs even after every release on its way, and every move these make possible."""
        soon = self.free.copy()
        for holding in self.holdings.values():
            soon.update(_gpus(holding.releasing))
        left = list(waiting)
        while movable := [j for j in left if _within(_gpus(self.adds(j)), soon)]:
            job_id = movable[0]
            left.remove(job_id)
            soon.subtract(_gpus(self.adds(job_id)))
            soon.update(_gpus(self.holdings[job_id].target - self.wanted[job_id]))
        short = (_gpus(self.adds(job_id)) for job_id in left)
        return {node for needs in short for node in needs if soon[node] < needs[node]}

    def gives_up(self, job_id: str) -> set[str]:
        """Nodes on which a waiting job still has slots that it is to leave."""
        return {slot.node_id for slot in self.holdings[job_id].target - self.wanted[job_id]}


def _gpus(slots: Iterable[Slot]) -> Counter[str]:
    """GPUs per node."""
    total: Counter[str] = Counter()
    for slot in slots:
        total[slot.node_id] += slot.gpus
    return total


def _within(needs: Mapping[str, int], free: Mapping[str, int]) -> bool:
    return all(free.get(node, 0) >= gpus for node, gpus in needs.items())
