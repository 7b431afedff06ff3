"""What scripts rely on: exit codes, one line on stderr, one JSON document on stdout."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coadapt.benchmarks.bad_jobs import BAD_CLUSTERS
from coadapt.cli import main, show
from coadapt.cli.exit_codes import Exit, code_of
from coadapt.scheduler import emulated, jobfile
from coadapt.scheduler.client import NoClusterError, SettingsError, UnknownJobError
from coadapt.scheduler.laptop import LaptopError

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ["up", "submit", "list", "describe", "logs", "cancel", "cluster", "explain", "outputs"]
COMMANDS += ["down", "schema"]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster of the machine's user is seen."""
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
        (["logs", "job-1", "-f", "--json"], Exit.USAGE),
        (["submit", "a.yaml", "-f", "--json"], Exit.USAGE),
        (["list"], Exit.NO_CLUSTER),
        (["describe", "job-1"], Exit.NO_CLUSTER),
        (["explain", "job-1", "--json"], Exit.NO_CLUSTER),
        (["cancel", "job-1"], Exit.NO_CLUSTER),
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


def test_nothing_is_submitted_when_one_of_the_files_is_bad(tmp_path: Path, capsys) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "good.yaml").write_text("name: good\nscript: train.py\n")
    (tmp_path / "bad.yaml").write_text("name: bad\nscript: train.py\nresources: {min_gpus: 0}\n")
    assert main.run(["submit", str(tmp_path / "good.yaml"), str(tmp_path / "bad.yaml")]) == Exit.USAGE
    assert "bad.yaml: resources.min_gpus: 0 is not a number of at least 1" in capsys.readouterr().err


class Unending:
    """A client whose jobs go on until the user presses Ctrl-C."""

    def submit(self, spec: jobfile.JobSpec, **_: object) -> str:
        return f"{spec.name}-1"

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


def test_ctrl_c_anywhere_else_is_one_line(capsys, monkeypatch) -> None:
    monkeypatch.setattr(main, "_connect", Unending)
    assert main.run(["list"]) == Exit.INTERRUPTED
    assert capsys.readouterr().err == "coadapt: interrupted; submitted jobs go on\n"


def test_errors_behind_the_exit_codes() -> None:
    assert code_of(NoClusterError("x")) == code_of(LaptopError("x")) == Exit.NO_CLUSTER
    assert code_of(UnknownJobError("x")) == Exit.NOT_FOUND
    assert code_of(SettingsError("x")) == Exit.USAGE
    assert code_of(jobfile.JobFileError("job.yaml", ["x"])) == Exit.USAGE
    assert code_of(KeyboardInterrupt()) == Exit.INTERRUPTED
    assert code_of(ZeroDivisionError()) is None


@pytest.mark.parametrize("text", BAD_CLUSTERS)
def test_a_bad_cluster_description_gets_its_one_line(text: str) -> None:
    with pytest.raises(emulated.EmulationError) as error:
        emulated.parse(text)
    assert str(error.value) == BAD_CLUSTERS[text]


def test_schema_prints_the_published_schema(capsys) -> None:
    assert main.run(["schema"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == jobfile.schema()


def test_durations_read_well() -> None:
    shown = [show.duration(s) for s in (None, 0, 47.9, 60, 725, 3600 * 3 + 420, 86400 * 2 + 3600 * 4)]
    assert shown == ["-", "0s", "47s", "1m00s", "12m05s", "3h07m", "2d04h"]


def row(**fields: object) -> dict:
    base = {"id": "a-1", "name": "a", "phase": "queued", "reason": "", "gpu_type": None, "gpus": 0, "nodes": []}
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


def test_changes_are_told_a_line_each_and_emulation_is_named() -> None:
    old = row(phase="running", gpus=2, gpu_type="t4", batch_size=32, lr=0.1)
    new = row(phase="running", gpus=4, gpu_type="a100", batch_size=64, lr=0.2)
    assert show.change_lines({"a-1": old}, [new]) == [
        "a-1: 2 t4 (emulated) -> 4 a100 (emulated)",
        "a-1: batch size 32 -> 64, learning rate 0.2",
    ]
    assert show.change_lines({"a-1": new}, [new]) == []
    starts = row(gpus=4, gpu_type="a100")
    assert show.change_lines({"a-1": starts}, [new | {"batch_size": None}]) == [
        "a-1: running",
        "a-1: - -> 4 a100 (emulated)",
    ]
    ended = new | {"phase": "succeeded", "reason": "reached its target", "batch_size": 128, "finished_s": 1.0}
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
                "policy": "sia",
                "round_interval_s": 60.0,
                "rounds": 12,
                "prices": {},
                "solver_s": solver_s,
                "gap": gap,
                "notes": [],
            }
        )
    )
    assert f"policy sia, a round every 60 s, 12 so far{said}" in capsys.readouterr().out


def test_tables_name_emulated_gpus(capsys) -> None:
    show.console().print(show.jobs_table([row(phase="running", gpus=2, gpu_type="t4")]))
    assert "2 t4 (emulated)" in capsys.readouterr().out
    assert show.where(row(phase="profiling", gpus=1, gpu_type="t4")) == "1 GPU (emulated)"
