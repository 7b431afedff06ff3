"""`coadapt simulate` runs on a fresh machine with nothing but itself, and takes traces and clusters of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from coadapt.cli.main import run
from coadapt.simulator.synthetic import synthetic

PAI = "job_id,arrival_s,service_sec,gpu_count\nj1,10,100,1\nj2,20,50,2\nj3,30,10,2\n"


def test_policies_are_compared_on_jobs_that_are_made_up(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "--jobs", "12", "--rate", "60", "--cluster", "4x t4:4, 1x a100:8", "--json"]
    assert run([*arguments, "--policy", "sia", "--policy", "fifo"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"sia", "fifo"}
    assert found["sia"]["jobs"] == found["fifo"]["jobs"] == 12
    # Jobs that adapt finish sooner than the same jobs with the GPUs they ask for.
    assert found["sia"]["mean_jct_h"] < found["fifo"]["mean_jct_h"]
    assert run([*arguments, "--policy", "sia"]) == 0
    again = json.loads(capsys.readouterr().out)["sia"]
    assert again["mean_jct_h"] == found["sia"]["mean_jct_h"]


def test_a_trace_of_fixed_lengths_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(PAI)
    arguments = ["simulate", "--trace", str(trace), "--cluster", "1x any:2", "--policy", "fifo", "--events"]
    assert run([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["fifo"]
    # One GPU from 10 to 110, two from 110 to 160 and two from 160 to 170.
    assert found["makespan_h"] == pytest.approx(160 / 3600)
    assert found["mean_jct_h"] == pytest.approx((100 + 140 + 140) / 3 / 3600)
    assert run(arguments) == 0
    assert "JCT, mean (h)" in capsys.readouterr().out


def tables_and_trace(folder: Path) -> list[str]:
    """Write a trace of two jobs of a goodput table; return the options that name both."""
    tables, trace = folder / "tables", folder / "trace.csv"
    tables.mkdir()
    (tables / "vgg.csv").write_text("progress,t4:1n1g,t4:1n2g\n100,1,1.5\n400,2,3\n")
    trace.write_text("name,time,category,application\na,0,SiaJob,vgg\nb,0,SiaJob,vgg\n")
    return ["--trace", str(trace), "--profiles", str(tables)]


def test_goodput_tables_serve_policies_of_any_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", *tables_and_trace(tmp_path), "--cluster", "1x t4:2", "--json"]
    assert run([*arguments, "--policy", "las", "--round-interval", "1"]) == 0
    found = json.loads(capsys.readouterr().out)["las"]
    # Both ask for two GPUs, one after the other; each takes 90 s to start, then 100 / 1.5 + 300 / 3 s: 256.7 s.
    assert found["makespan_h"] == pytest.approx((257 + 256 + 2 / 3) / 3600)
    assert run([*arguments, "--policy", "sia"]) == 0
    found = json.loads(capsys.readouterr().out)["sia"]
    # Each starts at once on one GPU, and has it to itself.
    assert found["makespan_h"] * 3600 < 256 + 2 / 3 + 180
    assert found["jobs"] == 2


def test_a_policy_that_raises_is_one_sentence_and_its_traceback_is_shown_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["simulate", *tables_and_trace(tmp_path), "--cluster", "1x t4:2", "--policy", "pollux"]
    assert run(arguments) == 2
    told = capsys.readouterr().err.splitlines()[-1]  # kernels may have been compiled before
    assert told.startswith("coadapt: policy pollux, round at 0 s: pollux needs fitted throughput models")
    assert told.endswith("; COADAPT_DEBUG=1 shows where")
    monkeypatch.setenv("COADAPT_DEBUG", "1")
    assert run(arguments) == 2
    assert "in _blind" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--trace", "nowhere.csv"], "nowhere.csv does not exist"),
        (["--cluster", "six t4"], "--cluster: 'six t4' is not of the form"),
        (["--policy", "best"], "'best' is unknown; accepted: "),
        (["--knows", "all"], "accepted: oracle, bootstrap, profile-cache, no-profile"),
        (["--jobs", "0"], "--jobs: 0 must be at least 1"),
        (["--rate", "-1"], "--rate: -1.0 must be more than 0"),
        (["--round-interval", "0"], "--round-interval: 0.0 must be more than 0 seconds"),
        (["--round-interval", "inf"], "--round-interval: inf must be more than 0 seconds, and finite"),
        (["--seed", "-1"], "coadapt: --seed: "),
        (["--node-mtbf", "-1"], "coadapt: --node-mtbf: "),
        (["--node-mtbf", "0"], "coadapt: --node-mtbf: 0.0 must be more than 0 seconds, and finite"),
        (["--node-mtbf", "9", "--node-repair", "inf"], "coadapt: --node-repair: inf must be 0 seconds or more"),
        (["--profiling-cost", "-1"], "coadapt: --profiling-cost: -1.0 must be 0 seconds or more"),
        (["--profiles", "nowhere"], "--profiles: nowhere is no folder"),
        (["--cluster", "1x h100:8"], "was not measured on GPU type 'h100'"),
        (["--cluster", "1x t4:4@a, 1x t4:4@b"], "names no pool; the cluster has a, b"),
        (["--noise", "-0.1"], "--noise: -0.1 must be"),
        (
            ["--jobs", "40", "--policy", "fifo", "--cluster", "1x t4:4"],
            "no job runs under fifo and none is to come",
        ),
        (["--jobs", "40", "--policy", "fifo", "--cluster", "1x t4:4"], "(asks for 8 GPUs)"),
        (
            ["--trace", __file__, "--format", "xml"],
            "coadapt: --format: 'xml' is unknown; accepted: gavel, ",
        ),
    ],
)
def test_a_bad_option_is_one_sentence(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--jobs", "3", *arguments]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert told in said
    assert "Invalid value" not in said


def test_a_job_of_an_unknown_pool_is_told_which_nodes_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"id": "a", "submit_s": 0, "gpus": 1, "duration_s": 9, "virtual_cluster": "x"}')
    assert run(["simulate", "--trace", str(trace), "--cluster", "1x t4:4@lab, 1x t4:4", "--policy", "fifo"]) == 2
    told = "trace: job a is of pool 'x'; the cluster has nodes of no pool, lab"
    assert told in " ".join(capsys.readouterr().err.split())


def test_made_up_traces_follow_their_seed() -> None:
    first, again, other = synthetic(50, 20.0, 1), synthetic(50, 20.0, 1), synthetic(50, 20.0, 2)
    assert first.ids == again.ids
    assert first.submit_s.tolist() == again.submit_s.tolist()
    assert first.submit_s.tolist() != other.submit_s.tolist()
    assert set(first.gpus.tolist()) <= {1, 2, 4, 8, 16}
