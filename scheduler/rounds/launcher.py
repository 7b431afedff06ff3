"""Decides which commands to send now, so that jobs get from what they hold to what a plan wants. Pure.

`step` is called whenever something has changed. It never over-commits. A job claims GPUs, CPUs and memory only
when they are free. A job that leaves slots holds them until its executor says that they are released, and until
then they count for the cap of its team, too.

A job trains where it is until its new slots are free. It is stopped or shrunk early in one case only: others wait
for what it gives up, and nothing else would free it. Two jobs that swap are an example.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...core.cluster import Cluster
from ...core.job import JobSpec
from ...core.placement import Placement
from ...core.resources import OTHERWISE, TOLERANCE, Amounts, Resources, add, short_of
from ...core.slot import Slot


@dataclass(frozen=True)
class Holding:
    """The slots of one job.

    target: what the job was told to use.
    held: where its workers may still live, a superset of `target`.
    shrinks: whether the job can train on a part of its target; a rigid job cannot.
    patience_s: how long the job may take to leave slots.
    caps: GPU type -> what `room` calls the cap of its team. The CPUs there are the GPUs that the team may have.
    """

    target: frozenset[Slot] = frozenset()
    held: frozenset[Slot] = frozenset()
    pending_since_s: float | None = None
    shrinks: bool = True
    patience_s: float = 0.0
    caps: Mapping[str, str] = field(default_factory=dict)

    @property
    def releasing(self) -> frozenset[Slot]:
        return self.held - self.target


@dataclass(frozen=True)
class Assign:
    """Have a job use exactly these slots from now on. Without slots it checkpoints and stops."""

    job_id: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class ForceOut:
    """Restart the executor of a job that has not left its slots in time. That ends its workers."""

    job_id: str
    slots: tuple[Slot, ...]


Action = Assign | ForceOut


def slots_of(
    placement: Placement, spec: JobSpec, cluster: Cluster, leases: Mapping[str, str], current: Iterable[Slot] = ()
) -> tuple[Slot, ...]:
    """Return one slot per replica on the GPUs that a placement names, in order.

    Args:
        current: slots that the job has; those whose GPUs are all in the placement stay.

    Raises: ValueError if a share is no whole number of replicas or names no GPUs, or its node has no lease.
    """
    per_replica = spec.gpus_per_replica(placement.gpu_type)
    if per_replica is None:
        raise ValueError(f"placement: the job cannot run on {placement.gpu_type}")
    before = sorted(current)
    slots: list[Slot] = []
    for share in placement.shares:
        node, lease = cluster.by_id.get(share.node_id), leases.get(share.node_id)
        if node is None or lease is None:
            raise ValueError(f"placement: node {share.node_id} is not leased")
        if share.gpus % per_replica:
            raise ValueError(
                f"placement: {share.gpus} GPUs on node {share.node_id} are no multiple of the {per_replica} "
                "GPUs of a replica"
            )
        if (named := len(share.devices)) != share.gpus:
            raise ValueError(f"placement: {named} GPUs are named of {share.gpus} on node {share.node_id}")
        part, left = per_replica / share.gpus, set(share.devices)
        places: list[tuple[int, ...]] = []
        for slot in before:
            here = (slot.node_id, slot.lease_id, slot.gpus) == (node.id, lease, per_replica)
            if here and left.issuperset(slot.devices):
                places.append(slot.devices)
                left -= set(slot.devices)
        new = sorted(left)
        places += [tuple(new[at : at + per_replica]) for at in range(0, len(new), per_replica)]
        slots += [
            Slot(
                node_id=node.id,
                lease_id=lease,
                devices=devices,
                gpu_type=node.gpu_type,
                emulated=node.emulated,
                cpus=share.cpus * part,
                memory_gib=share.memory_gib * part,
                share=share.share,
            )
            for devices in places
        ]
    return tuple(sorted(slots))


def same_amounts(one: Iterable[Slot], other: Iterable[Slot]) -> bool:
    """Return whether slots are the same places, each with the same amounts."""
    first, second = {slot: slot for slot in one}, {slot: slot for slot in other}
    return first.keys() == second.keys() and not any(_differ(slot, second[slot]) for slot in first)


def _differ(one: Slot, other: Slot) -> bool:
    return one is not other and (
        abs(one.cpus - other.cpus) > TOLERANCE
        or abs(one.memory_gib - other.memory_gib) > TOLERANCE
        or abs(one.share - other.share) > TOLERANCE
    )


def less_given_up(wanted: Sequence[Slot], target: Iterable[Slot], after: Iterable[Slot]) -> tuple[Slot, ...]:
    """Return the wanted slots without those that the executor has given up. Only a new round tries these again.

    Args:
        target: what the job was told to use before its executor released slots.
        after: the same, afterwards.
    """
    given_up = set(target) - set(after)
    return tuple(slot for slot in wanted if slot not in given_up)


def step(
    wanted: Mapping[str, Sequence[Slot]],
    holdings: Mapping[str, Holding],
    room: Amounts,
    now: float,
    release_timeout_s: float,
) -> list[Action]:
    """Return the commands that may be sent at once, in order.

    Args:
        wanted: the slots that each job shall have; an absent job shall have none.
        holdings: every job, and whatever else occupies slots, in the order in which they are served.
        room: what each living, leased node has, less what holders outside `holdings` have of it.
    """
    actions = _Step(wanted, holdings, room).actions()
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
    """One pass over the jobs that do not have what they shall have."""

    def __init__(
        self, wanted: Mapping[str, Sequence[Slot]], holdings: Mapping[str, Holding], room: Amounts
    ) -> None:
        self.holdings = dict(holdings)
        self.wanted = {job_id: frozenset(wanted.get(job_id, ())) for job_id in holdings}
        self.free = dict(room)
        for holding in holdings.values():
            add(self.free, total(holding.held, holding.caps), -1.0)
        self._adds: dict[str, Amounts] = {}
        self.moving = [j for j, held in self.holdings.items() if not same_amounts(self.wanted[j], held.target)]

    def actions(self) -> list[Action]:
        # Pure releases are sent first, then every claim that fits. Each claim is taken from `free` at once.
        claims = sorted(self.moving, key=lambda job_id: bool(self.adds(job_id)))
        sent: list[Action] = [self.send(j, self.wanted[j]) for j in claims if self.fits(j)]
        return sent + self.break_waits()

    def adds(self, job_id: str) -> Amounts:
        """Return what a job shall have beyond its target."""
        if job_id not in self._adds:
            self._adds[job_id] = self.beyond(job_id, self.wanted[job_id], self.holdings[job_id].target)
        return self._adds[job_id]

    def fits(self, job_id: str) -> bool:
        """Return whether nobody else holds what a job shall get.

        A job may claim slots that it is leaving itself: its executor waits for them.
        """
        return not short_of(self.beyond(job_id, self.wanted[job_id], self.holdings[job_id].held), self.free)

    def beyond(self, job_id: str, slots: frozenset[Slot], had: frozenset[Slot]) -> Amounts:
        """Return what slots of a job have beyond those that it had, caps included."""
        more = dict(_beyond(slots, had))
        add(more, _counted(slots - had, self.holdings[job_id].caps))
        return more

    def send(self, job_id: str, slots: frozenset[Slot]) -> Assign:
        held = self.holdings[job_id]
        add(self.free, self.beyond(job_id, slots, held.held), -1.0)
        self.holdings[job_id] = replace(held, target=slots, held=slots | held.held)
        self._adds.pop(job_id, None)
        return Assign(job_id, tuple(sorted(slots)))

    def break_waits(self) -> list[Action]:
        """Stop or shrink jobs that wait for each other's slots. Other jobs wait for releases on their way."""
        sent: list[Action] = []
        waiting = [j for j in self.moving if not same_amounts(self.holdings[j].target, self.wanted[j])]
        while waiting:
            needed = self.stuck(waiting)
            blocker = next((j for j in waiting if self.gives_up(j) & needed), None)
            if blocker is None:
                break
            held = self.holdings[blocker]
            kept = _least(self.wanted[blocker], held.held) if held.shrinks else frozenset()
            sent.append(self.send(blocker, kept))
        return sent

    def stuck(self, waiting: Sequence[str]) -> set[tuple[str, int]]:
        """Return what is short even after all releases on their way and all moves that these make possible.

        Each entry is (node id, GPU), or (node id, OTHERWISE) for CPUs and memory, or for a cap.
        """
        soon = dict(self.free)
        for holding in self.holdings.values():
            add(soon, total(holding.releasing, holding.caps))
        left = {job_id: self.adds(job_id) for job_id in waiting}
        looks, blocked = deque(waiting), dict[tuple[str, int], list[str]]()
        while looks:
            job_id = looks.popleft()
            if short := short_of(left[job_id], soon):
                blocked.setdefault(min(short), []).append(job_id)  # it cannot move before that is free
                continue
            held, needs = self.holdings[job_id], left.pop(job_id)
            given_up = total(held.target - self.wanted[job_id], held.caps)
            add(soon, needs, -1.0)
            add(soon, given_up)
            for node in dict.fromkeys((*needs, *given_up)):
                devices = given_up[node].devices if node in given_up else ()
                for freed in (OTHERWISE, *devices):
                    looks += blocked.pop((node, freed), ())
        return {lack for needs in left.values() for lack in short_of(needs, soon)}

    def gives_up(self, job_id: str) -> set[tuple[str, int]]:
        """Return what a waiting job is to leave and still has, as entries like those of `stuck`."""
        wanted, given_up = {slot: slot for slot in self.wanted[job_id]}, set[tuple[str, int]]()
        caps = self.holdings[job_id].caps
        for slot in self.holdings[job_id].target:
            after = wanted.get(slot)
            if after is None:
                given_up |= {(slot.node_id, device) for device in (*slot.devices, OTHERWISE)}
                given_up |= {(cap, OTHERWISE) for cap in _counted([slot], caps)}
                continue
            if after.cpus < slot.cpus or after.memory_gib < slot.memory_gib:
                given_up.add((slot.node_id, OTHERWISE))
            if after.share < slot.share:
                given_up |= {(slot.node_id, device) for device in slot.devices}
        return given_up


def total(slots: Iterable[Slot], caps: Mapping[str, str]) -> Amounts:
    """Return the resources of slots by node, and by cap what they count there."""
    found: dict[str, Resources] = {}
    for slot in slots:
        amount = Resources.of_slot(slot)
        found[slot.node_id] = found[slot.node_id] + amount if slot.node_id in found else amount
    add(found, _counted(slots, caps))
    return found


def _counted(slots: Iterable[Slot], caps: Mapping[str, str]) -> Amounts:
    """Return what slots count for caps of a team."""
    found: dict[str, Resources] = {}
    for slot in slots if caps else ():
        if slot.gpu_type in caps:
            add(found, {caps[slot.gpu_type]: Resources(cpus=slot.gpus)})
    return found


def _beyond(slots: Iterable[Slot], had: Iterable[Slot]) -> Amounts:
    """Return what slots have beyond those had before, by node. A slot with less than before counts below 0."""
    before, beyond = {slot: slot for slot in had}, dict[str, Resources]()
    for slot in slots:
        old = before.get(slot)
        if old is None:
            add(beyond, {slot.node_id: Resources.of_slot(slot)})
        elif _differ(slot, old):
            add(beyond, {slot.node_id: Resources.of_slot(slot) - Resources.of_slot(old)})
    return beyond


def _least(slots: Iterable[Slot], held: Iterable[Slot]) -> frozenset[Slot]:
    """Return those of the slots that are held, each with the lesser of both amounts."""
    now = {slot: slot for slot in held}
    return frozenset(
        replace(
            slot,
            cpus=min(slot.cpus, now[slot].cpus),
            memory_gib=min(slot.memory_gib, now[slot].memory_gib),
            share=min(slot.share, now[slot].share),
        )
        for slot in slots
        if slot in now
    )
