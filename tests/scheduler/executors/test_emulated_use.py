"""What a job uses of emulated GPUs is told to its workers, with the measured pairs of its model."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.core.job import Emulation, JobSpec
from coadapt.executor.emulated_gpu import TenantProfile
from coadapt.scheduler.executors.emulated_use import emulated_use

SPEC = JobSpec(name="j", script="t.py", emulation=Emulation(profile="bert", gpu_util=0.4, memory_gib=5))
TABLE = "job,partner,speed,partner_speed\nbert,cifar10,0.9,0.7\nyolov3,bert,0.6,0.8\nyolov3,yolov3,0.5,0.5\n"


def test_a_job_file_tells_what_it_uses() -> None:
    assert emulated_use(SPEC) == TenantProfile("bert", 0.4, None, 5.0)


def test_measured_pairs_are_those_of_its_own_model(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(TABLE)
    found = emulated_use(SPEC, str(file))
    assert found.beside == {"cifar10": (0.9, 0.7), "yolov3": (0.8, 0.6)}
    assert found.source == str(file)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bert,,0.9,0.7", "line 2: the partner is missing"),
        ("bert,cifar10,0,0.7", "line 2: speed: 0 is not accepted, must be above 0"),
        ("bert,cifar10,0.9,0.7\ncifar10,bert,0.9,0.7", "line 3: the pair cifar10 and bert is there twice"),
    ],
)
def test_a_table_that_is_none_is_one_sentence(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(f"job,partner,speed,partner_speed\n{line}\n")
    with pytest.raises(ValueError, match=f"^{file}: {said}$"):
        emulated_use(SPEC, str(file))


@pytest.mark.parametrize(("field", "value"), [("gpu_util", 1.2), ("gpu_util", float("nan")), ("memory_gib", -1.0)])
def test_use_that_cannot_be_is_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        Emulation.model_validate({field: value})
