"""The examples are ordinary scripts: at most six lines name coadapt, and without them the result is the same."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from coadapt.scheduler.job import JobSpec

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/train.py"))
TWIN = runpy.run_path(str(EXAMPLES / "plain.py"))
NAMES = [folder.name for folder in FOLDERS]


def spec(folder: Path) -> JobSpec:
    return JobSpec.model_validate(yaml.safe_load((folder / "job.yaml").read_text()))


def output(script: Path, *args: str, temporary: Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, str(script), *args], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_five_are_there() -> None:
    assert NAMES == ["char_transformer", "finetune", "image_classifier", "pipeline_parallel", "rigid"]


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_at_most_six_lines_name_coadapt(folder: Path) -> None:
    source = (folder / "train.py").read_text()
    assert 4 <= len(TWIN["coadapt_lines"](source)) <= 6
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


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_by_itself_it_does_what_its_plain_twin_does(folder: Path, tmp_path: Path) -> None:
    twin = tmp_path / "train.py"
    twin.write_text(TWIN["plain"]((folder / "train.py").read_text()))
    lines = output(folder / "train.py", "--epochs", "1", temporary=tmp_path)
    assert lines.startswith("epoch 0 loss ")
    assert lines == output(twin, "--epochs", "1", temporary=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_it_reaches_its_target(folder: Path, tmp_path: Path) -> None:
    target = spec(folder).training.target
    assert target is not None
    values = [line.split() for line in output(folder / "train.py", temporary=tmp_path).splitlines()]
    reached = [float(words[words.index(target.metric) + 1]) for words in values]
    assert any(map(target.reached, reached))
