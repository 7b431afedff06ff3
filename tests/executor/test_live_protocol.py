"""Service and executors together, without Ray: whatever is late or out of order, no GPU is used twice or lost.

Records, launcher and `Reconciler` are the real ones, and workers are simulated. Commands take a while and may
overtake each other, like calls of an actor with several threads. Events take a while and come in order, some
twice.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec, JobState, Phase, ResourceRequest
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.resources import Resources
from coadapt.core.slot import Slot
from coadapt.executor.protocol.job_events import ExecutorEvent
from coadapt.executor.reconciling.timeouts import Timeouts
from coadapt.policies.placing.devices import name_devices
from coadapt.scheduler.changes.reactions import claim, react
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.rounds.launcher import Assign, Holding, less_given_up, slots_of, step
from hypothesis import Phase as HypothesisPhase
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.simulated_workers import World

CLUSTER = Cluster((Node("n1", "a100", 2), Node("n2", "a100", 2), Node("n3", "a100", 1)))
CAPACITY = {node.id: node.gpus for node in CLUSTER.nodes}
ROOM = {node.id: Resources.of_node(node) for node in CLUSTER.nodes}
LEASES = {node.id: "lease" for node in CLUSTER.nodes}
SPEC = JobSpec(name="j", script="t.py", resources=ResourceRequest(max_gpus=8))
RIGID = SPEC.model_copy(update={"resources": ResourceRequest(gpus=2)})
TICK_S, QUIET_S = 0.1, 60.0
COMMAND_S, EVENT_S = (0.0, 0.0, 0.1, 0.5, 3.0), (0.0, 0.0, 0.0, 0.2, 2.0, 6.0)  # how long one may take
RELEASE_TIMEOUT_S, PATIENCE_S = 30.0, 20.0

Counts = Mapping[str, Mapping[str, int]]  # job -> node -> GPUs


class Live:
    def __init__(self, random: Random) -> None:
        self.random, self.now = random, 0.0
        self.records: dict[str, JobRecord] = {}
        for number, (id, spec) in enumerate({"a": SPEC, "b": SPEC, "c": RIGID}.items()):
            self.records[id] = JobRecord(id, number, spec, JobState(Phase.QUEUED, submitted_s=0.0))
        self.worlds = {id: World(timeouts=Timeouts(hang_s=1e9)) for id in self.records}
        self.wanted: dict[str, tuple[Slot, ...]] = dict.fromkeys(self.records, ())
        self.commands: list[tuple[float, str, int, tuple[Slot, ...]]] = []
        self.events: dict[str, deque[tuple[float, ExecutorEvent]]] = {id: deque() for id in self.records}
        self.heard = dict.fromkeys(self.records, 0)

    def plan(self, counts: Counts) -> None:
        """Begin a round: what each job shall have from now on."""
        placements = {
            id: Placement("a100", tuple(NodeShare(node, gpus) for node, gpus in mine.items() if gpus))
            for id, mine in counts.items()
            if any(mine.values())
        }
        held = {id: _devices(record) for id, record in self.records.items()}
        named = name_devices(placements, held, CLUSTER)
        assert not named.refused
        self.wanted = dict.fromkeys(self.records, ())
        for id, placement in named.placements.items():
            record = self.records[id]
            self.wanted[id] = slots_of(placement, record.spec, CLUSTER, LEASES, record.held)

    def run(self, seconds: float) -> None:
        until_s = self.now + seconds
        while self.now < until_s:
            self.now += TICK_S
            for command in sorted(c for c in self.commands if c[0] <= self.now):
                self.commands.remove(command)
                _, id, sequence, slots = command
                self.worlds[id].deliver(slots, sequence)
            for id, world in self.worlds.items():
                world.run(TICK_S)
                self._hear(id, world)
            self._launch()
            self._check()

    def _hear(self, id: str, world: World) -> None:
        """Deliver to the service what the executor told, in order."""
        queue = self.events[id]
        for event in world.told[self.heard[id] :]:
            due_s = self.now + self.random.choice(EVENT_S)
            due_s = max(due_s, queue[-1][0]) if queue else due_s
            queue += [(due_s, event)] * self.random.choice((1, 1, 1, 2))
        self.heard[id] = len(world.told)
        while queue and queue[0][0] <= self.now:
            before = self.records[id]
            after = self.records[id] = react(before, queue.popleft()[1], self.now).job
            self.wanted[id] = less_given_up(self.wanted[id], before.target, after.target)

    def _launch(self) -> None:
        holdings = {
            id: Holding(
                frozenset(record.target),
                frozenset(record.held),
                record.pending_since_s,
                shrinks=record.spec.resources.gpus is None,
                patience_s=PATIENCE_S,
            )
            for id, record in self.records.items()
        }
        for action in step(self.wanted, holdings, ROOM, self.now, RELEASE_TIMEOUT_S):
            assert isinstance(action, Assign), "evicted though it left as soon as it could"
            record = self.records[action.job_id] = claim(self.records[action.job_id], action.slots, self.now).job
            if record.spec.resources.gpus is not None:
                assert sum(slot.gpus for slot in action.slots) in (0, record.spec.resources.gpus)
            due_s = self.now + self.random.choice(COMMAND_S)
            self.commands.append((due_s, record.id, record.sequence, action.slots))

    def _check(self) -> None:
        used: Counter[tuple[str, int]] = Counter()
        counted: Counter[tuple[str, int]] = Counter()
        for id, world in self.worlds.items():
            used.update(
                gpu for process in world.processes.values() if process.alive for gpu in _gpus(process.slot)
            )
            counted.update(gpu for slot in self.records[id].held for gpu in _gpus(slot))
        for (node, device), workers in (used | counted).items():
            assert 0 <= device < CAPACITY[node], f"GPU {device} of {node}"
            assert workers == 1, f"GPU {device} of {node} has {workers} workers"

    def check_settled(self) -> None:
        for id, record in self.records.items():
            assert record.target == record.held == tuple(sorted(self.wanted[id])), id
            assert self.worlds[id].training_on == set(self.wanted[id]), id
            assert set(record.group) == set(self.wanted[id]), id
            assert (record.moving_since_s, record.pending_since_s, record.last_grant) == (None, None, ()), id


def _gpus(slot: Slot) -> list[tuple[str, int]]:
    return [(slot.node_id, device) for device in slot.devices]


def _devices(record: JobRecord) -> dict[str, list[int]]:
    """Return the GPUs that a job is on. Those that it was last told to use come first."""
    found: dict[str, list[int]] = {}
    for slot in dict.fromkeys((*record.target, *record.held)):
        found.setdefault(slot.node_id, []).extend(slot.devices)
    return found


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[float, Counts]]:
    """Draw rounds within the capacity: the rigid job whole or not at all."""
    rounds = []
    for _ in range(draw(st.integers(1, 14))):
        free = dict(CAPACITY)
        counts: dict[str, dict[str, int]] = {"a": {}, "b": {}, "c": {}}
        if draw(st.booleans()):
            for node in draw(st.sampled_from((("n1", "n1"), ("n2", "n2"), ("n1", "n2"), ("n2", "n3")))):
                counts["c"][node] = counts["c"].get(node, 0) + 1
                free[node] -= 1
        for node, left in free.items():
            for id in draw(st.permutations("ab")):
                counts[id][node] = draw(st.integers(0, left))
                left -= counts[id][node]
        rounds.append((draw(st.sampled_from((0.2, 0.5, 1.0, 3.5))), counts))
    return rounds


UNSHRUNK = [HypothesisPhase.explicit, HypothesisPhase.generate]


@settings(max_examples=25, phases=UNSHRUNK)
@given(histories(), st.integers(0, 2**32 - 1))
def test_whatever_is_late_or_out_of_order_no_gpu_is_used_twice_and_all_jobs_end_where_they_shall(
    history: Sequence[tuple[float, Counts]], seed: int
) -> None:
    play(history, seed)


@pytest.mark.slow
@settings(max_examples=600, phases=UNSHRUNK)
@given(histories(), st.integers(0, 2**32 - 1))
def test_no_gpu_is_used_twice_in_many_histories(history: Sequence[tuple[float, Counts]], seed: int) -> None:
    play(history, seed)


def play(history: Sequence[tuple[float, Counts]], seed: int) -> None:
    live = Live(Random(seed))
    for seconds, counts in history:
        live.plan(counts)
        live.run(seconds)
    live.run(QUIET_S)
    live.check_settled()


def test_a_job_that_is_sent_to_and_fro_settles_where_it_was_sent_last() -> None:
    live = Live(Random(0))
    for number in range(12):
        live.plan({"a": {"n1": 2} if number % 2 else {"n2": 2}})
        live.run(0.4)
    live.run(QUIET_S)
    live.check_settled()
    assert live.records["a"].phase is Phase.RUNNING
