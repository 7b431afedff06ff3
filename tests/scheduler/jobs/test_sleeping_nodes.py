"""A job whose nodes are powered off is told so, takes part in rounds, and is never said to lack its GPU type."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from coadapt.client.client import cluster_of
from coadapt.client.jobfile import misfits
from coadapt.client.submit_check import sizes_on
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec
from coadapt.core.schemas import ClusterView, MachineRow
from coadapt.core.settings import Settings
from coadapt.core.sleeping import SleepingNode, with_sleeping
from coadapt.policies.catalogue import make_policy, policy_names
from coadapt.policies.per_pool import PerPool
from coadapt.scheduler.jobs.sleeping_nodes import waited_for, why_it_waits
from coadapt.scheduler.views.cluster_views import cluster_view
from coadapt.scheduler.views.explaining import explain
from coadapt.scheduler.views.job_views import job_details, job_row
from coadapt.scheduler.views.waiting import wait_reason

from tests.support.cycles import World, nodes_of
from tests.support.rounds import cluster

AWAKE = Cluster((Node("1", "t4", 2), Node("2", "a100", 4)))
ASLEEP = (
    SleepingNode(Node("3", "a100", 4)),
    SleepingNode(Node("4", "rtx", 8), waking=True, boot_s=300.0),
    SleepingNode(Node("5", "t4", 8, pool="lab")),
)


@pytest.mark.parametrize(
    ("resources", "pool", "expected"),
    [
        ({}, None, ""),  # it runs on what is awake
        ({"gpu_types": ["a100"]}, None, ""),
        ({"gpu_types": ["rtx"]}, None, "4"),
        ({"gpu_types": ["a100"], "min_gpus": 8, "max_gpus": 8}, None, "3"),  # two nodes together have so many
        ({"min_gpus": 8, "max_gpus": 8}, None, "3 4"),
        ({"min_gpus": 4, "max_gpus": 8}, None, ""),
        ({"min_gpus": 16, "max_gpus": 16}, None, ""),  # no node that sleeps helps
        ({"gpus_per_replica": 8, "max_gpus": 8}, None, "4"),
        ({}, "lab", "5"),
        ({}, "other", ""),
        ({"gpu_types": ["h100"]}, None, ""),
    ],
    ids=str,
)
def test_a_job_waits_for_sleeping_nodes_only_if_it_cannot_run_without_them(
    resources: dict[str, Any], pool: str | None, expected: str
) -> None:
    spec = JobSpec.model_validate({"name": "j", "script": "t.py", "pool": pool, "resources": resources})
    assert " ".join(one.node.id for one in waited_for(spec, AWAKE, ASLEEP)) == expected


@pytest.mark.parametrize(
    ("sizes", "expected"), [([8], "3 4"), ([4, 8], ""), ({"rtx": [4]}, "4"), ({"t4": [2]}, "")], ids=str
)
def test_sizes_of_a_command_count(sizes: Any, expected: str) -> None:
    spec = JobSpec.model_validate({"name": "j", "command": ["make"], "sizes": sizes})
    assert " ".join(one.node.id for one in waited_for(spec, AWAKE, ASLEEP)) == expected


def test_what_it_is_told_says_whether_its_node_wakes() -> None:
    assert why_it_waits(ASLEEP[1:2]) == "its node wakes, about 5 min"
    assert why_it_waits([SleepingNode(AWAKE.nodes[0], True, 20.0)]) == "its node wakes, about 20 s"
    assert why_it_waits(ASLEEP[:1]) == "waiting for GPU type a100, whose nodes sleep; one is still to be woken"


def view(awake: Cluster, *asleep: SleepingNode, state: str = "asleep") -> ClusterView:
    """Return what the service answers of a cluster with sleeping machines."""
    rows = [
        MachineRow(
            machine=f"m{one.node.id}",
            node=None,
            state=state,
            since_s=0.0,
            until_s=None,
            keep=False,
            reason="",
            gpu_type=one.node.gpu_type,
            pool=one.node.pool,
            gpus=one.node.gpus,
            cpus=8.0,
            memory_gib=64.0,
            emulated=False,
        )
        for one in asleep
    ]
    return cluster_view(nodes_of(awake), [], Settings(), 1, None, asleep=rows)


def test_a_job_file_for_sleeping_nodes_is_accepted_and_one_for_failed_nodes_is_not() -> None:
    spec = JobSpec.model_validate(
        {"name": "j", "script": "t.py", "resources": {"gpu_types": ["rtx"], "min_gpus": 8}}
    )
    nodes = cluster_of(view(AWAKE, *ASLEEP))
    assert (misfits(spec, nodes), sizes_on(spec, nodes)) == ([], {"rtx": [8]})
    (problem,) = misfits(spec, cluster_of(view(AWAKE, *ASLEEP, state="failed")))
    assert problem == "resources.gpu_types: rtx is not a GPU type of this cluster; known: a100, t4"


def test_a_cluster_that_sleeps_altogether_still_refuses_what_it_never_has() -> None:
    spec = JobSpec.model_validate({"name": "j", "script": "t.py", "resources": {"gpu_types": ["h100"]}})
    assert misfits(spec, cluster_of(view(Cluster(()), *ASLEEP[:2])))
    assert with_sleeping(Cluster(()), ASLEEP[:2]).capacity() == {"a100": 4, "rtx": 8}


# --- in the live cycle ----------------------------------------------------------------------------------------


def told(world: World, name: str) -> tuple[str | None, str, list[str]]:
    """Return what a user is told of a job: the code, the reason of `list`, and the lines of `explain`."""
    job, last, nodes = world.job(name), world.cycle.last_round, world.nodes.snapshot
    waits = wait_reason(job, last, nodes.cluster, asleep=nodes.asleep)
    row = job_row(job, waits, nodes.cluster, nodes.asleep)
    assert isinstance(world.planner, PerPool)
    found = explain(job, last, world.planner, nodes.cluster, asleep=nodes.asleep)
    assert job_details(job, [], waits=waits, cluster=nodes.cluster, asleep=nodes.asleep)["reason"] == row["reason"]
    assert found["reason"] == row["wait_reason"]
    return row["wait_reason"], row["reason"], found["lines"]


SLEEPS = "waiting for GPU type a100, whose nodes sleep; one is still to be woken"


@pytest.mark.parametrize("policy", policy_names())
def test_a_job_for_sleeping_nodes_takes_part_in_rounds_of_every_policy_and_runs_when_they_are_awake(
    tmp_path: Path, policy: str
) -> None:
    world = World(tmp_path, "1x t4:2, 1x a100:2", planner=PerPool(partial(make_policy, policy)))
    world.play("sleep a100-000\nsubmit a types=a100 unprofiled\nsubmit b types=t4 unprofiled\ngo")
    done = world.cycle.last_round
    assert done is not None
    assert ([view.id for view in done.round.jobs], [node.id for node in done.round.asleep]) == (
        [world.ids["a"], world.ids["b"]],
        ["a100-000"],
    )
    assert told(world, "a") == ("node_asleep", SLEEPS, [f"{world.ids['a']} is {SLEEPS}"])
    world.play("sleep a100-000=waking\ngo")
    assert told(world, "a")[:2] == ("node_asleep", "its node wakes, about 5 min")
    world.play("sleep")
    assert told(world, "a")[0] == "next_round", "what the last round said is of the time when it slept"
    world.play("go\n? a queued\ngo 70")
    assert world.job("a").target


def test_a_job_that_was_measured_before_its_nodes_fell_asleep_waits_for_them(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2, 1x a100:2", planner=PerPool(partial(make_policy, "fifo")))
    world.play("submit a types=a100\ngo\nmeasured a a100\nsleep a100-000\ngo")
    assert told(world, "a")[0] == "node_asleep"
    world.play("sleep\ngo\nruns a\n? a running")


def test_a_job_too_large_for_what_is_awake_is_not_said_to_be_too_large_for_the_cluster(tmp_path: Path) -> None:
    world = World(tmp_path, "2x t4:2", planner=PerPool(partial(make_policy, "fifo")))
    world.play("sleep t4-001\nsubmit a rigid=4 unprofiled\nsubmit b rigid=8 unprofiled\ngo")
    assert told(world, "a")[0] == "node_asleep"
    assert told(world, "b")[0] == "too_large"


def test_the_log_does_not_say_that_gpu_types_are_gone_which_sleep(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2, 1x a100:2", planner=PerPool(partial(make_policy, "fifo")))
    world.play("submit a\ngo\nmeasured a t4\nlostrun a a100\nsleep a100-000\ngo")
    texts = [str(event.data.get("text", "")) for event in world.store.events(world.ids["a"])]
    assert not [text for text in texts if "gone" in text]
    assert any("its nodes of type a100 sleep" in text for text in texts)


def test_a_paused_job_is_paused_and_not_asleep(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2, 1x a100:2", planner=PerPool(partial(make_policy, "fifo")))
    world.play("sleep a100-000\nsubmit a types=a100 unprofiled\npause a\ngo")
    assert told(world, "a")[:2] == ("paused", "paused by the user")


def test_nodes_of_a_name_that_is_awake_are_not_counted_twice() -> None:
    assert with_sleeping(cluster("1x t4:2"), [SleepingNode(Node("t4-000", "t4", 2))]) == cluster("1x t4:2")
