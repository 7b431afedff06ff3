"""A script that never calls `coadapt.prepare` is told when it is submitted, where that can be seen."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.client.script_check import MOST_BYTES, mistaken
from coadapt.core.job import JobSpec
from coadapt.core.training_config import MetricTarget, TrainingConfig

ROOT = Path(__file__).resolve().parents[2]
TOLD = "; give its model, optimizer and loader to coadapt.prepare, or say elastic: false to run it as it is"


def checked(folder: Path, files: dict[str, str], script: str = "train.py", **fields: Any) -> str | None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return mistaken(JobSpec(name="j", script=script, working_dir=str(folder), **fields))


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": "import coadapt\ncoadapt.prepare(m, o, l)"},
        {"train.py": "import coadapt as ca\nm, o = ca.prepare(m, o)"},
        {"train.py": "from coadapt import epochs, prepare as make\nmake(m)"},
        {"train.py": "from coadapt import *\nprepare(m)"},
        {"train.py": "from coadapt.integrations.lightning import strategy\nTrainer(strategy=strategy())"},
        {"train.py": "import coadapt.integrations.transformers as hf\nhf.CoadaptCallback(trainer)"},
        {"train.py": "def main():\n    import coadapt\n    coadapt.prepare(m)"},
        {"train.py": "import engine\nengine.run()", "engine.py": "import coadapt\ncoadapt.prepare(m)"},
        {"train.py": "from lib import a", "lib/__init__.py": "", "lib/a.py": "from coadapt import prepare"},
        {
            "train.py": "import lib.a.b",
            "lib/a/b.py": "from . import c",
            "lib/a/c.py": "from coadapt import prepare",
        },
        {
            "train.py": "from lib.a import *",
            "lib/a.py": "from ..x import y",
            "x.py": "from coadapt import prepare",
        },
        {
            "train.py": "import lib",
            "lib/__init__.py": "from .core import go",
            "lib/core.py": "import coadapt as c\nc.prepare",
        },
        {"train.py": "import engine\nengine.coadapt.prepare(m)", "engine.py": "import coadapt"},
    ],
    ids=lambda files: files["train.py"][:30],
)
def test_a_script_that_prepares_is_not_complained_of(tmp_path: Path, files: dict[str, str]) -> None:
    assert checked(tmp_path, files) is None


@pytest.mark.parametrize(
    "text",
    [
        "import importlib\nimportlib.import_module(name).main()",
        "import runpy\nrunpy.run_path('other.py')",
        "exec(open('other.py').read())",
        "import sys\nsys.path.append('src')\nimport mine",
        "import coadapt\nrun(coadapt)",
        "import broken",
    ],
)
def test_what_cannot_be_seen_is_no_complaint(tmp_path: Path, text: str) -> None:
    assert checked(tmp_path, {"train.py": text, "broken.py": "def ("}) is None


def test_modules_found_by_the_jobs_environment_cannot_be_seen(tmp_path: Path) -> None:
    assert checked(tmp_path, {"train.py": "import mine"}, env={"PYTHONPATH": "src"}) is None


def test_more_than_is_read_is_no_complaint(tmp_path: Path) -> None:
    assert checked(tmp_path, {"train.py": "import big", "big.py": "#" * (MOST_BYTES + 1)}) is None
    many = {f"m{i}.py": f"import m{i + 1}" for i in range(300)}
    assert checked(tmp_path, many, "m0.py") is None


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"train.py": "print('hello')"}, "script: train.py never imports coadapt"),
        ({"train.py": "accelerator.prepare(model)"}, "script: train.py never imports coadapt"),
        (
            {"train.py": "import coadapt\nprint(coadapt.rank())"},
            "script: train.py imports coadapt and never calls coadapt.prepare",
        ),
        (
            {"train.py": "import net\nimport torch", "net.py": "import train", "other.py": "import coadapt"},
            "script: train.py and the modules of {folder} that it imports never import coadapt",
        ),
        ({"a/train.py": "import net", "a/net.py": ""}, "script: a/train.py and the modules"),
    ],
    ids=["plain", "another's prepare", "only other words", "with modules", "in a folder below"],
)
def test_a_script_that_never_prepares_is_told(tmp_path: Path, files: dict[str, str], told: str) -> None:
    found = checked(tmp_path, files, script=next(iter(files)))
    assert found is not None
    assert found.startswith(told.replace("{folder}", str(tmp_path)))
    assert found.endswith(TOLD)


def test_every_example_prepares() -> None:
    scripts = sorted(path.relative_to(ROOT) for path in (ROOT / "examples").glob("*/train.py"))
    assert scripts
    for script in scripts:
        spec = JobSpec(name="j", script=script.name, working_dir=str(ROOT / script.parent))
        assert mistaken(spec) is None, script


def test_submit_refuses_it_before_it_asks_the_cluster_and_anyway_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client:
        def submit_all(self, specs: Sequence[JobSpec], tell: Callable[[str, str], None]) -> list[str]:
            return [f"{spec.name}-1" for spec in specs]

    (tmp_path / "train.py").write_text("print('hello')")
    (tmp_path / "job.yaml").write_text("name: plain\nscript: train.py\n")
    monkeypatch.setattr(main, "_connect", Client)
    assert main.run(["submit", str(tmp_path / "job.yaml")]) == Exit.USAGE
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "script: train.py never imports coadapt" in err
    assert err.endswith("(--anyway submits it still)\n")
    assert main.run(["submit", str(tmp_path / "job.yaml"), "--anyway"]) == Exit.OK
    assert capsys.readouterr().out == "plain-1\n"


@pytest.mark.parametrize(
    ("reports", "told"),
    [
        ("coadapt.report(accuracy=1, loss=2)", "train.py reports accuracy, loss, and acc is needed"),
        ("coadapt.report(combine={'loss': 'max'}, loss=2)", "train.py reports loss, and acc is needed"),
        ("", "train.py never calls coadapt.report, and acc is needed"),
        ("coadapt.report(acc=1)", None),
        ("coadapt.report(**metrics)", None),
        ("log = coadapt.report\nlog(acc=1)", None),
        ("from coadapt import report\nreport(acc=1)", None),
        ("import other\nother.run()", None),
    ],
)
def test_a_target_that_no_report_names_is_told_where_that_can_be_seen(
    tmp_path: Path, reports: str, told: str | None
) -> None:
    files = {
        "train.py": f"import coadapt\ncoadapt.prepare(m)\n{reports}",
        "other.py": "import coadapt\ncoadapt.report(acc=1)",
    }
    training = TrainingConfig(target=MetricTarget(metric="acc", at_least=0.9))
    said = checked(tmp_path, files, training=training)
    assert said == (f"training.target: {told}" if told else None)
