"""Policies for jobs of a fixed size: where they start jobs, and that each of them replays every kind of trace."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coadapt.cli.main import run as command
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Round

from tests.support.rounds import cluster, held, job, model, on, rigid

ORDERING = ("fifo", "las", "sjf", "srtf", "themis")


FASTER_ON_B = {"measured": {"rates": {"a": 1.0, "b": 3.0}}, "fitted": {"model": model({"a": 1.0, "b": 3.0})}}

# What is known of a job -> (the cluster, the job, where it starts, where it does when types are not looked at).
STARTS: dict[str, tuple[str, JobView, str | None, str | None]] = {
    "measured speeds": ("4x a:4, 1x b:2", rigid("j", **FASTER_ON_B["measured"]), "1xb", "1xa"),
    "a fitted model": ("4x a:4, 1x b:2", rigid("j", known=True, **FASTER_ON_B["fitted"]), "1xb", "1xa"),
    "the fastest has no room": ("4x a:4, 1x b:2", rigid("j", 4, **FASTER_ON_B["measured"]), "4xa", "4xa"),
    "nothing": ("4x a:4, 1x b:2", rigid("j"), "1xa", "1xa"),
    "equal speeds": ("1x a:2, 1x b:4", rigid("j", rates={"a": 1.0, "b": 1.0}), "1xb", "1xb"),
    "one type cannot run it": ("4x a:4, 1x b:2", rigid("j", rates={"b": 0.1}), "1xb", "1xb"),
    "no type can": ("4x a:4, 1x b:2", rigid("j", rates={"c": 1.0}), None, None),
    "its user wants the slow one": (
        "1x a:4, 1x b:4", rigid("j", gpu_types=["a"], **FASTER_ON_B["measured"]), "1xa", "1xa",
    ),
    "it runs on the slow one": (
        "1x a:4, 1x b:4", rigid("j", placement=on("a", n0=1), **FASTER_ON_B["measured"]), "1xa", "1xa",
    ),
}  # fmt: skip


@pytest.mark.parametrize("known", STARTS)
@pytest.mark.parametrize("policy", ORDERING)
def test_a_job_starts_on_the_type_that_runs_it_fastest_unless_types_are_not_looked_at(
    policy: str, known: str
) -> None:
    where, view, aware, blind = STARTS[known]
    round = Round(0.0, 60.0, cluster(where), [view])
    for type_blind, expected in ((False, aware), (True, blind)):
        plan = make_policy(policy, type_blind=type_blind).plan(round)
        assert held(plan) == ({} if expected is None else {"j": expected})


# --- every kind of trace -----------------------------------------------------------------------------------------


def applications(folder: Path) -> list[str]:
    """Return arguments for jobs that train models, on a cluster of three GPU types."""
    (folder / "jobs.csv").write_text(
        "name,time,application,num_replicas,batch_size\n"
        "cifar10-0,0,cifar10,2,512\ncifar10-1,60,cifar10,4,1024\nbert-0,100,bert,4,96\n"
        "cifar10-2,130,cifar10,1,256\ncifar10-3,200,cifar10,8,2048\n"
    )
    return ["--trace", str(folder / "jobs.csv"), "--cluster", "2x t4:4, 1x rtx:8, 1x a100:4"]


def lengths(folder: Path) -> list[str]:
    """Return arguments for jobs of known length, in virtual clusters of one GPU type."""
    rows = [
        f"{i},u,{vc},{gpus},8,0,COMPLETED,2020-09-01 00:{i:02d}:03,x,x,{seconds},0,{seconds}\n"
        for i, (vc, gpus, seconds) in enumerate([("p", 1, 300), ("p", 4, 900), ("q", 2, 60), ("p", 2, 30)])
    ]
    header = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue,all\n"
    (folder / "jobs.csv").write_text(header + "".join(rows))
    (folder / "nodes.yaml").write_text('virtual_clusters: {p: "1x v100:4", q: "1x v100:2"}\n')
    return ["--trace", str(folder / "jobs.csv"), "--cluster", str(folder / "nodes.yaml")]


def steps(folder: Path) -> list[str]:
    """Return arguments for jobs of some steps at measured speeds by GPU type. One cannot run on the slowest."""
    speeds = {
        "v100": {"('A3C', 1)": {"null": 4.0}, "('LM', 2)": {"null": 3.0}},
        "p100": {"('A3C', 1)": {"null": 2.0}, "('LM', 2)": {"null": 2.0}},
        "k80": {"('A3C', 1)": {"null": 1.0}},
    }
    with gzip.open(folder / "speeds.json.gz", "wt") as file:
        json.dump(speeds, file)
    rows = [("A3C", 2000, 0, 1), ("LM", 3000, 10, 2), ("A3C", 500, 20, 1), ("LM", 400, 400, 2)]
    (folder / "jobs.trace").write_text("".join(f"{a}\tx\t--steps\t1\t{n}\t{t}.0\t{g}\n" for a, n, t, g in rows))
    nodes = "2x v100:1, 2x p100:1, 2x k80:1"
    return [
        "--trace",
        str(folder / "jobs.trace"),
        "--cluster",
        nodes,
        "--profiles",
        str(folder / "speeds.json.gz"),
    ]


TRACES: dict[str, tuple[Callable[[Path], list[str]], int]] = {
    "applications on three GPU types": (applications, 5),
    "lengths in virtual clusters": (lengths, 4),
    "steps at measured speeds": (steps, 4),
}
POLICIES = {
    **{name: [] for name in (*ORDERING, "gavel", "max_min", "shockwave")},
    **{
        f"{name}, type-blind": ["--policy-option", "type_blind=true"]
        for name in (*ORDERING, "max_min", "shockwave")
    },
}


@pytest.mark.parametrize("kind", TRACES)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_replays_every_kind_of_trace_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str, kind: str
) -> None:
    make, jobs = TRACES[kind]
    name = policy.split(",")[0]
    arguments = ["simulate", *make(tmp_path), "--policy", name, *POLICIES[policy], "--json"]
    assert command(arguments) == 0, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)[name]
    assert found["jobs"] == jobs
    assert 0 < found["mean_jct_h"] <= found["makespan_h"]
    assert command(arguments) == 0
    again = json.loads(capsys.readouterr().out)[name]
    assert {k: v for k, v in again.items() if "policy" not in k} == {
        k: v for k, v in found.items() if "policy" not in k
    }


def adaptive(id: str, at: float = 0.0, **view: Any) -> JobView:
    """Return a job of which nothing is known."""
    return job(id, known=False, submitted_s=at, **view)


# GPUs of a replica -> what a job that accepts 1 to 5 GPUs may start on, of 4 GPUs "a" and 3 GPUs "b".
REPLICAS: list[tuple[Any, set[str]]] = [
    (2, {"2xa", "2xb"}),
    (3, {"3xa", "3xb"}),
    ({"b": 1}, {"1xb"}),
    ({"a": 2, "b": 3}, {"2xa"}),
    ({"b": 2}, {"2xb"}),
    (5, set()),
]


@pytest.mark.parametrize(("each", "expected"), REPLICAS)
@pytest.mark.parametrize("policy", [*ORDERING, "gavel", "max_min", "shockwave"])
def test_a_job_that_may_be_resized_gets_the_fewest_whole_replicas(
    policy: str, each: Any, expected: set[str]
) -> None:
    view = adaptive("j", gpus_per_replica=each, min_gpus=1, max_gpus=5)
    plan = make_policy(policy).plan(Round(0.0, 60.0, cluster("1x a:4, 1x b:3"), [view]))
    found = held(plan)
    assert found.keys() == ({"j"} if expected else set())
    assert set(found.values()) <= expected


TOO_MUCH: dict[str, dict[str, Any]] = {
    "more GPUs of one type than there are": {"min_gpus": 6},
    "a GPU type that is not there": {"gpu_types": ["c"]},
    "more CPUs than a node has": {"cpus_per_gpu": 9.0},
    "more memory than a node has": {"memory_gib_per_gpu": 100.0},
    "whole replicas that no node holds": {"gpus_per_replica": 5},
    "no whole number of replicas": {"gpus_per_replica": 4, "min_gpus": 5, "max_gpus": 7},
}


@pytest.mark.parametrize("what", TOO_MUCH)
@pytest.mark.parametrize("policy", ORDERING)
def test_a_job_that_the_cluster_cannot_run_keeps_no_other_waiting(policy: str, what: str) -> None:
    jobs = [adaptive("large", 0.0, **TOO_MUCH[what]), *(adaptive(id, 1.0, min_gpus=4) for id in "ab")]
    round = Round(100.0, 60.0, cluster("1x a:4, 1x b:4"), jobs)
    assert held(make_policy(policy).plan(round)) == {"a": "4xa", "b": "4xb"}


def test_a_job_that_has_room_on_an_idle_cluster_is_waited_for() -> None:
    jobs = [adaptive("runs", 0.0, placement=on("a", n0=1)), adaptive("large", 1.0, min_gpus=4), adaptive("j", 2.0)]
    assert held(make_policy("fifo").plan(Round(100.0, 60.0, cluster("1x a:4"), jobs))) == {"runs": "1xa"}
