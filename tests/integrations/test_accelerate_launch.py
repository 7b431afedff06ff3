"""What `accelerate launch` is told becomes a job."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.integrations.accelerate_launch import job_of


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "fine_tune.py").write_text("import coadapt\n")
    return str(tmp_path / "fine_tune.py")


def test_options_and_arguments_become_those_of_the_job(script: str) -> None:
    job = job_of(["--cpu", "--mixed_precision", "bf16", "--num_processes", "4", script, "--lr", "0.1"])
    assert (job.name, job.script, job.working_dir) == ("fine-tune", "fine_tune.py", str(Path(script).parent))
    assert list(job.args) == ["--lr", "0.1"]
    assert job.env["ACCELERATE_MIXED_PRECISION"] == "bf16"
    assert job.resources.max_gpus == 4


def test_a_configuration_file_is_read(script: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\nmixed_precision: fp16\nnum_processes: 1\n"
        "num_machines: 1\nmachine_rank: 0\nuse_cpu: true\n"
    )
    job = job_of(["--config_file", str(config), script])
    assert job.env["ACCELERATE_MIXED_PRECISION"] == "fp16"
    assert set(job.env) <= {name for name in job.env if name.startswith("ACCELERATE_")}


def test_sharding_is_refused_in_one_sentence(script: str) -> None:
    with pytest.raises(ValueError, match=r"^accelerate launch: use_fsdp is set, and an elastic job"):
        job_of(["--use_fsdp", script])
