"""Promises: whole placements are woken, in the order of the plan, and nothing that anybody uses may sleep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.core.decisions import Waiting, WaitReason
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.fifo import FifoPolicy
from coadapt.policies.sleeping.machines import idle_nodes, wanted

from tests.support.rounds import on, spec
from tests.support.sleeping import machines, rigid


def round_of(awake: tuple[Node, ...], asleep: tuple[Node, ...], *jobs: JobView) -> tuple[Round, Plan]:
    round = Round(0.0, 60.0, Cluster(awake), list(jobs), asleep)
    return round, FifoPolicy().plan(round)


def test_a_job_that_does_not_fit_wakes_whole_nodes_beside_those_awake() -> None:
    round, plan = round_of(machines(1), machines(3, first=1), rigid("a", 16))
    found = wanted("", round, plan, ())
    assert found.nodes == {"m-t4-001": "Job a waits for 16 GPUs of type t4."}
    assert found.idle == {"t4": 1}


def test_a_job_that_fits_wakes_nobody() -> None:
    round, plan = round_of(machines(2), machines(3, first=2), rigid("a", 16))
    assert wanted("", round, plan, ()).nodes == {}
    assert not wanted("", round, plan, ()).waiting


def test_jobs_wake_nodes_in_the_order_of_the_plan() -> None:
    round, plan = round_of((), machines(2), rigid("a", 8, submitted_s=2.0), rigid("b", 16, submitted_s=1.0))
    assert list(wanted("", round, plan, ()).nodes.values()) == ["Job b waits for 16 GPUs of type t4."] * 2


def test_machines_on_their_way_back_come_first() -> None:
    round, plan = round_of((), machines(3), rigid("a", 8))
    assert list(wanted("", round, plan, ("m-t4-002",)).nodes) == ["m-t4-002"]


def test_a_job_that_no_node_could_run_wakes_nobody_and_keeps_nobody_awake() -> None:
    round, plan = round_of(machines(1), machines(1, first=1), rigid("a", 64))
    found = wanted("", round, plan, ())
    assert found.nodes == {}
    assert not found.waiting


def test_a_type_that_is_all_asleep_is_woken() -> None:
    asked = rigid("a", 8, gpu_types=["a100"])
    round, plan = round_of(machines(1), machines(2, "a100"), asked)
    assert list(wanted("", round, plan, ()).nodes) == ["m-a100-000"]


def test_only_nodes_of_the_jobs_own_pool_wake() -> None:
    own = JobView("a", spec("a", "rigid", gpus=8).model_copy(update={"pool": "lab"}))
    awake, asleep = machines(1), (*machines(2, pool="lab", first=1), *machines(2, first=3))
    round = Round(0.0, 60.0, Cluster(awake), [own], asleep)
    plan = Plan({}, decisions={"a": Waiting(WaitReason.POOL_EMPTY, "…")})
    assert list(wanted("lab", round, plan, ()).nodes) == ["m-t4-001"]
    assert wanted("", round, plan, ()).nodes == {}


def test_a_job_that_is_not_worth_a_gpu_wakes_nobody() -> None:
    for reason in (WaitReason.NOT_WORTH_IT, WaitReason.PAUSED, WaitReason.HAD_ITS_TURN):
        round = Round(0.0, 60.0, Cluster(()), [rigid("a", 8)], machines(1))
        plan = Plan({}, decisions={"a": Waiting(reason, "…")})
        assert wanted("", round, plan, ()).nodes == {}


def test_a_job_holds_back_sleep_of_what_it_waits_for() -> None:
    held = rigid("x", 1, placement=on("t4", n0=1))
    round, plan = round_of(machines(2), (), held, rigid("a", 16))
    assert wanted("", round, plan, ()).waiting == {"t4"}


def test_idle_are_nodes_that_nobody_has_or_is_planned_to_have() -> None:
    leaving = replace(rigid("x", 1), placement=on("t4", n0=1))
    round = Round(0.0, 60.0, Cluster(machines(4)), [leaving, rigid("y", 1)], ())
    plan = Plan({"y": on("t4", n2=1)}, order=np.array([0, 1]))
    assert [node.id for node in idle_nodes(round, plan)] == ["t4-003", "t4-001"]


def test_nobody_wakes_for_a_job_that_may_not_overtake_one_that_waits_for_others() -> None:
    runs = rigid("x", 8, placement=on("t4", n0=8))
    round, plan = round_of(machines(1), machines(1, first=1), runs, rigid("a", 16), rigid("b", 8, submitted_s=9.0))
    found = wanted("", round, plan, ())
    assert found.nodes == {}
    assert found.waiting == {"t4"}
