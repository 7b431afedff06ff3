"""`coadapt check`: what a script does as a job is known in seconds, before it is submitted."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.protocol.messages import Ready
from coadapt.executor.rehearsal import check
from coadapt.executor.rehearsal.check import Subject, Verdict, place_of, said, trials
from coadapt.executor.rehearsal.rehearsed import Notes, differing

from tests.support.warm_group import WarmGroup

HEAD = """
import os, sys, time
import coadapt, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(128, 4)
model = nn.Linear(4, 1)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
PREPARE = "model, optimizer, loader = coadapt.prepare(model, optimizer, loader)\n"
LOOP = """
for epoch in coadapt.epochs(50):
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
"""


def ready(batch: int = 16, least: int = 1) -> Ready:
    return Ready("f", batch, 10, 100, "SGD", False, least_local_bsz=least)


def words(subject: Subject, told: Ready) -> list[str]:
    return [trial.words for trial in trials(subject, told)[0]]


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes that are checked, but for those of a command that runs by itself."""
    monkeypatch.setattr(check, "TrainingGroup", WarmGroup)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    return folder / "train.py"


def answer(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main.run(["check", *map(str, arguments)])
    return code, capfd.readouterr().out


# --- what is tried and said (pure) ------------------------------------------------------------------------


def test_what_the_job_may_be_asked_for_is_tried() -> None:
    here = Path(".")
    assert words(Subject(here, "t.py"), ready()) == ["one replica", "two replicas", "two replicas in two passes"]
    assert words(Subject(here, "t.py", most=1), ready()) == ["one replica", "one replica in two passes"]
    assert words(Subject(here, "t.py", fewest=4, most=4), ready())[0] == "two replicas"
    larger = Subject(here, "t.py", training=TrainingConfig(max_batch_size=64))
    assert words(larger, ready())[-1] == "batches of 32"
    single = Subject(here, "t.py", training=TrainingConfig(gradient_accumulation=False))
    assert words(single, ready()) == ["one replica", "two replicas"]


def test_a_batch_that_is_too_small_for_passes_is_told() -> None:
    found, notes = trials(Subject(Path("."), "t.py"), ready(batch=16, least=16))
    assert [trial.words for trial in found] == ["one replica", "two replicas"]
    assert any("too small for two passes" in note for note in notes)


def test_an_error_is_placed_at_the_innermost_line_of_the_users_own_files(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    trace = f'File "{tmp_path}/train.py", line 9, in main\nFile "{tmp_path}/model/net.py", line 4, in forward\n'
    trace += 'File "/usr/lib/torch/nn.py", line 99, in linear\nRuntimeError: no'
    assert place_of(trace, tmp_path) == "model/net.py, line 4"
    assert place_of("train.py never called coadapt.prepare", tmp_path) == ""


def test_a_verdict_is_one_sentence() -> None:
    works = Verdict("", ("one replica", "two replicas"), 5, ("a mean over samples",))
    assert said(works, "t.py") == (
        "t.py works as a job: 5 steps with one replica and two replicas; its loss is a mean over samples"
    )
    assert said(Verdict("it does not"), "t.py") == "t.py does not work as an elastic job: it does not"


def test_replicas_are_compared_step_by_step() -> None:
    first = Notes(names=["a", "b"], samples={"2/3": [1, 2], "2/10": [3, 4]})
    second = Notes(names=["a", "b"], samples={"2/3": [1, 2], "2/10": [3, 5], "2/11": [0, 0]})
    assert differing(first, second, lambda one, other: one == other) == ("2/10", "b")
    assert differing(first, first, lambda one, other: one == other) is None


# --- what is seen without running ---------------------------------------------------------------------------


def test_a_script_that_never_calls_prepare_is_not_run(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script.write_text("import time\ntime.sleep(1000)\n")
    code, told = answer(capfd, script)
    assert code == Exit.JOB_FAILED
    first, *doors = told.splitlines()
    assert first.startswith("train.py does not work as an elastic job: train.py never imports coadapt; ")
    assert doors == [
        "  it runs unchanged at a fixed size by `elastic: false` in a job file, or by "
        "`coadapt run -- python train.py`",
        "  if it saves on SIGTERM and goes on from there, `sizes: [1, 2, 4]` changes its size, too",
        "  docs/guide/doors.md tells which of these doors is yours",
    ]


def test_a_script_that_turns_out_never_to_call_prepare_is_told_the_other_doors(
    script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script.write_text("import importlib\nimportlib.import_module('json')\n")
    code, told = answer(capfd, script)
    assert code == Exit.JOB_FAILED
    assert "train.py never called coadapt.prepare" in told
    assert told.endswith("docs/guide/doors.md tells which of these doors is yours\n")


def test_a_script_that_does_not_compile_is_told(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script.write_text("import coadapt\ncoadapt.prepare(\n")
    code, told = answer(capfd, script)
    assert code == Exit.JOB_FAILED
    assert "train.py is not valid Python, line 2" in told


def test_a_decision_that_replicas_do_not_share_is_told(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its replicas would part epochs later, where a check does not come."""
    stop = "        last = loss.item()\n    if last < 1e-9:\n        break\n"
    script.write_text(HEAD + PREPARE + LOOP + stop)
    _, told = answer(capfd, "--json", script)
    line = script.read_text().splitlines().index("    if last < 1e-9:") + 1
    (note,) = [note for note in json.loads(told)["notes"] if "ends training by" in note]
    assert note.startswith(f'line {line} ends training by "last"')


def test_wrong_use_is_one_line(script: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script.write_text(HEAD + PREPARE + LOOP)
    job = tmp_path / "mine" / "job.yaml"
    job.write_text("name: mine\nscript: train.py\nbatch: 3\n")
    assert main.run(["check", str(tmp_path / "nothing.yaml")]) == Exit.USAGE
    assert main.run(["check", str(job)]) == Exit.USAGE
    assert main.run(["check", str(job), "--epochs", "3"]) == Exit.USAGE
    assert len(capfd.readouterr().err.splitlines()) == 3


# --- real processes -----------------------------------------------------------------------------------------


def test_a_script_that_works_is_said_to_and_leaves_nothing(
    script: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It has its own arguments, a job's settings, and a folder that is not the user's."""
    writes = "open('beside.txt', 'w').write('x')\nopen(coadapt.output_dir() / 'best.pt', 'w').write('x')\n"
    script.write_text(HEAD + "assert sys.argv[1:] == ['--lr', '0.1']\n" + writes + PREPARE + LOOP)
    job = script.with_name("job.yaml")
    job.write_text("name: mine\nscript: train.py\nargs: [--lr, 0.1]\ntraining: {max_batch_size: 64}\n")
    code, told = answer(capfd, "--json", job)
    found = json.loads(told)
    assert code == Exit.OK
    assert found["works"] is True
    assert found["problem"] == ""
    assert found["losses"] == ["a mean over samples"]
    assert found["tried"] == ["one replica", "two replicas", "two replicas in two passes", "batches of 32"]
    assert found["steps"] >= 8
    assert not any("ends training by" in note for note in found["notes"])
    assert sorted(path.name for path in script.parent.iterdir()) == ["job.yaml", "train.py"]


def test_a_script_of_two_steps_is_tried_in_every_way_too(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script.write_text(
        HEAD + PREPARE + LOOP.replace("epochs(50)", "epochs(1)").replace("in loader", "in list(loader)")
    )
    script.write_text(
        script.read_text().replace("randn(128, 4)", "randn(32, 4)").replace("list(loader)", "loader")
    )
    code, told = answer(capfd, script)
    assert code == Exit.OK
    assert "with one replica, two replicas and two replicas in two passes" in told


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            "optimizer = torch.optim.LBFGS(model.parameters())\n" + PREPARE,
            "ValueError: prepare: LBFGS evaluates the loss several times",
        ),
        (
            PREPARE
            + LOOP.replace("loss.backward()", "if coadapt.world_size() > 1: raise RuntimeError('my bug:\\nx')"),
            "with two replicas: RuntimeError: my bug: (train.py, line",
        ),
        (
            PREPARE + LOOP + "        model.weight.data += 0.1 * a.mean()\n",
            "Linear.weight is not the same on",
        ),
        (
            PREPARE + "for epoch in coadapt.epochs(50):\n    while True: time.sleep(0.1)\n",
            "with one replica: no step by the loader that prepare returned in the 5 s of this check",
        ),
        (
            PREPARE + LOOP.replace("in loader", "in [(x, x.sum(1, keepdim=True))]").replace("50", "10**6"),
            "with one replica: no step by the loader that prepare returned in the 5 s of this check",
        ),
        (
            "import argparse\nargparse.ArgumentParser().parse_args(['--bad'])\n" + PREPARE + LOOP,
            "train.py exited with status 2: train.py: error: unrecognized arguments: --bad",
        ),
    ],
    ids=["refused", "crashes", "replicas part", "stands still", "data of its own", "wrong arguments"],
)
def test_what_will_not_work_is_one_sentence(
    script: Path, capfd: pytest.CaptureFixture[str], lines: str, sentence: str
) -> None:
    script.write_text(HEAD + lines)
    code, told = answer(capfd, *(["--limit", 5] if "the 5 s" in sentence else []), script)
    assert code == Exit.JOB_FAILED
    assert told.startswith("train.py does not work as an elastic job: ")
    assert sentence in told.splitlines()[0]
    assert "each of its batches takes one pass" not in told


def test_a_job_that_cannot_grow_is_told(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What the second process builds has another shape than the first one's."""
    other = """
try:
    open("first", "x")
except FileExistsError:
    model = nn.Linear(4, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
    script.write_text(HEAD + other + PREPARE + LOOP)
    code, told = answer(capfd, script)
    assert code == Exit.JOB_FAILED
    assert "with two replicas: the job cannot grow: " in told


def test_ctrl_c_ends_it_and_all_its_processes(script: Path, tmp_path: Path) -> None:
    script.write_text(
        HEAD + f"open({str(tmp_path)!r} + f'/{{os.getpid()}}.pid', 'w').close()\ntime.sleep(1000)\n" + PREPARE
    )
    command = [sys.executable, "-m", "coadapt.cli.main", "check", str(script)]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    # What runs in the background of a shell ignores Ctrl-C, and so does all it starts: these tests may, too.
    minds = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env, **minds) as checking:
        while len(pids := list(tmp_path.glob("*.pid"))) < 2:
            assert checking.poll() is None
            time.sleep(0.05)
        checking.send_signal(signal.SIGINT)
        _, told = checking.communicate(timeout=60)
    assert checking.returncode == Exit.INTERRUPTED
    assert told == "coadapt: interrupted; nothing of the check goes on\n"
    assert not [path for path in pids if Path(f"/proc/{path.stem}").exists()]
    assert not list(tmp_path.glob("coadapt-check-*"))
