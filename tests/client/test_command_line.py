"""The words of a command line become the job that their program is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from coadapt.client.command_line import fields_of, name_for, script_in, spec_of
from coadapt.client.jobfile import JobFileError
from coadapt.core.doors import Door

NATIVE = "import coadapt\ncoadapt.prepare()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "vision"
    found.mkdir()
    (found / "train.py").write_text(NATIVE)
    (found / "plain.py").write_text("print()\n")
    return found


@pytest.mark.parametrize(
    "words", ["python train.py --lr 0.10", "/usr/bin/python3.11 train.py --lr 0.10", "train.py --lr 0.10"]
)
def test_a_script_that_calls_prepare_is_elastic(words: str, folder: Path) -> None:
    spec = spec_of(words.split(), folder, {}, gpus=4)
    assert (spec.door, spec.script, spec.args, spec.command) == (Door.NATIVE, "train.py", ["--lr", "0.10"], [])
    assert (spec.name, spec.resources.max_gpus, spec.working_dir) == ("vision", 4, str(folder))


@pytest.mark.parametrize("words", ["python plain.py -x", "python -m train", "torchrun train.py", "bash -c ls"])
def test_any_other_program_runs_unchanged_at_a_fixed_size(words: str, folder: Path) -> None:
    spec = spec_of(words.split(), folder, {}, gpus=2)
    assert (spec.door, spec.command, spec.resources.gpus) == (Door.PLAIN, words.split(), 2)
    assert spec_of(words.split(), folder, {}).resources.gpus == 1


def test_with_sizes_a_program_is_started_again_at_them(folder: Path) -> None:
    spec = spec_of(["python", "train.py"], folder, fields_of(sizes="1, 2,4", gpu_types=["t4"]))
    assert (spec.door, spec.sizes, spec.resources.gpu_types) == (Door.RESTARTING, [1, 2, 4], ["t4"])
    with pytest.raises(JobFileError, match=r"^run: --gpus: sizes say how many GPUs the program can have$"):
        spec_of(["python", "train.py"], folder, fields_of(sizes="1,2"), gpus=2)


def test_options_are_fields_of_the_job_file(folder: Path) -> None:
    given = fields_of(name="n", pip=["timm"], env=["A=1", "B=x=y", "C="], pool="lab", gpu_types=["a100"])
    spec = spec_of(["train.py"], folder, given, gpus=3)
    assert (spec.name, spec.pip, spec.env, spec.pool) == ("n", ["timm"], {"A": "1", "B": "x=y", "C": ""}, "lab")
    assert (spec.resources.gpu_types, spec.resources.max_gpus) == (["a100"], 3)
    assert fields_of() == {}


@pytest.mark.parametrize(
    ("words", "options", "told"),
    [
        ([], {}, "run: give a command after --, such as `coadapt run -- python train.py`"),
        (["make"], {"sizes": "one"}, "run: --sizes: one are not GPU counts such as 1,2,4"),
        (["make"], {"env": ["A"]}, "run: --env: A is not of the form NAME=VALUE"),
        (["make"], {"env": ["=1"]}, "run: --env: =1 is not of the form NAME=VALUE"),
        (["make"], {"name": "a b"}, "run: name: a b is not a name of 1 to 63 letters, digits"),
    ],
)
def test_what_makes_no_job_is_told_in_one_sentence(
    words: list[str], options: dict[str, Any], told: str, folder: Path
) -> None:
    with pytest.raises(JobFileError) as refused:
        spec_of(words, folder, fields_of(**options))
    assert str(refused.value).startswith(told)
    assert "\n" not in str(refused.value)


def test_a_job_has_the_name_of_what_it_runs() -> None:
    assert name_for(Path("/x/vision/train.py")) == "vision"
    assert name_for(Path("/x/vision/fit a.py")) == "fit-a"
    assert script_in(["python", "-u", "train.py"]) == ("", []), "options of Python are of a command"
