"""A plan is applied without ever giving one GPU to two jobs, and without stopping jobs that need not stop."""

from dataclasses import replace

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.resources import Resources
from coadapt.core.slot import Slot
from coadapt.scheduler.rounds.launcher import (
    Action,
    Assign,
    ForceOut,
    Holding,
    less_given_up,
    same_amounts,
    slots_of,
    step,
)
from hypothesis import given, settings
from hypothesis import strategies as st

SPEC = JobSpec(name="j", script="t.py")
CLUSTER = Cluster((Node("n1", "a100", 4, cpus=4.0), Node("n2", "t4", 4, cpus=2.0), Node("n3", "t4", 4)))
LEASES = {"n1": "l1", "n2": "l2", "n3": "l3"}
ROOM = {node.id: Resources.of_node(node) for node in CLUSTER.nodes}
TIMEOUT_S = 60.0


def slot(node: str, *devices: int, cpus: float = 0.0, share: float = 1.0) -> Slot:
    gpu_type = CLUSTER.by_id[node].gpu_type
    return Slot(node, f"l{node[1:]}", devices or (0,), gpu_type, cpus=cpus, share=share)


def many(node: str, count: int, first: int = 0) -> tuple[Slot, ...]:
    """Make slots of one GPU each."""
    return tuple(slot(node, first + i) for i in range(count))


class World:
    """Executors that obey: what they are told to leave is released when the test says so."""

    def __init__(self, caps: dict[str, int] | None = None, **held: tuple[Slot, ...]) -> None:
        """Let all jobs be of one team, whose caps are given by GPU type."""
        self.caps = caps or {}
        self.named = {gpu_type: f"cap {gpu_type}" for gpu_type in self.caps}
        self.holdings = {
            job: Holding(frozenset(slots), frozenset(slots), caps=self.named) for job, slots in held.items()
        }
        self.sent: list[Action] = []
        self.now = 0.0

    def step(self, **wanted: tuple[Slot, ...]) -> list[Action]:
        for job in wanted:
            self.holdings.setdefault(job, Holding(caps=self.named))
        room = ROOM | {self.named[gpu_type]: Resources(cpus=most) for gpu_type, most in self.caps.items()}
        actions = step(wanted, self.holdings, room, self.now, TIMEOUT_S)
        for action in actions:
            held = self.holdings[action.job_id]
            if isinstance(action, Assign):
                target = frozenset(action.slots)
                held = replace(held, target=target, held=target | held.held)
                since = (held.pending_since_s or self.now) if held.releasing else None
                self.holdings[action.job_id] = replace(held, pending_since_s=since)
            self.check()
        self.sent += actions
        return actions

    def release(self, *jobs: str) -> None:
        for job in jobs or tuple(self.holdings):
            held = self.holdings[job]
            self.holdings[job] = replace(held, held=held.target, pending_since_s=None)

    def check(self) -> None:
        free = dict(ROOM)
        for holding in self.holdings.values():
            assert holding.target <= holding.held
            for slot in holding.held:
                assert Resources.of_slot(slot).fits(free[slot.node_id]), f"{slot} is given twice"
                free[slot.node_id] -= Resources.of_slot(slot)
        for gpu_type, most in self.caps.items():
            assert self.gpus(gpu_type) <= most

    def gpus(self, gpu_type: str) -> int:
        """Return the GPUs of a type that are held."""
        held = [slot for holding in self.holdings.values() for slot in holding.held]
        return sum(slot.gpus for slot in held if slot.gpu_type == gpu_type)

    def settled(self, **wanted: tuple[Slot, ...]) -> bool:
        return all(same_amounts(self.holdings[job].held, slots) for job, slots in wanted.items())


def names(actions: list[Action]) -> list[str]:
    return [action.job_id for action in actions]


def test_a_job_whose_placement_is_unchanged_is_not_touched() -> None:
    world = World(a=many("n1", 4), b=many("n2", 2))
    assert world.step(a=many("n1", 4), b=many("n2", 2)) == []


def test_a_job_starts_at_once_where_gpus_are_free() -> None:
    assert World().step(a=many("n1", 2)) == [Assign("a", many("n1", 2))]


def test_shrinking_comes_first_and_growing_waits_for_the_release() -> None:
    world = World(a=many("n1", 4))
    wanted = {"a": many("n1", 2), "b": many("n1", 2, first=2)}
    assert world.step(**wanted) == [Assign("a", many("n1", 2))]
    assert world.step(**wanted) == []
    world.release("a")
    assert world.step(**wanted) == [Assign("b", many("n1", 2, first=2))]


def test_a_migrating_job_trains_on_until_its_new_gpus_are_free() -> None:
    world = World(a=many("n1", 4), b=many("n2", 4))
    wanted = {"a": many("n2", 4), "b": many("n3", 4)}
    assert world.step(**wanted) == [Assign("b", many("n3", 4))]
    assert world.holdings["a"].target == frozenset(many("n1", 4))
    world.release("b")
    assert world.step(**wanted) == [Assign("a", many("n2", 4))]
    world.release("a")
    assert world.settled(**wanted)


def test_a_job_goes_back_at_once_to_what_it_has_not_left_yet() -> None:
    world = World(a=many("n1", 2))
    assert world.step(a=many("n2", 2)) == [Assign("a", many("n2", 2))]
    assert world.step(a=many("n1", 2)) == [Assign("a", many("n1", 2))]
    world.release("a")
    assert world.settled(a=many("n1", 2))


def test_going_back_and_growing_waits_for_the_rest() -> None:
    world = World(a=many("n1", 2), b=many("n1", 2, first=2))
    world.step(a=many("n2", 2), b=many("n1", 2, first=2))
    wanted = {"a": many("n1", 4), "b": many("n3", 2)}
    assert world.step(**wanted) == [Assign("b", many("n3", 2))]
    world.release("b")
    assert world.step(**wanted) == [Assign("a", many("n1", 4))]


def test_two_jobs_that_swap_are_freed_by_stopping_one_of_them() -> None:
    world = World(a=many("n1", 4), b=many("n2", 4))
    wanted = {"a": many("n2", 4), "b": many("n1", 4)}
    assert world.step(**wanted) == [Assign("a", ())]
    assert world.step(**wanted) == []
    world.release("a")
    assert world.step(**wanted) == [Assign("b", many("n1", 4))]
    world.release("b")
    assert world.step(**wanted) == [Assign("a", many("n2", 4))]
    assert world.settled(**wanted)


def test_a_cycle_of_three_stops_one_job_only() -> None:
    world = World(a=many("n1", 4), b=many("n2", 4), c=many("n3", 4))
    wanted = {"a": many("n2", 4), "b": many("n3", 4), "c": many("n1", 4)}
    for _ in range(6):
        world.step(**wanted)
        world.release()
    assert world.settled(**wanted)
    assert [action for action in world.sent if isinstance(action, Assign) and not action.slots] == [
        Assign("a", ())
    ]


def test_what_a_job_keeps_goes_on_while_the_rest_is_exchanged() -> None:
    world = World(a=(slot("n2"), *many("n3", 2)), b=(slot("n3", 2), slot("n3", 3), *many("n2", 3, 1)))
    wanted = {"a": (slot("n2"), *many("n2", 3, 1)), "b": (slot("n3", 2), slot("n3", 3), *many("n3", 2))}
    world.step(**wanted)
    assert slot("n2") in world.holdings["a"].target
    assert world.holdings["b"].target >= {slot("n3", 2), slot("n3", 3)}


def test_a_rigid_job_is_stopped_whole() -> None:
    world = World(a=many("n2", 4), b=many("n3", 4))
    world.holdings["a"] = replace(world.holdings["a"], shrinks=False)
    wanted = {"a": (*many("n2", 2), *many("n3", 2, 2)), "b": (*many("n3", 2), *many("n2", 2, 2))}
    assert world.step(**wanted)[0] == Assign("a", ())


def test_a_job_that_is_not_wanted_any_more_is_stopped() -> None:
    assert World(a=many("n1", 1)).step() == [Assign("a", ())]


def test_a_release_that_does_not_come_restarts_the_executor() -> None:
    world = World(a=many("n1", 4))
    world.step(a=(), b=many("n1", 4))
    world.now = TIMEOUT_S
    assert world.step(a=(), b=many("n1", 4)) == []
    world.now = TIMEOUT_S + 1
    assert world.step(a=(), b=many("n1", 4)) == [ForceOut("a", many("n1", 4))]
    world.release("a")
    assert names(world.step(a=(), b=many("n1", 4))) == ["b"]


def test_a_job_that_is_late_to_leave_and_is_to_stay_after_all_is_not_forced_out() -> None:
    world = World(a=many("n1", 4))
    world.step(a=(), b=many("n1", 4))
    world.now = TIMEOUT_S + 1
    assert world.step(a=many("n1", 4), b=()) == [Assign("a", many("n1", 4))]


def test_a_job_that_makes_way_keeps_what_it_has_not_left_and_shall_have() -> None:
    world = World(a=many("n1", 2), b=(*many("n1", 2, 2), *many("n3", 4)))
    world.step(a=many("n2", 4), b=(*many("n1", 2, 2), *many("n3", 4)))
    wanted = {"a": many("n1", 4), "b": (*many("n3", 4), *many("n2", 4))}
    assert world.step(**wanted) == [Assign("a", many("n1", 2))]
    world.release("a")
    world.step(**wanted)
    world.release("b")
    world.step(**wanted)
    assert world.settled(**wanted)


def test_only_what_an_executor_gives_up_waits_for_a_new_round() -> None:
    target, wanted = many("n1", 2), (*many("n1", 2), *many("n2", 2))
    assert less_given_up(wanted, target, target[:1]) == (wanted[0], *wanted[2:])
    assert less_given_up(wanted, many("n3", 2), many("n3", 2)) == wanted, "n1 is left as it was to be"


def test_a_lost_node_gives_nothing_away() -> None:
    held = {"a": Holding(frozenset(many("n2", 2)), frozenset(many("n2", 2))), "b": Holding()}
    without = {node: room for node, room in ROOM.items() if node != "n3"}
    assert step({"a": many("n2", 2), "b": many("n3", 1)}, held, without, 0.0, TIMEOUT_S) == []


def test_a_gpu_that_somebody_else_is_on_is_waited_for_though_another_one_is_free() -> None:
    world = World(a=(slot("n1", 2),), b=(slot("n2", 0),))
    wanted = {"a": (slot("n2", 3),), "b": (slot("n1", 2),)}
    assert world.step(**wanted) == [Assign("a", (slot("n2", 3),))]
    world.release("a")
    assert world.step(**wanted) == [Assign("b", (slot("n1", 2),))]


def test_more_cpus_or_a_partner_on_the_same_gpu_is_no_other_slot() -> None:
    world = World(a=(slot("n1", 0, cpus=1.0),))
    alone, shared = slot("n1", 0, cpus=1.0), slot("n1", 0, cpus=3.0, share=0.5)
    assert shared == alone
    assert not same_amounts((shared,), (alone,))
    wanted = {"a": (shared,), "b": (slot("n1", 0, share=0.5),)}
    (first, second) = world.step(**wanted)
    assert (first.slots[0].cpus, first.slots[0].share) == (3.0, 0.5)
    assert names([first, second]) == ["a", "b"]
    assert world.step(**wanted) == []
    assert world.settled(**wanted)


def test_cpus_that_others_have_are_waited_for() -> None:
    world = World(a=(slot("n1", 0, cpus=3.0),), b=(slot("n1", 1, cpus=1.0),))
    wanted = {"a": (slot("n1", 0, cpus=1.0),), "b": (slot("n1", 1, cpus=1.0), slot("n1", 2, cpus=2.0))}
    assert names(world.step(b=wanted["b"], a=world.holdings["a"].target)) == []
    assert sorted(names(world.step(**wanted))) == ["a", "b"]
    assert world.settled(**wanted)


def test_replicas_that_stay_keep_their_slots() -> None:
    resources = SPEC.resources.model_copy(update={"gpus_per_replica": 2})
    spec = SPEC.model_copy(update={"resources": resources})
    placement = Placement("t4", (NodeShare("n2", 4, devices=(0, 1, 2, 3)),))
    found = slots_of(placement, spec, CLUSTER, LEASES, (slot("n2", 0, 3),))
    assert [s.devices for s in found] == [(0, 3), (1, 2)]
    moved = slots_of(placement, spec, CLUSTER, {"n2": "another"}, (slot("n2", 0, 3),))
    assert [s.devices for s in moved] == [(0, 1), (2, 3)]


def test_a_worker_is_given_its_part_of_what_the_placement_has_on_the_node() -> None:
    shares = (NodeShare("n2", 3, 1.5, 6.0, devices=(0, 2, 3)), NodeShare("n3", 1, devices=(1,)))
    found = slots_of(Placement("t4", shares), SPEC, CLUSTER, LEASES)
    assert [(s.node_id, s.devices, s.cpus, s.memory_gib) for s in found] == [
        ("n2", (0,), 0.5, 2.0),
        ("n2", (2,), 0.5, 2.0),
        ("n2", (3,), 0.5, 2.0),
        ("n3", (1,), 0.0, 0.0),
    ]


@pytest.mark.parametrize(
    ("share", "sentence"),
    [
        (NodeShare("n2", 3, devices=(0, 1, 2)), "3 GPUs on node n2 are no multiple of the 2"),
        (NodeShare("n2", 2), "0 GPUs are named of 2 on node n2"),
    ],
)
def test_a_placement_without_whole_replicas_or_without_names_is_refused(share: NodeShare, sentence: str) -> None:
    spec = SPEC.model_copy(update={"resources": SPEC.resources.model_copy(update={"gpus_per_replica": 2})})
    with pytest.raises(ValueError, match=sentence):
        slots_of(Placement("t4", (share,)), spec, CLUSTER, LEASES)


def test_a_placement_on_an_unleased_node_is_refused() -> None:
    with pytest.raises(ValueError, match="n9 is not leased"):
        slots_of(Placement("t4", (NodeShare("n9", 1),)), SPEC, CLUSTER, LEASES)


def test_a_job_waits_for_gpus_that_its_team_still_holds_at_its_cap_though_others_are_free() -> None:
    world = World({"t4": 2}, a=many("n2", 2))
    wanted = {"a": many("n1", 2), "b": many("n3", 2)}
    assert world.step(**wanted) == [Assign("a", many("n1", 2))]
    assert world.step(**wanted) == []
    world.release("a")
    assert world.step(**wanted) == [Assign("b", many("n3", 2))]


def test_a_job_that_moves_within_a_type_at_the_cap_leaves_before_it_starts_again() -> None:
    world = World({"t4": 2}, a=many("n2", 2))
    assert world.step(a=many("n3", 2)) == [Assign("a", ())]
    world.release("a")
    assert world.step(a=many("n3", 2)) == [Assign("a", many("n3", 2))]


def test_jobs_that_exchange_types_at_their_caps_are_freed_by_stopping_one_of_them() -> None:
    world = World({"t4": 2, "a100": 2}, a=many("n1", 2), b=many("n2", 2))
    wanted = {"a": many("n3", 2), "b": many("n1", 2, first=2)}
    for _ in range(4):
        world.step(**wanted)
        world.release()
    assert world.settled(**wanted)
    assert names(world.sent).count("b") + names(world.sent).count("a") == 3


@st.composite
def plans(draw: st.DrawFn) -> list[dict[str, tuple[Slot, ...]]]:
    """Draw a sequence of plans within what the cluster has. Jobs change GPUs and CPUs also within a node."""
    sequence = []
    for _ in range(draw(st.integers(1, 4))):
        plan: dict[str, tuple[Slot, ...]] = dict.fromkeys("abcd", ())
        for node in ROOM:
            for device, job in enumerate(draw(st.lists(st.sampled_from("abcd-"), min_size=4, max_size=4))):
                cpus = draw(st.sampled_from((0.0, 0.25, 0.5)))
                if job != "-":
                    plan[job] += (slot(node, device, cpus=cpus),)
        sequence.append(plan)
    return sequence


@settings(max_examples=150)
@given(plans(), st.randoms(use_true_random=False))
def test_every_sequence_of_plans_ends_where_it_shall_and_never_over_commits(plans, random) -> None:
    world = World()
    for plan in plans[:-1]:
        world.step(**plan)
        world.release(*random.sample("abcd", random.randint(1, 4)))
    for _ in range(20):
        world.step(**plans[-1])
        world.release()
    assert world.settled(**plans[-1])


@settings(max_examples=150)
@given(plans(), st.randoms(use_true_random=False))
def test_every_sequence_of_plans_within_caps_ends_where_it_shall_and_never_exceeds_them(plans, random) -> None:
    most = {
        gpu_type: max(
            sum(s.gpus for slots in plan.values() for s in slots if s.gpu_type == gpu_type) for plan in plans
        )
        for gpu_type in ("a100", "t4")
    }
    world = World(most)
    for plan in plans[:-1]:
        world.step(**plan)
        world.release(*random.sample("abcd", random.randint(1, 4)))
    for _ in range(20):
        world.step(**plans[-1])
        world.release()
    assert world.settled(**plans[-1])
