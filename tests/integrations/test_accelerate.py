"""A script with Accelerate trains elastically with another import and `coadapt.epochs`, and ends as alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from coadapt.executor.protocol.messages import Crashed

from tests.support.framework_runs import (
    EXAMPLES,
    assert_it_passes_the_check,
    in_job,
    run_plain,
    run_resized,
    run_restarted,
)

EXAMPLE, BATCH, STEPS = "accelerate_loop", 24, 12 * 13


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    folder = tmp_path_factory.mktemp("plain") / "run"
    run_plain(EXAMPLE, folder)
    return torch.load(folder / "model.pt")


def assert_alike(job: Path, plain: dict[str, torch.Tensor]) -> None:
    mine = torch.load(job / "outputs" / "model.pt")
    for name, value in plain.items():
        torch.testing.assert_close(mine[name], value, rtol=1e-3, atol=3e-4)


@pytest.mark.slow  # that of the trainer of transformers runs always
def test_a_script_passes_the_check(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert_it_passes_the_check(EXAMPLE, monkeypatch, capfd)


@pytest.mark.slow
def test_a_script_that_is_resized_four_times_ends_as_the_plain_one(
    plain: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    end = run_resized(EXAMPLE, tmp_path / "job", BATCH, STEPS)
    assert (end.steps, end.ended_early) == (STEPS, "")
    assert end.metrics["accuracy"] > 0.5  # what the script logs is reported
    assert_alike(tmp_path / "job", plain)


def test_a_script_goes_on_from_the_jobs_checkpoint(plain: dict[str, torch.Tensor], tmp_path: Path) -> None:
    assert run_restarted(EXAMPLE, tmp_path / "job", BATCH, STEPS).steps == STEPS
    assert_alike(tmp_path / "job", plain)


@pytest.mark.slow
def test_outside_of_a_job_it_is_accelerates_own(plain: dict[str, torch.Tensor], tmp_path: Path) -> None:
    run_plain(EXAMPLE, tmp_path / "run", script="train.py")
    mine = torch.load(tmp_path / "run" / "model.pt")
    assert all(torch.equal(mine[name], value) for name, value in plain.items())


def test_sharding_is_refused_in_one_sentence(tmp_path: Path) -> None:
    text = (EXAMPLES / EXAMPLE / "train.py").read_text()
    with in_job(EXAMPLE, tmp_path / "job") as job:
        job.script = tmp_path / "train.py"
        job.script.write_text(text.replace("Accelerator(", "Accelerator(parallelism_config=object(), "))
        (member,) = job.start(1, ready=False)
        assert member.wait(Crashed).summary.startswith("ValueError: Accelerator: parallelism_config is set")
