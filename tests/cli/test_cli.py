"""What scripts rely on: exit codes, one line on stderr, one JSON document on stdout."""

import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, get_args, get_type_hints

import pytest
from coadapt.cli import follow, main, show
from coadapt.cli.exit_codes import Exit, code_of
from coadapt.client import answers_schema, jobfile
from coadapt.client.client import NoClusterError, UnknownJobError
from coadapt.client.cluster_record import LocalClusterError
from coadapt.core import emulated_nodes
from coadapt.core.cluster import Node
from coadapt.core.errors import JobStateError
from coadapt.core.job import JobSpec, JobState, Phase
from coadapt.core.slot import Slot
from coadapt.deploy.start_service import SettingsError
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun, Refusals
from coadapt.scheduler.views.cluster_views import node_row
from coadapt.scheduler.views.job_views import job_details
from rich.console import Console

from tests.support.bad_jobs import BAD_CLUSTERS
from tests.support.listed import Listed

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ["up", "submit", "list", "describe", "logs", "cancel", "cluster", "explain", "outputs"]
COMMANDS += ["down", "schema", "check", "pause", "resume", "requeue", "fork", "run"]
COMMANDS += ["backup", "restore", "doctor", "migrate"]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test see no cluster of the machine's user."""
    monkeypatch.setenv("COADAPT_HOME", str(tmp_path / "home"))
    for name in ("COADAPT_ADDRESS", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    heavy = "import sys; from coadapt.cli.main import run; code = run(['--help']); "
    heavy += "print(sorted({'ray', 'torch', 'numpy', 'scipy', 'pydantic'} & set(sys.modules))); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert all(f"\n  {command} " in done.stdout for command in COMMANDS)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_costs_less_than_a_third_of_a_second_of_work() -> None:
    before = os.times()
    subprocess.run([sys.executable, "-m", "coadapt.cli.main", "--help"], capture_output=True, check=True)
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 0.9


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["lits"], Exit.USAGE),
        (["list", "--jsn"], Exit.USAGE),
        (["submit"], Exit.USAGE),
        (["submit", "missing.yaml"], Exit.USAGE),
        (["submit", "a.yaml", "b.yaml", "--follow"], Exit.USAGE),
        (["up"], Exit.USAGE),
        (["up", "--emulate", "2x h100:4"], Exit.USAGE),
        (["up", "--emulate", "1x t4:1", "--policy", "siaa"], Exit.USAGE),
        (["up", "--emulate", "1x t4:1", "--policy-option", "q=1"], Exit.USAGE),
        (["up", "--emulate", "1x t4:1", "--policy-option", "p"], Exit.USAGE),
        (["up", "--emulate", "1x t4:1", "--round-interval", "0"], Exit.USAGE),
        (["up", "--emulate", "1x t4:1", "--round-interval", "soon"], Exit.USAGE),
        (["up", "--emulate", "1x t4:1", "--time-scale", "0"], Exit.USAGE),
        (["logs", "job-1", "-f", "--json"], Exit.USAGE),
        (["submit", "a.yaml", "-f", "--json"], Exit.USAGE),
        (["logs", "job-1", "--rank", "first"], Exit.USAGE),
        (["logs", "job-1", "--rank", "-1"], Exit.USAGE),
        (["submit", "missing.yaml", "--follow", "--check"], Exit.USAGE),
        (["run"], Exit.USAGE),
        (["run", "--sizes", "x", "--", "make"], Exit.USAGE),
        (["run", "--gpus", "2", "--", "make", "-j", "--json"], Exit.NO_CLUSTER),
        (["list"], Exit.NO_CLUSTER),
        (["describe", "job-1"], Exit.NO_CLUSTER),
        (["explain", "job-1", "--json"], Exit.NO_CLUSTER),
        (["cancel", "job-1"], Exit.NO_CLUSTER),
        (["pause", "job-1"], Exit.NO_CLUSTER),
        (["resume"], Exit.USAGE),
        (["resume", "a-1", "b-2", "--file", "job.yaml"], Exit.USAGE),
        (["fork", "job-1@3"], Exit.NO_CLUSTER),
        (["fork", "job-1@last"], Exit.USAGE),
        (["fork", "job-1@"], Exit.USAGE),
        (["cluster", "--json"], Exit.NO_CLUSTER),
        (["submit", str(ROOT / "examples" / "rigid" / "job.yaml")], Exit.NO_CLUSTER),
        (["down"], Exit.OK),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else value.name,
)
def test_exit_codes_and_one_line(arguments: list[str], code: Exit, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == code
    captured = capsys.readouterr()
    if code:
        assert captured.out == ""
        assert captured.err.startswith("coadapt: ")
        assert captured.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--time-scale", "--round-interval"])
def test_a_value_that_the_service_refuses_is_told_with_the_option_that_was_typed(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main.run(["up", "--emulate", "1x t4:1", option, "0"])
    assert capsys.readouterr().err == f"coadapt: {option}: 0.0 is not a number above 0\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["check", "--limit", "0.5", "train.py"], "--limit: 0.5 is not a number of at least 1"),
        (["simulate", "--seed", "-1"], "--seed: -1 is not a number of at least 0"),
        (["simulate", "--node-mtbf=-2.5"], "--node-mtbf: -2.5 is not a number of at least 0"),
        (["simulate", "--jobs", "1.5"], "--jobs: 1.5 is not a whole number"),
        (["up", "--round-interval", ""], '--round-interval: "" is not a number'),
    ],
    ids=lambda value: value[1] if isinstance(value, list) else "",
)
def test_a_number_out_of_range_is_told_with_what_was_typed_and_what_is_accepted(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == Exit.USAGE
    assert capsys.readouterr().err == f"coadapt: {told}\n"


def number_options() -> list[tuple[str, str]]:
    """Return (command, option) of every option that takes a number."""
    found = []
    for command in main.app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        for parameter, hint in get_type_hints(command.callback).items():
            if parameter != "return" and {int, float} & {hint, *get_args(hint)}:
                found.append((name, "--" + parameter.replace("_", "-")))
    return found


@pytest.mark.parametrize(("command", "option"), number_options(), ids=" ".join)
def test_every_option_that_takes_a_number_repeats_what_is_none(
    command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([command, option, "soon"]) == Exit.USAGE
    assert re.fullmatch(rf"coadapt: {option}: soon is not a (whole )?number\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["up", "--emulate", "2x h100:4"], "--emulate: GPU type 'h100' is unknown"),
        (["up", "--emulate", "1x t4:1", "--policy", "siaa"], "--policy: 'siaa' is unknown"),
        (["simulate", "--policy", "siaa"], "--policy: 'siaa' is unknown"),
        (["up", "--emulate", "1x t4:1", "--set", "colour=red"], "--set: colour: unknown setting; known: policy,"),
        (["up", "--isolation", "odd"], "--isolation: 'odd' is not one of 'none', 'user', 'namespace'\n"),
        (["user", "add", "bob", "--role", "odd"], "--role: 'odd' is not one of 'viewer', 'user', 'operator'\n"),
        (["up", "--emulate", "1x t4:1", "--policy-option", "q=1"], "--policy-option: policy sia: option 'q' is"),
        (["simulate", "--policy-option", "gap=2"], "--policy-option: policy sia: gap: 2 is not accepted"),
    ],
)
def test_a_bad_option_is_told_first(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == Exit.USAGE
    assert capsys.readouterr().err.startswith(f"coadapt: {told}")


def test_nothing_is_submitted_when_one_of_the_files_is_bad(tmp_path: Path, capsys) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "good.yaml").write_text("name: good\nscript: train.py\n")
    (tmp_path / "bad.yaml").write_text("name: bad\nscript: train.py\nresources: {min_gpus: 0}\n")
    assert main.run(["submit", str(tmp_path / "good.yaml"), str(tmp_path / "bad.yaml")]) == Exit.USAGE
    assert "bad.yaml: resources.min_gpus: 0 is not a number of at least 1" in capsys.readouterr().err


def test_submit_check_says_what_would_happen_where_no_cluster_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("import coadapt\ncoadapt.prepare()\n")
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("name: good\nscript: train.py\n")
    bad.write_text("name: bad\nscript: other.py\n")
    assert main.run(["submit", "--check", str(good)]) == Exit.OK
    assert f"{good}: would be submitted\n  door: native" in capsys.readouterr().out
    assert main.run(["submit", "--check", str(good), str(bad), "--json"]) == Exit.USAGE
    views = json.loads(capsys.readouterr().out)
    assert [(view["name"], bool(view["refused"])) for view in views] == [("good", False), (None, True)]


class Unending(Listed):
    """A client whose jobs go on until the user presses Ctrl-C."""

    def submit_all(self, specs: Sequence[jobfile.JobSpec], **_: object) -> Sequence[str]:
        return [f"{spec.name}-1" for spec in specs]

    def list(self) -> list[dict]:
        raise KeyboardInterrupt

    def logs(self, job: str, follow: bool) -> Iterator[str]:
        yield "epoch 1\n"
        raise KeyboardInterrupt


@pytest.mark.parametrize("option", ["--wait", "--follow"])
def test_ctrl_c_leaves_the_job_and_says_how_to_come_back(tmp_path: Path, capsys, monkeypatch, option: str) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text("name: long\nscript: train.py\n")
    monkeypatch.setattr(main, "_connect", Unending)
    assert main.run(["submit", str(tmp_path / "job.yaml"), "--anyway", option]) == Exit.INTERRUPTED
    assert capsys.readouterr().err.splitlines() == [
        "long-1",
        "coadapt: interrupted; long-1 goes on: see `coadapt logs -f long-1`, end it with `coadapt cancel long-1`",
    ]


class Running(Unending):
    """A client whose jobs end as they are told."""

    phase = "succeeded"
    settings = None

    def cluster(self) -> dict:
        return {"nodes": [], "asleep": []}

    def list(self) -> list[dict]:
        return [row(id="vision-1", name="vision", phase=self.phase, reason="so", finished_s=1.0)]

    def logs(self, job: str, follow: bool) -> Iterator[str]:
        yield "epoch 1\n"


@pytest.mark.parametrize(("phase", "code"), [("succeeded", Exit.OK), ("failed", Exit.JOB_FAILED)])
def test_run_follows_a_command_to_its_end(
    phase: str, code: Exit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vision").mkdir()
    monkeypatch.chdir(tmp_path / "vision")
    (tmp_path / "vision" / "train.py").write_text("print()")
    monkeypatch.setattr(Running, "phase", phase)
    monkeypatch.setattr(main, "_connect", Running)
    assert main.run(["run", "--", "python", "train.py", "--json"]) == code
    told = capsys.readouterr()
    assert told.out == "epoch 1\n"
    failed = ["coadapt: vision-1 failed: so; `coadapt describe vision-1` tells more"]
    assert told.err.splitlines() == ["vision-1", *(failed if code else [])]
    assert main.run(["run", "--detach", "--", "python", "train.py"]) == Exit.OK
    assert capsys.readouterr().out == "vision-1\n"
    assert main.run(["run", "-d", "--json", "python", "train.py"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == {"id": "vision-1"}


class Ended(Listed):
    """A client of one job that runs and one that has ended."""

    def list(self) -> list[dict]:
        return [row(id="a-1", name="a"), row(id="b-2", name="b", phase="succeeded", finished_s=1.0)]

    def cancel(self, job: str, *, now: bool) -> bool:
        return job == "a-1"

    def pause(self, job: str) -> bool:
        if job == "b-2":
            raise JobStateError("b-2 has succeeded, so there is nothing to pause")
        return True

    def requeue(self, job: str) -> bool:
        return job == "b-2"

    def fork(self, job: str, steps: int | None, file: Path | None, *, name: str | None, tell: object) -> str:
        if steps == 7:
            raise JobStateError(f"{job} has no checkpoint of step 7; it has those of 100, 200")
        return f"{name or job}@{steps}-{file}"

    def check_fork(self, job: str, steps: int | None, file: Path | None) -> dict[str, object]:
        refused = ["a-1 has no checkpoint of step 7; it has those of 100, 200"] if steps == 7 else []
        known = {"job": str(file or job), "name": "a", "door": "native", "cluster": True, "sizes": {"t4": [1, 2]}}
        return {**known, "refused": refused, "notes": ["it starts from the checkpoint of step 200"]}


def test_cancel_says_of_each_job_whether_it_ended_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "_connect", Ended)
    assert main.run(["cancel", "a", "b-2"]) == Exit.OK
    saves = "a-1 is told to save and end; `coadapt cancel --now a-1` does not wait for that"
    assert capsys.readouterr().out == f"{saves}\nb-2 had ended before\n"
    assert main.run(["cancel", "a", "b-2", "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == [
        {"id": "a-1", "cancelled": True, "saving": True},
        {"id": "b-2", "cancelled": False, "saving": False},
    ]


def test_a_verb_that_one_job_refuses_is_done_to_the_others_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "_connect", Ended)
    assert main.run(["pause", "b-2", "a"]) == Exit.USAGE
    told = capsys.readouterr()
    assert (told.out, told.err) == ("a-1 paused\n", "coadapt: b-2 has succeeded, so there is nothing to pause\n")
    assert main.run(["pause", "b-2", "a", "--json"]) == Exit.USAGE
    assert json.loads(capsys.readouterr().out) == [
        {"id": "b-2", "paused": False, "refused": "b-2 has succeeded, so there is nothing to pause"},
        {"id": "a-1", "paused": True},
    ]
    assert main.run(["requeue", "a", "b"]) == Exit.OK
    assert capsys.readouterr().out == "a-1 waits already\nb-2 requeued\n"


def test_a_fork_names_a_job_and_a_step_and_may_bring_another_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "_connect", Ended)
    assert main.run(["fork", "a"]) == Exit.OK
    assert main.run(["fork", "b@100", "other.yaml", "--name", "c"]) == Exit.OK
    assert main.run(["fork", "b@100", "--file", "other.yaml"]) == Exit.OK
    assert capsys.readouterr().out == "a-1@None-None\nc@100-other.yaml\nb-2@100-other.yaml\n"
    assert main.run(["fork", "b", "one.yaml", "--file", "other.yaml"]) == Exit.USAGE
    assert capsys.readouterr().err == "coadapt: --file: one.yaml is given, too; a fork takes one job file\n"
    assert main.run(["fork", "a@100", "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == {"id": "a-1@100-None"}
    assert main.run(["fork", "a@7"]) == Exit.USAGE
    assert capsys.readouterr().err == "coadapt: a-1 has no checkpoint of step 7; it has those of 100, 200\n"
    assert main.run(["fork", "a@last"]) == Exit.USAGE
    told = "coadapt: JOB@STEP: last is not the number of a step, such as a@300\n"
    assert capsys.readouterr().err == told


def test_a_check_of_a_fork_submits_nothing_and_says_what_would_happen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "_connect", Ended)
    assert main.run(["fork", "a", "other.yaml", "--check"]) == Exit.OK
    assert capsys.readouterr().out.splitlines() == [
        "other.yaml: would be submitted",
        "  door: native; for a script that calls coadapt.prepare",
        "  t4: 1 or 2 GPUs",
        "  note: it starts from the checkpoint of step 200",
    ]
    assert main.run(["fork", "a@7", "--check", "--json"]) == Exit.USAGE
    assert json.loads(capsys.readouterr().out)["refused"]


def test_an_unknown_job_is_told_with_the_command_that_shows_every_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "_connect", Ended)
    assert main.run(["cancel", "unheard-of"]) == Exit.NOT_FOUND
    assert capsys.readouterr().err == "coadapt: no job unheard-of; `coadapt list --all` shows every job\n"


def test_ctrl_c_anywhere_else_is_one_line(capsys, monkeypatch) -> None:
    monkeypatch.setattr(main, "_connect", Unending)
    assert main.run(["list"]) == Exit.INTERRUPTED
    assert capsys.readouterr().err == "coadapt: interrupted; submitted jobs go on\n"


def test_errors_behind_the_exit_codes() -> None:
    assert code_of(NoClusterError("x")) == code_of(LocalClusterError("x")) == Exit.NO_CLUSTER
    assert code_of(UnknownJobError("x")) == Exit.NOT_FOUND
    assert code_of(SettingsError("x")) == Exit.USAGE
    assert code_of(jobfile.JobFileError("job.yaml", ["x"])) == Exit.USAGE
    assert code_of(KeyboardInterrupt()) == Exit.INTERRUPTED
    assert code_of(ZeroDivisionError()) is None


@pytest.mark.parametrize("text", BAD_CLUSTERS)
def test_a_bad_cluster_description_gets_its_one_line(text: str) -> None:
    with pytest.raises(emulated_nodes.EmulationError) as error:
        emulated_nodes.parse(text)
    assert str(error.value) == BAD_CLUSTERS[text]


def test_schema_prints_the_published_schema(capsys) -> None:
    assert main.run(["schema"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == jobfile.schema()
    assert main.run(["schema", "--answers"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == answers_schema.schema()


def test_durations_read_well() -> None:
    shown = [show.duration(s) for s in (None, 0, 47.9, 60, 725, 3600 * 3 + 420, 86400 * 2 + 3600 * 4)]
    assert shown == ["-", "0s", "47s", "1m00s", "12m05s", "3h07m", "2d04h"]


def row(**fields: object) -> dict:
    status = {"profiling": "measuring", "queued": "waiting"}
    phase = str(fields.get("phase", "queued"))
    base = {"id": "a-1", "name": "a", "phase": phase, "status": status.get(phase, phase), "reason": ""}
    base |= {"wait_reason": None}
    base |= {"gpu_type": None, "gpus": 0, "nodes": [], "ends_s": None, "has_target": False}
    base |= {
        "emulated": True,
        "batch_size": None,
        "local_bsz": None,
        "accumulation": None,
        "lr": None,
        "gain": None,
    }
    base |= {"epoch": None, "epochs": None, "fraction": 0.0, "steps": 0, "metrics": {}, "submitted_s": time.time()}
    return base | {"started_s": None, "finished_s": None, "restarts": 0} | fields


def test_metrics_stand_beside_where_in_the_training_they_were_measured() -> None:
    found = row(metrics={"loss": 0.5, "accuracy": 0.9, "old": 1.0, "none": 2.0})
    found["measured_at"] = {
        "loss": {"epoch": 3, "samples": 1920},
        "accuracy": {"epoch": 3, "samples": 1920},
        "old": {"epoch": 1, "samples": 640},
    }
    assert show.metrics_with_places(found) == (
        "loss=0.5 accuracy=0.9 (epoch 3, 1920 samples), old=1 (epoch 1, 640 samples), none=2"
    )
    assert show.metrics_with_places(row()) == "-"


def test_use_of_gpus_is_told_by_gpu_type_as_far_as_it_is_known() -> None:
    known = {"gpu_util": 0.834, "memory_util": 0.12, "memory_gib": 10.46}
    unknown = {"gpu_util": None, "memory_util": None, "memory_gib": None}
    lately = known | {"gpu_util": 0.79}
    used = {
        "a100": {"mean": known, "recent": lately, "gpu_s": 4200.0, "idle_gpu_minutes": 0.0, "emulated": False},
        "t4": {"mean": unknown, "recent": unknown, "gpu_s": 60.0, "idle_gpu_minutes": 0.0, "emulated": True},
    }
    assert show.usage_rows(row(usage=used, idle_gpu_minutes=12.4)) == [
        ("GPU use", "a100: 83% busy, 79% recently; memory 12% busy, 10.5 GiB; over 1h10m of one GPU"),
        ("GPU use", "t4 (emulated): unknown busy, unknown recently; over 1m00s of one GPU"),
        ("idle GPUs", "12 GPU-minutes used less than 5 %"),
    ]
    assert show.usage_rows(row(usage={}, idle_gpu_minutes=None)) == []
    assert show.usage_rows(row()) == []


def test_changes_are_told_a_line_each_and_emulation_is_named() -> None:
    old = row(phase="running", gpus=2, gpu_type="t4", batch_size=32, lr=0.1)
    new = row(phase="running", gpus=4, gpu_type="a100", batch_size=64, lr=0.2)
    assert show.change_lines({"a-1": old}, [new]) == [
        "a-1: 2 t4 (emulated) -> 4 a100 (emulated)",
        "a-1: batch size 32 -> 64, learning rate 0.2",
    ]
    assert show.change_lines({"a-1": new}, [new]) == []
    starts = row(gpus=4, gpu_type="a100", status="starting")
    assert show.change_lines({"a-1": starts}, [new | {"batch_size": None}]) == [
        "a-1: running",
        "a-1: 4 a100 (emulated)",
    ]
    ended = new | {
        "phase": "succeeded",
        "status": "succeeded",
        "reason": "reached its target",
        "batch_size": 128,
        "finished_s": 1.0,
    }
    assert show.change_lines({"a-1": new}, [ended]) == [
        "a-1: batch size 64 -> 128, learning rate 0.2",
        "a-1: succeeded (reached its target)",
    ]


@pytest.mark.parametrize(
    ("solver_s", "gap", "said"),
    [
        (0.0032, 7.34e-5, ", the last one was solved in 3.2 ms; its plan is proven within 0.0073 % of the best\n"),
        (0.0032, 0.0, ", the last one was solved in 3.2 ms; its plan is proven the best\n"),
        (0.0032, None, ", the last one was solved in 3.2 ms\n"),
        (0.0, None, "\n"),
        (None, None, "\n"),
    ],
)
def test_the_last_round_is_told_with_what_its_plan_is_proven_to_be(
    solver_s: float | None, gap: float | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show.console().print(
        show.cluster_table(
            {
                "nodes": [],
                "asleep": [],
                "saved_kwh": None,
                "policy": "sia",
                "round_interval_s": 60.0,
                "rounds": 12,
                "phases": {
                    "plan": {"last_s": 0.1252, "median_s": 0.1, "most_s": 0.2, "rounds": 12},
                    "apply": {"last_s": 0.00412, "median_s": 0.1, "most_s": 0.2, "rounds": 12},
                },
                "prices": {},
                "solver_s": solver_s,
                "gap": gap,
                "notes": [],
                "events": [{"time_s": 0.0, "kind": "error", "text": "the policy did not plan round 3: no"}],
            }
        )
    )
    out = capsys.readouterr().out
    took = "the last round took 129 ms: plan 125, apply 4.1\n"
    assert f"policy sia, a round every 60 s, 12 so far{said}{took}" in out
    assert re.search(r"latest events\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  the policy did not plan round 3: no\n", out)


def test_a_node_is_shown_with_who_is_on_which_of_its_gpus_and_with_what_is_free() -> None:
    node = Node("0123456789abcdef", "a100", 6, cpus=12.0)
    slots = [
        ("a-1", Slot(node.id, "l", (0, 1), "a100", cpus=2.0)),
        ("a-1", Slot(node.id, "l", (4,), "a100", cpus=1.0)),
        ("b-2", Slot(node.id, "l", (3,), "a100", cpus=0.5, share=0.5)),
        ("c-3", Slot(node.id, "l", (3,), "a100", cpus=0.5, share=0.25)),
    ]
    found = node_row(node, slots)
    assert (found["free_gpus"], found["free_cpus"], found["free_memory_gib"]) == (2, 8.0, None)
    assert found["jobs"] == {"a-1": 3, "b-2": 1, "c-3": 1}
    assert found["devices"][3] == {"index": 3, "free": 0.25, "tenants": {"b-2": 0.5, "c-3": 0.25}}
    assert show.tenants(found) == "a-1 (0-1, 4), b-2 (0.5 of 3), c-3 (0.25 of 3)"
    assert show.tenants(node_row(node, [])) == ""
    kept = node_row(node, slots, cores={"a-1": ("0-2", "0-11"), "b-2": ("4", "0-11")})
    assert (kept["cores"], kept["free_cores"]) == ({"a-1": "0-2", "b-2": "4"}, "3,5-11")
    assert show.tenants(kept) == "a-1 (0-1, 4, cores 0-2), b-2 (0.5 of 3, cores 4), c-3 (0.25 of 3)"
    assert (show.free_cpus(kept), show.free_cpus(found)) == ("8/12 (cores 3,5-11)", "8/12")


def test_a_job_is_described_with_its_gpus_on_each_node() -> None:
    held = (Slot("n1", "l", (1,), "t4"), Slot("n0", "l", (0,), "t4"), Slot("n0", "l", (3,), "t4"))
    run = ProfileRun("t4", Slot("n0", "l", (2,), "t4"), started_s=1.0)
    spec = JobSpec(name="a", script="train.py")
    job = JobRecord("a-1", 1, spec, JobState(Phase.RUNNING), target=held, held=held, profiles=(run,))
    details = job_details(job, [])
    assert details["devices"] == {"n0": [0, 2, 3], "n1": [1]}
    with (console := Console(width=200)).capture() as shown:
        console.print(show.details(details))
    assert "3 t4 on n0 (0, 2-3), n1 (1)" in shown.get()


def test_a_job_is_described_with_what_its_program_said_and_was_not_taken() -> None:
    spec, last = JobSpec(name="a", command=["make"]), "status: it is of job b-2, and this is a-1; it was left out"
    with (console := Console(width=200)).capture() as shown:
        for count in (12, 1, 0):
            job = JobRecord("a-1", 1, spec, JobState(Phase.RUNNING), refusals=Refusals(count, last))
            console.print(show.details(job_details(job, [])))
    told = [line.split(maxsplit=2)[2].rstrip() for line in shown.get().splitlines() if "not taken" in line]
    assert told == [
        "12 statuses of its progress; the last one: it is of job b-2, and this is a-1",
        "1 status of its progress; it is of job b-2, and this is a-1",
    ]


def test_progress_is_told_at_every_tenth() -> None:
    old = row(phase="running", fraction=0.18, epochs=20, epoch=3)
    new = row(phase="running", fraction=0.21, epochs=20, epoch=4, metrics={"loss": 0.5}, has_target=True)
    assert show.change_lines({"a-1": old}, [new]) == ["a-1: 21% 4/20, loss=0.5"]
    known = new | {"ends_s": time.time() + 725.5}
    assert show.change_lines({"a-1": old}, [known]) == ["a-1: 21% 4/20, loss=0.5, ends in <12m05s"]
    assert show.change_lines({"a-1": new}, [new | {"fraction": 0.29}]) == []


@pytest.mark.parametrize(
    ("ends_s", "has_target", "shown"),
    [(None, False, "-"), (1000.0 + 725, False, "12m05s"), (1000.0 + 725, True, "<12m05s"), (999.0, False, "-")],
)
def test_the_time_to_the_end_is_shown_where_it_is_known(
    ends_s: float | None, has_target: bool, shown: str
) -> None:
    assert show.left(row(ends_s=ends_s, has_target=has_target), 1000.0) == shown


def listed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main.run(["list", *options]) == Exit.OK
    return capsys.readouterr().out


def test_list_leaves_out_what_ended_long_ago_and_says_how_to_see_it(capsys, monkeypatch) -> None:
    now = time.time()
    old = row(id="old-1", phase="succeeded", finished_s=now - 90_000, submitted_s=now - 99_000)
    many = [row(id=f"done-{i}", phase="failed", finished_s=now - 1000 + i) for i in range(30)]
    active = row(id="runs-40", phase="running", gpus=1, gpu_type="t4")

    class Client(Listed):
        def list(self) -> list[dict]:
            return [old, *many, active]

    monkeypatch.setattr(main, "_connect", Client)
    table = listed(capsys)
    assert [name in table for name in ("old-1", "done-9 ", "done-10 ", "done-29 ", "runs-40")] == [
        False, False, True, True, True,
    ]  # fmt: skip
    assert "more jobs that ended earlier: `coadapt list --all`" in table
    assert "old-1" in listed(capsys, "--all")
    assert len(json.loads(listed(capsys, "--json"))) == 32
    assert "done-29" not in listed(capsys, "--active")


def test_list_shows_as_many_jobs_as_a_person_reads(capsys, monkeypatch) -> None:
    class Client(Listed):
        def list(self) -> list[dict]:
            waiting = [row(id=f"waits-{i}", phase="queued", submitted_s=float(i)) for i in range(60)]
            return [row(id="runs-0", phase="running", gpus=1, gpu_type="t4", submitted_s=0.0), *waiting]

    monkeypatch.setattr(main, "_connect", Client)
    table = listed(capsys)
    assert [name in table for name in ("runs-0", "waits-9 ", "waits-10 ", "waits-59 ")] == [
        True,
        False,
        True,
        True,
    ]
    assert "more jobs that wait: `coadapt list --all`" in table
    assert "waits-9 " in listed(capsys, "--all", "--active")


class Logs(Listed):
    """A client with the output of one job, and what of it was asked for."""

    sources: tuple[str, ...] = ("profile-t4", "rank-0")
    asked: ClassVar[list[tuple[object, bool]]] = []
    begun: ClassVar[list[tuple[int | None, float | None]]] = []

    def list(self) -> list[dict]:
        return [row()]

    def logs(
        self,
        job: str,
        follow: bool,
        rank: object,
        measuring: bool,
        tail: int | None,
        since_s: float | None,
    ) -> Iterator[str]:
        self.asked.append((rank, measuring))
        self.begun.append((tail, since_s))
        yield from ["epoch 1\n"] if rank == 0 and "rank-0" in self.sources else []

    def log_sources(self, job: str) -> tuple[str, ...]:
        return self.sources

    def describe(self, job: str) -> dict[str, object]:
        return row() | {"phase": "failed", "reason": "ValueError: no"}


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ([], (0, False)),
        (["--rank", "3"], (3, False)),
        (["--rank", "all"], ("all", False)),
        (["--measuring"], (0, True)),
    ],
)
def test_logs_shows_rank_0_and_others_where_asked(arguments: list[str], asked: tuple, monkeypatch) -> None:
    monkeypatch.setattr(main, "_connect", Logs)
    assert main.run(["logs", "a-1", *arguments]) == Exit.OK
    assert Logs.asked[-1] == asked


@pytest.mark.parametrize(
    ("sources", "rank", "told"),
    [
        ((), "0", "a-1 has written nothing"),
        (
            ("profile-t4",),
            "0",
            "a-1 has written nothing but while it was measured: `coadapt logs a-1 --measuring`",
        ),
        (("rank-0",), "all", "a-1: nothing was written by any rank; there is output of rank-0"),
        (("rank-0", "rank-1"), "7", "a-1: nothing was written by rank 7; there is output of rank-0, rank-1"),
    ],
)
def test_where_there_is_no_output_it_is_said_where_there_is(
    sources: tuple[str, ...], rank: str, told: str, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(main, "_connect", Logs)
    monkeypatch.setattr(Logs, "sources", sources)
    assert main.run(["logs", "a-1", "--rank", rank]) == Exit.OK
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"coadapt: {told}\n")


def test_whoever_waits_in_a_terminal_sees_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(force_terminal=True, width=200, file=io.StringIO(), color_system=None)
    monkeypatch.setattr(show, "console", lambda: screen)
    rows = [row(phase="running", fraction=0.5), row(phase="succeeded", fraction=1.0, finished_s=time.time())]

    class Client(Listed):
        def list(self) -> list[dict]:
            return [rows.pop(0)]

    (ended,) = follow.wait(Client(), ["a-1"], every_s=0.0)  # type: ignore[arg-type]
    assert ended["phase"] == "succeeded"
    drawn = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "━━━━━━━━━━" in drawn
    assert "50%" in drawn


def test_whoever_waits_elsewhere_reads_a_line_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(), row(phase="running"), row(phase="running"), row(phase="succeeded", finished_s=time.time())]

    class Client(Listed):
        def list(self) -> list[dict]:
            return [rows.pop(0)]

    follow.wait(Client(), ["a-1"], every_s=0.0)  # type: ignore[arg-type]
    assert capsys.readouterr().out == "a-1: waiting\na-1: running\na-1: succeeded\n"


def test_a_job_that_is_removed_while_it_is_waited_for_is_no_success(capsys, monkeypatch) -> None:
    class Client(Unending):
        looks: ClassVar[list[list[dict]]] = [[row(id="a-1"), row(id="b-2")], [row(id="b-2", phase="succeeded")]]

        def list(self) -> list[dict]:
            return self.looks.pop(0)

    monkeypatch.setattr(follow.time, "sleep", lambda _: None)
    with pytest.raises(UnknownJobError, match=r"^'?no job a-1; it was removed, and nothing tells how it ended"):
        follow.wait(Client(), ["a-1", "b-2"], quiet=True, every_s=0.0)


def test_a_table_says_under_it_why_jobs_wait(capsys) -> None:
    waiting = [row(id=f"a-{n}", wait_reason="outbid") for n in range(1, 7)]
    other = row(id="b-7", wait_reason="no_gpu_type", reason="waiting for GPU type a100; the cluster has t4")
    soon = [row(id="c-8", wait_reason="next_round"), row(id="c-9", phase="running", gpus=1, gpu_type="t4")]
    show.console().print(show.jobs_table([*waiting, other, *soon]))
    *_, blank, outbid, no_type = capsys.readouterr().out.splitlines()
    assert blank == ""
    assert outbid == "a-1, a-2, a-3, a-4 and 2 more: other jobs make more of the GPUs that it could use"
    assert no_type == "b-7: waiting for GPU type a100; the cluster has t4"


def test_a_table_names_each_column_once(capsys) -> None:
    show.console().print(show.jobs_table([row(metrics={"loss": 0.5})]))
    head = capsys.readouterr().out.splitlines()[0].split()
    assert head == ["JOB", "STATUS", "GPUS", "BATCH", "LR", "PROGRESS", "ETA", "METRICS", "AGE", "PAUSES"]


def test_tables_name_emulated_gpus(capsys) -> None:
    show.console().print(show.jobs_table([row(phase="running", gpus=2, gpu_type="t4")]))
    assert "2 t4 (emulated)" in capsys.readouterr().out
    assert show.where(row(phase="profiling", gpus=1, gpu_type="t4")) == "1 t4 (emulated)"
    assert show.where(row(phase="profiling", gpus=2, gpu_type=None)) == "2 GPUs (emulated)"
    shared = row(phase="running", gpus=1, gpu_type="t4", share=0.5, beside=["rigid-3"])
    assert show.where(shared) == "0.5 x t4 with rigid-3 (emulated)"
    assert show.where(shared | {"gpus": 2, "beside": []}) == "0.5 of 2 t4 (emulated)"
    assert show.where(shared | {"share": 1.0, "borrows": True}) == "1 t4 (borrowed, emulated)"


def test_a_batch_is_told_with_its_passes_also_when_its_job_has_ended() -> None:
    batch = {"batch_size": 64, "local_bsz": 16, "accumulation": 1}
    assert show._batch(row(gpus=2, **batch)) == "64 (16 per replica and pass, 2 passes a step)"
    assert show._batch(row(gpus=0, **batch)) == "64 (16 per replica and pass, 2 passes a step)"
    assert show._batch(row(gpus=1, **batch)) == "64 (16 per replica and pass, 4 passes a step)"
    assert show._batch(row()) == "-"


@pytest.mark.parametrize(
    ("spec", "rows"),
    [
        ({"script": "t.py", "args": ["--lr", "1"]}, [("script", "t.py --lr 1")]),
        (
            {"command": ["bash", "-c", "echo $X"], "elastic": False},
            [("command", "bash -c 'echo $X'"), ("door", "plain, at a fixed size")],
        ),
        (
            {"script": "t.py", "sizes": {"a100": [1, 2], "t4": [4]}},
            [("script", "t.py"), ("door", "restarting, at sizes a100 1, 2; t4 4")],
        ),
    ],
)
def test_describe_tells_what_a_job_runs_and_by_which_door_it_came(spec: dict, rows: list) -> None:
    assert show._program(spec, emulated=False) == rows
    assert show._program(spec, emulated=True)[0] == rows[0]
    *_, last = show._program(spec, emulated=True)
    assert ("this machine's speed" in last[1]) == (len(rows) == 2)


@pytest.mark.parametrize(
    ("arguments", "begun"),
    [
        (["--tail", "20"], (20, None)),
        (["--since", "90s"], (None, 90.0)),
        (["--since", "1.5h", "--tail", "0"], (0, 5400.0)),
        (["--since", "2d"], (None, 172800.0)),
    ],
)
def test_logs_may_begin_with_the_newest_lines(arguments: list[str], begun: tuple, monkeypatch) -> None:
    monkeypatch.setattr(main, "_connect", Logs)
    assert main.run(["logs", "a-1", *arguments]) == Exit.OK
    assert Logs.begun[-1] == begun


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tail", "-5"], "--tail: -5 is no number of lines; it must be 0 or more"),
        (["--since", "soon"], "--since: soon is no span of time; it is a number and s, m, h or d, as in 10m"),
        (["--since", "-10m"], "--since: -10m is no span of time; it is a number and s, m, h or d, as in 10m"),
        (["--rank", "-1"], "--rank: -1 is neither a rank, 0 or more, nor all"),
    ],
)
def test_what_logs_cannot_begin_with_is_one_sentence(arguments: list[str], told: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(main, "_connect", Logs)
    assert main.run(["logs", "a-1", *arguments]) == Exit.USAGE
    assert capsys.readouterr().err == f"coadapt: {told}\n"


def test_a_followed_job_that_ends_says_how_and_one_that_was_quiet_says_so(monkeypatch, capsys) -> None:
    monkeypatch.setattr(main, "_connect", Logs)
    assert main.run(["logs", "a-1", "-f"]) == Exit.OK
    captured = capsys.readouterr()
    assert captured.out == "epoch 1\n"
    assert captured.err == "coadapt: a-1 has ended (failed: ValueError: no)\n"
    monkeypatch.setattr(Logs, "sources", ("rank-1",))
    assert main.run(["logs", "a-1", "--rank", "1", "--since", "10m"]) == Exit.OK
    assert "a-1: rank 1 has written nothing in the last 10m" in capsys.readouterr().err
