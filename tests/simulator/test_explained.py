"""`simulate --explain` says of a job in a round what was so in that round."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from coadapt.cli.main import run
from coadapt.core.training_config import Adaptivity
from coadapt.policies.catalogue import make_policy, policy_names
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.explained import ExplainedRound, explain
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.replay import simulation
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import TraceJob, Workload

FIXED = [TraceJob("first", 0.0, 2, 300.0), TraceJob("second", 10.0, 2, 100.0), TraceJob("third", 20.0, 1, 50.0)]
CLUSTER = "1x t4:2"


def said(policy: str, job: str, at_s: float | None = None, cluster: str = CLUSTER, **pool: str) -> ExplainedRound:
    jobs = [TraceJob(j.id, j.submit_s, j.gpus, j.duration_s, virtual_cluster=pool.get(j.id, "")) for j in FIXED]
    under = Conditions(Timing(60.0))
    made = simulation(Workload.of(jobs), read_cluster(cluster), policy, {}, FittedApplications(["t4"]), under)
    return explain(made, job, at_s)


def test_a_job_that_waits_is_told_for_whom_and_what_is_free() -> None:
    found = said("fifo", "second", 60.0)
    assert found.time_s == 60.0
    assert found.explanation.sentences[0] == "second gets nothing this round."
    assert "Free after this round: 0 t4." in found.explanation.sentences
    assert found.explanation.facts["rank"] == 2


def test_the_round_is_the_first_with_the_job_at_or_after_the_time() -> None:
    assert said("fifo", "second", 0.0).time_s == 60.0  # submitted at 10 s
    assert said("fifo", "second", 61.0).time_s == 120.0
    started = said("fifo", "second", 250.0)
    assert (started.time_s, started.explanation.sentences[0]) == (300.0, "second starts on 2xt4.")


def test_without_a_time_it_is_the_last_round_of_the_job() -> None:
    found = said("fifo", "second")
    # It runs from 300 to 400 s.
    assert (found.time_s, found.explanation.sentences[0]) == (360.0, "second stays on 2xt4.")


def test_a_job_that_would_wait_for_ever_is_explained_by_its_last_round() -> None:
    made = simulation(
        Workload.of([TraceJob("large", 0.0, 8, 10.0)]), read_cluster(CLUSTER), "fifo", {},
        FittedApplications(["t4"]), Conditions(),
    )  # fmt: skip
    assert explain(made, "large").explanation.to_dict()["reason"] == "too_large"


def test_a_job_of_a_pool_is_explained_within_its_pool() -> None:
    found = said("fifo", "second", 60.0, "1x t4:2@a, 1x t4:4@b", first="a", second="b", third="b")
    assert found.explanation.sentences[0] == "second starts on 2xt4."
    assert found.explanation.facts["jobs"] == 2


def test_a_job_that_adapts_needs_its_fewest_gpus_whatever_a_tuned_one_would_ask_for() -> None:
    jobs = [
        TraceJob(id, 0.0, 4, application="cifar10", batch_size=128, adaptivity=Adaptivity.ADAPTIVE) for id in "ab"
    ]
    source, under = FittedApplications(["t4"]), Conditions()
    both = [
        explain(simulation(Workload.of(jobs), read_cluster("1x t4:1"), "pollux", {}, source, under), id, 60.0)
        for id in "ab"
    ]
    (found,) = (one.explanation for one in both if one.explanation.chosen is None)
    assert found.facts["needs_gpus"] == 1
    assert "It needs 4 GPUs" not in " ".join(found.sentences)


@pytest.mark.parametrize("policy", [name for name in policy_names() if not make_policy(name).traits.foresees_all])
def test_every_policy_explains_what_its_plan_gives(policy: str) -> None:
    jobs = [TraceJob(f"job-{i}", 5.0 * i, 2, application="cifar10", batch_size=128) for i in range(4)]
    made = simulation(
        Workload.of(jobs), read_cluster("1x t4:4"), policy, {}, FittedApplications(["t4"]), Conditions()
    )
    found = explain(made, "job-3", 300.0)
    holdings = [h for h in made.engines[0].outcome().holdings if h.job == 3 and h.time_s <= found.time_s]
    held = f"{holdings[-1].gpus}xt4" if holdings and holdings[-1].gpus else None
    assert found.explanation.chosen == held
    assert found.explanation.sentences[0].startswith("job-3 ")
    ranks = re.findall(r"number (\d+) of (\d+)", " ".join(found.explanation.sentences))
    assert all(1 <= int(rank) <= int(count) == 4 for rank, count in ranks)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--explain", "j11"], "--explain: the trace has no job 'j11'; did you mean j1?"),
        (["--explain", "x"], "--explain: the trace has no job 'x'; its "),
        (["--explain", "j1", "--at", "1000"], "job j1 had ended at 110 s"),
        (["--explain", "j1", "--at", "-1"], "--at: -1.0 must be 0 seconds or more"),
        (["--at", "5"], "--at goes with --explain"),
        (["--explain", "j1", "--out", "kept"], "--explain saves nothing; give it without --out"),
    ],
)
def test_a_round_that_cannot_be_explained_is_one_sentence(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command(tmp_path), *arguments]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_each_policy_says_its_own_and_the_json_has_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [*command(tmp_path), "--policy", "las", "--explain", "j2", "--at", "20"]
    assert run(both) == 0
    printed = capsys.readouterr().out
    assert "fifo, round at 20 s:\nj2 gets nothing this round." in printed
    assert "las, round at 20 s:\n" in printed
    assert run([*both, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["fifo"]["round_s"], found["fifo"]["decision"]) == (20.0, "waiting")
    assert found["fifo"]["reason"] == "no_room"


def command(folder: Path) -> list[str]:
    trace = folder / "trace.csv"
    trace.write_text("job_id,arrival_s,service_sec,gpu_count\nj1,10,100,1\nj2,20,50,2\nj3,30,10,2\n")
    return ["simulate", "--trace", str(trace), "--cluster", "1x any:2", "--policy", "fifo", "--events"]
