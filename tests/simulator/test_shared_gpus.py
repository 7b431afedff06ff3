"""Promises: what `simulate` reads of shared GPUs is checked, runs share and repeat, and figures count parts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from coadapt.cli.main import app
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.metrics import gpu_hours, held_over_time, intervals
from coadapt.simulator.results.saved import load
from coadapt.simulator.run import Simulation
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import TraceJob, Workload
from typer.testing import CliRunner

USAGE = "job_id,kind,gpu_util_percent,memory_util_percent,memory_gib\n"
PAIRS = "job,partner,speed,partner_speed\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def light(workload: Workload, kind: str = "small") -> str:
    return USAGE + "".join(f"{id},{kind},10,5,1\n" for id in workload.ids)


def run_of(
    workload: Workload,
    policy: str = "lucid",
    cluster: str = "1x a100:1",
    usage: Path | None = None,
    pairs: Path | None = None,
    **options: object,
) -> Simulation:
    nodes = read_cluster(cluster)
    under = Conditions(timing=Timing(events=True), usage=usage, pairs=pairs)
    return simulation(workload, nodes, policy, options, source_of(False, None, nodes), under)


def two() -> Workload:
    return Workload.of(TraceJob(id=id, submit_s=0.0, gpus=1, duration_s=600.0) for id in "ab")


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("row", "told"), [
    ("a,small,101,5,1", "line 2: gpu"),
    ("a,small,-1,5,1", "line 2: gpu"),
    ("a,small,nan,5,1", "line 2: gpu"),
    ("a,small,10,100.5,1", "line 2: memory"),
    ("a,small,10,5,-2", "line 2: memory_gib"),
    ("a,small,10,5,inf", "line 2: memory_gib"),
    ("a,small,much,5,1", "line 2: gpu_util_percent 'much' is no number"),
    (",small,10,5,1", "line 2: job_id is missing"),
    ("a,small,10,5,1\na,small,10,5,1", "line 3: job_id a stands twice"),
])  # fmt: skip
def test_a_bad_line_of_usage_is_one_sentence(tmp_path: Path, row: str, told: str) -> None:
    path = written(tmp_path, "usage.csv", USAGE + row + "\n")
    with pytest.raises(ValueError, match=f"usage.csv, {told}") as raised:
        run_of(two(), usage=path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("text", "told"), [
    ("job_id,gpu_util\na,10\n", "column 'gpu_util' is unknown; the columns are job_id, kind"),
    ("job_id,kind\nz,small\n", "none of its jobs is in the trace, such as 'z'"),
    ("job_id,mixed_precision\na,2\n", "line 2: mixed_precision 2 is not accepted, must be 0 or 1"),
    ("kind,gpu_util_percent\nx,10\n", "job_id"),
    ("", "usage.csv"),
])  # fmt: skip
def test_a_file_of_usage_of_another_form_is_one_sentence(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, "usage.csv", text)
    with pytest.raises(ValueError, match=told) as raised:
        run_of(two(), usage=path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("rows", "told"), [
    ("small,,0.9,0.9", "line 2: the partner is missing"),
    (",small,0.9,0.9", "line 2: the job is missing"),
    ("small,small,0,0.9", "line 2: speed: 0 is not accepted, must be above 0"),
    ("small,big,0.9,-1", "line 2: partner_speed: -1 is not accepted, must be above 0"),
    ("small,big,nan,1", "line 2: speed: nan is not accepted"),
    ("small,big,inf,1", "line 2: speed: inf is not accepted"),
    ("small,big,,1", "line 2: speed is missing"),
    ("small,big,0.9,0.8\nbig,small,0.8,0.9", "line 3: the pair big and small is there twice"),
    ("small,big,0.9", "line 2 has not as many values"),
    ("", "holds no pair"),
])  # fmt: skip
def test_a_bad_pair_is_one_sentence(tmp_path: Path, rows: str, told: str) -> None:
    path = written(tmp_path, "pairs.csv", PAIRS + rows + "\n")
    with pytest.raises(ValueError, match=told) as raised:
        run_of(two(), pairs=path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("head", "told"), [
    ("job,partner,speed", "column 'partner_speed' is missing"),
    ("job,partner,speed,partner_speed,colour", "column 'colour' is unknown"),
])  # fmt: skip
def test_columns_of_pairs_are_checked(tmp_path: Path, head: str, told: str) -> None:
    path = written(tmp_path, "pairs.csv", head + "\n")
    with pytest.raises(ValueError, match=told):
        run_of(two(), pairs=path)


def test_the_command_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    trace = written(tmp_path, "t.jsonl", '{"id": "a", "submit_s": 0, "duration_s": 60, "gpus": 1}')
    usage = written(tmp_path, "usage.csv", USAGE + "a,small,120,5,1\n")
    made = CliRunner().invoke(
        app,
        ["simulate", "--trace", str(trace), "--cluster", "1x a100:1", "--policy", "lucid", "--usage", str(usage)],
    )
    assert made.exit_code == 2
    assert "usage.csv, line 2: gpu" in " ".join(made.output.replace("│", " ").split())
    missing = CliRunner().invoke(
        app,
        ["simulate", "--trace", str(trace), "--cluster", "1x a100:1", "--policy", "lucid", "--pairs", "none.csv"],
    )
    assert missing.exit_code == 2
    assert "none.csv: cannot be read" in " ".join(missing.output.replace("│", " ").split())


# --- runs ---------------------------------------------------------------------------------------------------


def many(count: int = 60) -> Workload:
    random = np.random.default_rng(5)
    at = np.cumsum(random.exponential(60.0, count))
    return Workload.of(
        TraceJob(id=f"j{i}", submit_s=float(s), gpus=int(random.choice([1, 2])), duration_s=float(d))
        for i, (s, d) in enumerate(zip(at, random.choice([100.0, 900.0, 3000.0], count), strict=True))
    )


def shared(outcome: Outcome) -> bool:
    return any(change.gpus % 1 for change in outcome.holdings)


@pytest.mark.parametrize("policy", ["lucid", "packed"])
def test_jobs_share_gpus_the_same_run_is_the_same_and_without_usage_nothing_is_shared(
    policy: str, tmp_path: Path
) -> None:
    workload = many()
    usage = written(tmp_path, "usage.csv", light(workload))
    one, again = (run_of(workload, policy, "4x a100:4", usage).run() for _ in range(2))
    assert shared(one)
    np.testing.assert_array_equal(one.finished_s, again.finished_s)
    assert one.holdings == again.holdings
    alone = run_of(workload, policy, "4x a100:4").run()
    assert not shared(alone)
    assert one.jct_s.mean() < alone.jct_s.mean()


@pytest.mark.parametrize("policy", ["lucid", "packed"])
def test_gpu_hours_are_what_was_held_at_no_time_more_than_there_is(policy: str, tmp_path: Path) -> None:
    workload = many()
    usage = written(tmp_path, "usage.csv", light(workload))
    found = run_of(workload, policy, "4x a100:4", usage).run()
    types, hours = gpu_hours(found)
    assert types == ("a100",)
    np.testing.assert_allclose(hours.sum(axis=1) * 3600, found.attained_gpu_s, rtol=1e-9, atol=1e-6)
    per_job = [value for name, value in found.summary().items() if "gpu_h" in name]
    assert per_job == [pytest.approx(float(hours.sum(axis=1).mean()))]
    times, held = held_over_time(found)
    assert held["a100"].max() <= 16.0
    assert held["a100"].min() >= 0.0
    assert float(np.diff(times) @ held["a100"][:-1]) / 3600 == pytest.approx(float(hours.sum()))
    kept = intervals(found.holdings)
    assert set(np.unique(kept.gpus)) <= {0.5, 1.0, 2.0}


def test_a_pair_runs_at_its_measured_speeds_and_the_survivor_at_its_own_from_that_moment(tmp_path: Path) -> None:
    workload = Workload.of(
        [
            TraceJob(id="a", submit_s=0.0, gpus=1, duration_s=1000.0),
            TraceJob(id="b", submit_s=60.0, gpus=1, duration_s=400.0),
        ]
    )
    usage = written(tmp_path, "usage.csv", USAGE + "a,big,10,5,1\nb,small,10,5,1\n")
    pairs = written(tmp_path, "pairs.csv", PAIRS + "big,small,0.9,0.8\n")
    profiler = {"nodes": 1, "t_prof_s": 60, "burst_s": 60}
    found = run_of(workload, "lucid", "4x a100:1", usage, pairs, packing="default", profiler=profiler).run()
    # Each is measured for 60 s, and its move costs 30 s. b joins a at 120 s, and has 340 s to go, at 0.8.
    b_ends_s = 120 + 30 + 340 / 0.8
    # Meanwhile a makes 0.9 of its usual progress; afterwards it is as fast as ever.
    a_ends_s = 1000 + 30 + 0.1 * (b_ends_s - 120)
    np.testing.assert_allclose(found.finished_s, [a_ends_s, b_ends_s])
    assert found.attained_gpu_s[1] == pytest.approx(60 + (b_ends_s - 120) / 2)


def test_a_saved_run_keeps_parts_of_gpus_and_a_report_shows_it(tmp_path: Path) -> None:
    workload = many(30)
    usage = written(tmp_path, "usage.csv", light(workload))
    names = ("submit_s", "gpus", "duration_s")
    jobs = [
        {"id": id} | {name: getattr(workload, name)[at].item() for name in names}
        for at, id in enumerate(workload.ids)
    ]
    trace = written(tmp_path, "t.jsonl", "\n".join(map(json.dumps, jobs)))
    out = tmp_path / "runs"
    words = ["simulate", "--trace", str(trace), "--cluster", "4x a100:2", "--events", "--usage", str(usage)]
    made = CliRunner().invoke(app, [*words, "--policy", "packed", "--policy", "las", "--out", str(out)])
    assert made.exit_code == 0, made.output
    saved = load(out / "packed").outcome
    assert shared(saved)
    direct = run_of(workload, "packed", "4x a100:2", usage).run()
    assert saved.holdings == direct.holdings
    assert not shared(load(out / "las").outcome)
    told = load(out / "packed").conditions
    assert told["speed of jobs on one GPU"] == "as a model says"
    assert "speed of jobs on one GPU" not in load(out / "las").conditions
    page = tmp_path / "report.html"
    reported = CliRunner().invoke(app, ["report", str(out), "--out", str(page)])
    assert reported.exit_code == 0, reported.output
    assert "packed" in page.read_text()


# --- pools --------------------------------------------------------------------------------------------------


def pooled() -> Workload:
    return Workload.of(
        TraceJob(id=f"j{i}", submit_s=60.0 * i, gpus=1, duration_s=600.0, virtual_cluster="xy"[i % 2])
        for i in range(12)
    )


def test_one_engine_has_all_pools_where_a_policy_crosses_them(tmp_path: Path) -> None:
    cluster = written(tmp_path, "nodes.yaml", 'pools: {x: "4x a100:2", y: "4x a100:2"}\n')
    usage = written(tmp_path, "usage.csv", light(pooled()))
    whole = run_of(pooled(), "lucid", str(cluster), usage)
    assert len(whole.engines) == 1
    assert len(run_of(pooled(), "las", str(cluster)).engines) == 2
    found = whole.run()
    assert np.isfinite(found.finished_s).all()
    assert set(found.parts or {}) == {"x", "y"}


def test_jobs_that_train_share_gpus_and_are_slower_for_it(tmp_path: Path) -> None:
    workload = Workload.of(
        TraceJob(id=f"j{i}", submit_s=30.0 * i, gpus=1, application="cifar10", batch_size=128) for i in range(8)
    )
    usage, ends_s = written(tmp_path, "usage.csv", light(workload)), dict[float, float]()
    for speed in (1.0, 0.6):
        pairs = written(tmp_path, "pairs.csv", PAIRS + f"small,small,{speed},{speed}\n")
        found = run_of(workload, "lucid", "4x a100:1", usage, pairs).run()
        ends_s[speed] = float(found.finished_s.mean())
        assert shared(found)
        assert held_over_time(found)[1]["a100"].max() <= 4.0
    assert ends_s[0.6] > 1.05 * ends_s[1.0]


def test_jobs_that_train_are_refused_where_pools_are_planned_at_once(tmp_path: Path) -> None:
    cluster = written(tmp_path, "nodes.yaml", 'pools: {x: "4x a100:2", y: "4x a100:2"}\n')
    trace = Workload.of(
        TraceJob(id=f"j{i}", submit_s=0.0, gpus=1, application="cifar10", virtual_cluster="x") for i in range(2)
    )
    with pytest.raises(ValueError, match="policy: lucid plans all pools at once, and pools are only for"):
        run_of(trace, "lucid", str(cluster))
