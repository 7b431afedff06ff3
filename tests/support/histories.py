"""Random histories of a cluster: real cycle, store and policy, with simulated executors that are late or die."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from coadapt.core.checkpoint_name import DATA, MANIFEST, CheckpointName
from coadapt.core.cluster import Cluster, Node
from coadapt.core.errors import NodeOrderError
from coadapt.core.job import Phase
from coadapt.core.slot import Slot
from coadapt.executor.executor_job import ExecutorStatus
from coadapt.executor.protocol.job_events import ExecutorEvent, JobFinished, ProfileFinished, Released, Running
from coadapt.policies.catalogue import make_policy
from coadapt.policies.per_pool import PerPool
from coadapt.scheduler.changes.forks import Forks, origin_of
from coadapt.scheduler.changes.verbs import Verb, pause, requeue, resume
from coadapt.scheduler.executors.actors import actor_name
from coadapt.scheduler.jobs.record import JobRecord

from tests.support.cycles import World, measured, nodes_of
from tests.support.held_work import HeldWork


class Crash(BaseException):
    """The service dies here."""


@dataclass
class SimulatedExecutor:
    """One job's executor: it obeys the newest command, and its events come late and sometimes twice.

    workers, leaving: slot -> second at which its worker is ready, or gone.
    runs: slot -> (sequence, second of the end) of profile runs.
    """

    history: History
    job_id: str
    life: int = 0
    waits: bool = False  # restarted, and not yet told which commands are from before
    sequence: int = 0
    last_run: int = 0
    desired: tuple[Slot, ...] = ()
    workers: dict[Slot, float] = field(default_factory=dict)
    leaving: dict[Slot, float] = field(default_factory=dict)
    runs: dict[Slot, tuple[int, float]] = field(default_factory=dict)
    group: tuple[Slot, ...] = ()
    told_sequence: int = 0
    generation: int = 0
    ended: bool = False
    events: deque[tuple[float, ExecutorEvent]] = field(default_factory=deque)
    inbox: list[tuple[str, Any, int]] = field(default_factory=list)

    @property
    def used(self) -> list[Slot]:
        """Every slot with a process in it."""
        return [*self.workers, *self.leaving, *self.runs]

    def tell(self, event: ExecutorEvent) -> None:
        draw = self.history.draw
        at = self.history.now_s + draw.choice((0, 0, 0, 1, 3, 8))
        if self.events:
            at = max(at, self.events[-1][0])
        self.events.extend([(at, event)] * draw.choice((1, 1, 1, 2)))

    def release(self, slots: Sequence[Slot]) -> None:
        if free := tuple(slot for slot in slots if slot not in self.used):
            self.tell(Released(self.sequence, free))

    # --- commands -------------------------------------------------------------------------------------------

    def assign(self, slots: tuple[Slot, ...], sequence: int) -> None:
        if self.waits:
            self.inbox.append(("assign", slots, sequence))
        elif sequence <= self.sequence or self.ended:
            self.sequence = max(self.sequence, sequence)
            self.release([slot for slot in slots if slot not in self.desired])
        else:
            dropped = [slot for slot in self.desired if slot not in slots]
            self.sequence, self.desired = sequence, tuple(sorted(set(slots)))
            self.release(dropped)

    def profile(self, slot: Slot, sequence: int) -> None:
        if self.waits:
            self.inbox.append(("profile", slot, sequence))
        elif self.ended:
            self.tell(Released(self.sequence, (slot,)))
        elif sequence > self.last_run:
            self.last_run = sequence
            self.runs[slot] = sequence, self.history.now_s + self.history.draw.choice((2, 5, 20))

    def end_profile(self, slot: Slot, sequence: int) -> None:
        if self.runs.get(slot, (0, 0.0))[0] == sequence:
            self.runs[slot] = sequence, self.history.now_s
        else:
            self.tell(Released(self.sequence, (slot,)))

    def end(self) -> None:
        if self.ended:
            return
        self.ended, now_s = True, self.history.now_s
        self.release(self.desired)
        self.leaving |= {slot: now_s + self.history.draw.choice((0, 1, 4)) for slot in self.workers}
        self.runs = {slot: (sequence, now_s) for slot, (sequence, _) in self.runs.items()}
        self.workers, self.desired, self.group = {}, (), ()

    def attached(self, sequence: int, run: int) -> None:
        """Go on after a restart; commands up to these numbers are from before."""
        self.waits, self.sequence, self.last_run = False, sequence, run
        for command, what, number in self.inbox:
            getattr(self, command)(what, number)

    # --- time -----------------------------------------------------------------------------------------------

    def tick(self, seconds: float) -> None:
        self._lose_dead_nodes()
        now_s = self.history.now_s
        gone = [slot for slot, at in self.leaving.items() if at <= now_s]
        self.leaving = {slot: at for slot, at in self.leaving.items() if at > now_s}
        self.release([slot for slot in gone if slot not in self.desired])
        for slot in [slot for slot, (_, at) in self.runs.items() if at <= now_s]:
            self._end_run(slot)
        if not (self.ended or self.waits):
            self._train(now_s, seconds)

    def _lose_dead_nodes(self) -> None:
        for slot in [slot for slot in self.used if not self.history.is_there(slot)]:
            for where in (self.workers, self.leaving, self.runs):
                where.pop(slot, None)
            if slot not in self.desired:
                self.tell(Released(self.sequence, (slot,)))
        self.group = tuple(slot for slot in self.group if self.history.is_there(slot))

    def _end_run(self, slot: Slot) -> None:
        draw, known = self.history.draw, self.history.known.setdefault(self.job_id, set())
        sequence, _ = self.runs.pop(slot)
        if draw.random() < 0.85:
            known.add(slot.gpu_type)
            done = ProfileFinished(slot.gpu_type, True, measurements=measured(*sorted(known)), sequence=sequence)
        else:
            done = ProfileFinished(slot.gpu_type, False, "no", lost=draw.random() < 0.5, sequence=sequence)
        self.tell(done)
        self.tell(Released(self.sequence, (slot,)))

    def _train(self, now_s: float, seconds: float) -> None:
        draw = self.history.draw
        for slot in self.desired:
            if self.history.is_there(slot) and slot not in self.used:
                self.workers[slot] = now_s + draw.choice((1, 2, 5))
        if all(self.workers.get(slot, now_s + 1) <= now_s for slot in self.desired):
            for slot in [slot for slot in self.workers if slot not in self.desired]:
                del self.workers[slot]
                self.leaving[slot] = now_s + draw.choice((0, 1, 3))
            if self.desired and (self.desired, self.sequence) != (self.group, self.told_sequence):
                self.generation += self.desired != self.group
                self.told_sequence = self.sequence
                self.tell(Running(self.sequence, self.desired, True, None, False, self.generation))
            self.group = self.desired
        work = self.history.work
        work[self.job_id] -= seconds * len(self.group)
        if self.group and work[self.job_id] <= 0:
            self.tell(JobFinished())
            self.end()


class History:
    """One random history: users, nodes, executors and the service itself do what they may, in any order."""

    def __init__(self, seed: int, policy: str, nodes: str, folder: Path) -> None:
        self.draw, self.known, self.work = random.Random(seed), dict[str, set[str]](), dict[str, int]()
        self.executors: dict[str, SimulatedExecutor] = {}  # by name
        self.gone: list[SimulatedExecutor] = []  # killed; what they had sent is still on its way
        self.verbs = 0
        self.make = partial(PerPool, partial(make_policy, policy))
        self.crash_in: int | None = None  # writes and commands until the service dies
        self.world = World(folder, nodes, planner=self.make())
        self.base = self.world.all
        self.lost: Counter[str] = Counter()  # how often each node was lost; each time its lease is another one
        self.world.executors = self
        self.world.store.close()
        self._open()

    @property
    def now_s(self) -> float:
        return self.world.clock.now_s

    def is_there(self, slot: Slot) -> bool:
        """Return whether a worker can be in a slot: its node is alive, and under the slot's lease."""
        return self.world.nodes.snapshot.leases.get(slot.node_id) == slot.lease_id

    # --- the service ----------------------------------------------------------------------------------------

    def _open(self) -> None:
        self.world.planner = self.make()
        self.world.open()
        save = self.world.store.save

        def may_crash(*args: Any, **kwargs: Any) -> None:
            self._maybe_crash()
            save(*args, **kwargs)
            self._maybe_crash()

        self.world.store.save = may_crash
        self.copies = HeldWork()
        self.forks = Forks(self.world.store, self.world.cycle.orders.do, self.world.settings, self.copies)
        self.forks.begin_rest()

    def reopen(self) -> None:
        """Have the service die and start again from its store."""
        self.crash_in = None
        self.close()
        self._open()
        self.world.cycle.reattach()

    def close(self) -> None:
        self.world.cycle.learning.wait(5.0)
        self.world.store.close()

    def _maybe_crash(self) -> None:
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in <= 0:
                raise Crash

    # --- commands of the service (`ExecutorBackend`) --------------------------------------------------------

    def _of(self, job: JobRecord) -> SimulatedExecutor | None:
        self._maybe_crash()
        return self.executors.get(actor_name(job))

    def _made(self, job: JobRecord) -> SimulatedExecutor:
        self._maybe_crash()
        return self.executors.setdefault(actor_name(job), SimulatedExecutor(self, job.id, job.life))

    def assign(self, job: JobRecord, slots: Sequence[Slot], sequence: int) -> None:
        self._made(job).assign(tuple(slots), sequence)

    def profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        self._made(job).profile(slot, sequence)

    def end_profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        if executor := self._of(job):
            executor.end_profile(slot, sequence)

    def save(self, job: JobRecord) -> None:
        """Go on: what is saved plays no part in a history."""

    def cancel(self, job: JobRecord) -> None:
        if executor := self._of(job):
            executor.end()
            executor.assign(job.held, job.sequence)

    def restart(self, job: JobRecord) -> None:
        if self._of(job):
            self._restart(actor_name(job))

    def retire(self, job: JobRecord) -> None:
        self._maybe_crash()
        self._kill(actor_name(job))

    def retire_others(self, jobs: Sequence[JobRecord]) -> None:
        for name in self.executors.keys() - {actor_name(job) for job in jobs}:
            self._kill(name)

    def _kill(self, name: str) -> None:
        if executor := self.executors.pop(name, None):
            self.gone.append(executor)

    def statuses(self, jobs: Sequence[JobRecord], timeout_s: float) -> Mapping[str, ExecutorStatus | None]:
        known = [self.executors[name] for job in jobs if (name := actor_name(job)) in self.executors]
        silent = {one.job_id for one in known if self.draw.random() < 0.2}
        return {o.job_id: None if o.job_id in silent else ExecutorStatus("", o.sequence) for o in known}

    def _restart(self, name: str) -> None:
        before = self.executors[name]
        self.executors[name] = SimulatedExecutor(self, before.job_id, before.life, waits=True)
        self.executors[name].tell(Released(0, everything=True))

    # --- time -----------------------------------------------------------------------------------------------

    def tick(self, seconds: float = 1.0) -> None:
        try:
            for executor in [*self.gone, *self.executors.values()]:
                self._deliver(executor)
            self.gone = [executor for executor in self.gone if executor.events]
            if self.draw.random() < 0.3:
                self.copies.go_on()
            self.world.closing.tick(self.world.cycle.in_use)
            self.world.cycle.step()
        except Crash:
            self.reopen()
        self.world.clock.forward(seconds)
        for executor in list(self.executors.values()):
            executor.tick(seconds)
        self.check_devices()

    def _deliver(self, executor: SimulatedExecutor) -> None:
        while executor.events and executor.events[0][0] <= self.now_s:
            event = executor.events[0][1]
            sent = self.world.cycle.on_event(executor.job_id, event, executor.life)
            if executor.waits and isinstance(event, Released) and event.everything:
                executor.attached(sent.sequence, sent.profile_sequence)
            executor.events.popleft()

    def check_devices(self) -> None:
        """Check that no GPU has two processes, by what really runs and not by any record."""
        users: dict[tuple[str, int], str] = {}
        for job in self.world.store.unretired.values():
            assert not (job.paused and job.target), f"{job.id} is paused and is given {job.target}"
        for job_id, executor in self.executors.items():
            for slot in executor.used:
                for gpu in [(slot.node_id, device) for device in slot.devices]:
                    assert gpu not in users, f"{gpu} is used by {users[gpu]} and {job_id}"
                    assert gpu[1] < self.world.all.by_id[slot.node_id].gpus, f"{job_id} uses {gpu}"
                    users[gpu] = job_id

    # --- what happens ---------------------------------------------------------------------------------------

    def act(self) -> None:
        """Let one random thing happen."""
        x, active = self.draw.random(), [name for name in self.world.ids if self.world.job(name).active]
        try:
            if x < 0.25:
                self._submit()
            elif x < 0.31 and active:
                self.world.on_cancel(self.draw.choice(active))
            elif x < 0.38:
                self._nodes_leave()
            elif x < 0.43:
                self._nodes_return()
            elif x < 0.47 and self.executors:
                self._restart(self.draw.choice(sorted(self.executors)))
            elif x < 0.49 and active:
                name = self.draw.choice(active)
                self._kill(actor_name(self.world.job(name)))
                self.world.on_executorlost(name)
            elif x < 0.56:
                self.crash_in = self.draw.randint(1, 12)
            elif x < 0.59:
                self.reopen()
            elif x < 0.64 and active:
                self._ask(pause, self.draw.choice(active))
            elif x < 0.72 and (idle := [name for name in self.world.ids if self._may_be_resumed(name)]):
                self._ask(resume, self.draw.choice(idle))
            elif x < 0.76 and self.world.ids:
                name = self.draw.choice(sorted(self.world.ids))
                self._ask(resume if self.world.job(name).paused else requeue, name)
            elif x < 0.80 and self.world.ids:
                self._fork()
            elif x < 0.88:
                self._close_or_open()
        except Crash:
            self.reopen()

    def _may_be_resumed(self, name: str) -> bool:
        job = self.world.job(name)
        return job.paused or job.phase in (Phase.FAILED, Phase.CANCELLED)

    def _ask(self, verb: Verb, name: str) -> None:
        """Ask for a verb as a client does: again, with the same key, where the service died meanwhile."""
        self.verbs += 1
        job_id, key = self.world.ids[name], f"verb-{self.verbs}"
        try:
            self.world.cycle.orders.do(job_id, verb, key)
        except Crash:
            self.reopen()
            self.world.cycle.orders.do(job_id, verb, key)

    def _submit(self) -> None:
        rare = {"unprofiled": 0.3, "rigid=2": 0.2, "kept": 0.15, "types=t4": 0.1, "types=a100": 0.1, "same=s": 0.3}
        rare |= {"restarts=never": 0.1, "restarts=on_loss": 0.1}
        name = f"j{len(self.world.ids) + 1}"
        self.world.on_submit(name, *[option for option, part in rare.items() if self.draw.random() < part])
        self.work[self.world.ids[name]] = self.draw.choice((5, 30, 120))

    def _fork(self) -> None:
        """Submit a fork as a client does: again, with the same key, where the service died meanwhile."""
        source = self.world.job(self.draw.choice(sorted(self.world.ids)))
        folder = Path(self.world.settings.checkpoint_url(source.id, None))
        checkpoint = CheckpointName(10, 1, "x")
        folder.mkdir(parents=True, exist_ok=True)
        for suffix in (DATA, MANIFEST):
            (folder / f"{checkpoint.stem}{suffix}").write_bytes(b"{}")
        name = f"f{len(self.world.ids) + 1}"
        spec = source.spec.model_copy(update={"name": name})
        origin = origin_of(source, spec, None, self.world.settings)
        try:
            job = self.world.cycle.orders.submit(spec, idempotency_key=name, origin=origin)
            self._maybe_crash()
            self.forks.begin(job.id)
        except Crash:
            self.reopen()
            job = self.world.cycle.orders.submit(spec, idempotency_key=name, origin=origin)
        self.world.ids[name] = job.id
        self.work[job.id] = self.draw.choice((5, 30))

    def _close_or_open(self) -> None:
        """Cordon, drain or open a node, or let its cloud give notice or take that back."""
        closing, node = self.world.closing, self.draw.choice(self.world.all.nodes)
        machine, deadline_s = node.machine_name, self.draw.choice((5.0, 30.0, 120.0))
        orders: list[Callable[[], object]] = [
            lambda: closing.cordon(machine),
            lambda: closing.drain(machine),
            lambda: closing.drain(machine, deadline_s),
            lambda: closing.take_notice(node.id, "spot notice", deadline_s),
            lambda: closing.no_notice(node.id),
            *[lambda: closing.uncordon(machine)] * 3,
        ]
        with suppress(NodeOrderError):  # a node under notice stays closed
            self.draw.choice(orders)()

    def _all_open(self) -> None:
        closing = self.world.closing
        closing.tick(dict)  # it sees that nodes are back
        for machine in list(closing.orders.orders):
            closing.uncordon(machine)
        for node_id in list(closing.orders.notices):
            closing.no_notice(node_id)

    def _nodes_leave(self) -> None:
        here = self.world.all.nodes
        stay = [node for node in here if self.draw.random() < 0.75] or [here[0]]
        draining = frozenset(node.id for node in stay if self.draw.random() < 0.15)
        self._have_nodes(stay, draining)

    def _nodes_return(self) -> None:
        """Let all nodes be there; those that were away may have fewer or more GPUs than before."""
        here = {node.id: node for node in self.world.all.nodes}
        sizes = {node.id: max(node.gpus + self.draw.choice((-2, 0, 0, 2)), 1) for node in self.base.nodes}
        self._have_nodes([here.get(node.id) or replace(node, gpus=sizes[node.id]) for node in self.base.nodes])

    def _have_nodes(self, nodes: Sequence[Node], draining: frozenset[str] = frozenset()) -> None:
        self.lost.update(self.world.all.by_id.keys() - {node.id for node in nodes})
        self.world.all = Cluster(tuple(nodes))
        leases = {id: f"lease-{id}-{count}" for id, count in self.lost.items()}
        self.world.nodes.snapshot = nodes_of(self.world.all, draining, leases)

    # --- the end --------------------------------------------------------------------------------------------

    def play(self, acts: int) -> None:
        """Let things happen, then only time pass. Check that every job ends, and nothing is left of any."""
        for _ in range(acts):
            self.act()
            for _ in range(self.draw.choice((1, 2, 5, 15))):
                self.tick()
        self.crash_in = None
        self._have_nodes([], frozenset())
        self.tick()
        self._have_nodes(self.base.nodes)
        self._all_open()
        for name in self.world.ids:
            if self.world.job(name).paused:
                self._ask(resume, name)
        for _ in range(6000):
            if not self.world.store.unretired:
                break
            self.tick()
        jobs = list(self.world.store.every())
        assert len(jobs) == len(self.world.ids)
        assert [f"{job.id} {job.phase}: {job.state.reason}" for job in jobs if not job.retired] == []
        assert [job.id for job in jobs if job.occupied] == []
        assert [one for one in self.world.store.intervals() if one.end_s is None] == []
        assert self.executors == {}
        self.close()
