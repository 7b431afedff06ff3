"""The examples are ordinary scripts: six lines name coadapt at most, and without them the result is the same.

Those that are tuned have up to three more, for their hyper-parameters and widths.
"""

import difflib
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.core.job import JobSpec
from coadapt.executor.rehearsal import check

from tests.support.warm_group import WarmGroup
from tests.support.warm_python import Script, run_together

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# Their loops are run by a framework; what they compute is tested in tests/integrations.
FRAMEWORKS = ("accelerate_loop", "lightning_module", "ray_train", "transformers_trainer")
BESIDE = sorted(path.parent for path in EXAMPLES.glob("*/plain.py"))  # those with their plain script beside them
PLAIN = [folder for folder in BESIDE if folder.name not in FRAMEWORKS]
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/train.py") if path.parent not in BESIDE)
SHORT = {"language_model": ["--max-steps", "100"]}
TWIN = runpy.run_path(str(EXAMPLES / "plain.py"))
NAMES = [folder.name for folder in FOLDERS]
LONG = ("char_transformer", "language_model")  # these take as long as all others together


def often(folders: list[Path]) -> list[Any]:
    """Return folders as parameters, of which those that take long are tried on request."""
    return [
        pytest.param(folder, marks=[pytest.mark.slow] if folder.name in LONG else [], id=folder.name)
        for folder in folders
    ]


def spec(folder: Path) -> JobSpec:
    return JobSpec.model_validate(yaml.safe_load((folder / "job.yaml").read_text()))


def output(script: Path, *args: str, temporary: Path) -> str:
    (printed,) = run_together([Script(script, args, {"TMPDIR": str(temporary)})])
    return printed


def changed(folder: Path) -> int:
    """Count the lines of the plain script that differ, are added or are removed."""
    plain, elastic = [(folder / name).read_text().splitlines() for name in ("plain.py", "train.py")]
    codes = difflib.SequenceMatcher(None, plain, elastic, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for kind, i1, i2, j1, j2 in codes if kind != "equal")


def test_all_fourteen_are_there() -> None:
    assert {folder.name for folder in BESIDE} - {folder.name for folder in PLAIN} == set(FRAMEWORKS)
    assert [folder.name for folder in PLAIN] == ["classifier", "gan", "input_bound", "language_model", "vae"]
    assert NAMES == ["char_transformer", "finetune", "image_classifier", "pipeline_parallel", "rigid"]


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_at_most_six_lines_name_coadapt(folder: Path) -> None:
    source = (folder / "train.py").read_text()
    of_study = [
        line for line in source.splitlines() if "coadapt.hyperparameters" in line or "coadapt.width" in line
    ]
    assert 4 <= len(TWIN["coadapt_lines"](source)) - len(of_study) <= 6
    assert len(of_study) <= 3
    code = TWIN["plain"](source).split('"""', 2)[2]
    assert "coadapt" not in code


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_its_job_file_is_accepted_and_its_target_is_reported(folder: Path) -> None:
    job = spec(folder)
    source = (folder / "train.py").read_text()
    assert (folder / job.script).exists()
    assert job.training.target is not None
    assert f"{job.training.target.metric}=" in source
    assert f"batch_size={job.training.initial_batch_size}," in source


@pytest.mark.parametrize("folder", often(FOLDERS))
def test_by_itself_it_does_what_its_plain_twin_does(folder: Path, tmp_path: Path) -> None:
    twin = tmp_path / "train.py"
    twin.write_text(TWIN["plain"]((folder / "train.py").read_text()))
    lines = output(folder / "train.py", "--epochs", "1", temporary=tmp_path)
    assert lines.startswith("epoch 0 loss ")
    assert lines == output(twin, "--epochs", "1", temporary=tmp_path)


@pytest.mark.parametrize("folder", PLAIN, ids=lambda folder: folder.name)
def test_at_most_six_lines_of_the_plain_script_are_changed(folder: Path) -> None:
    assert 4 <= changed(folder) <= 6
    assert "coadapt" not in (folder / "plain.py").read_text()


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_at_most_four_lines_of_a_framework_s_script_are_changed(name: str) -> None:
    plain, elastic = [(EXAMPLES / name / file).read_text().splitlines() for file in ("plain.py", "train.py")]
    new, gone = (
        Counter(elastic) - Counter(plain),
        Counter(plain) - Counter(elastic),
    )  # an import may stand elsewhere
    assert 1 <= max(new.total(), gone.total()) <= 4, (new, gone)
    assert not any("coadapt" in line for line in plain)


@pytest.mark.parametrize("folder", often(PLAIN))
def test_by_itself_it_ends_as_its_plain_script(folder: Path, tmp_path: Path) -> None:
    args = SHORT.get(folder.name, ["--epochs", "2"])
    lines = output(folder / "train.py", *args, temporary=tmp_path)
    assert len(lines.splitlines()) >= 2
    assert lines == output(folder / "plain.py", *args, temporary=tmp_path)


@pytest.mark.parametrize("folder", often(PLAIN))
def test_coadapt_check_says_that_it_works(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "TrainingGroup", WarmGroup)
    before = sorted(folder.rglob("*"))
    assert main.run(["check", str(folder / "job.yaml")]) == Exit.OK
    assert capfd.readouterr().out.startswith("train.py works as a job: ")
    assert sorted(folder.rglob("*")) == before


def test_a_target_of_theirs_is_reported() -> None:
    for folder in PLAIN:
        job = spec(folder)
        source = (folder / "train.py").read_text()
        assert job.training.target is None or f"{job.training.target.metric}=" in source


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_it_reaches_its_target(folder: Path, tmp_path: Path) -> None:
    target = spec(folder).training.target
    assert target is not None
    values = [line.split() for line in output(folder / "train.py", temporary=tmp_path).splitlines()]
    reached = [float(words[words.index(target.metric) + 1]) for words in values]
    assert any(map(target.reached, reached))
