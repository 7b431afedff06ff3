"""A script with Lightning trains elastically with one strategy, and ends as it does alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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

EXAMPLE, BATCH, STEPS = "lightning_module", 24, 12 * 10


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("plain") / "run"
    run_plain(EXAMPLE, folder)
    return torch.load(folder / "out" / "final.ckpt", weights_only=False)


def assert_alike(job: Path, plain: dict[str, Any]) -> None:
    """Parameters, counts and what callbacks remember are those of the plain run, to round-off."""
    mine = torch.load(job / "outputs" / "final.ckpt", weights_only=False)
    for name, value in plain["state_dict"].items():
        torch.testing.assert_close(mine["state_dict"][name], value, rtol=1e-3, atol=3e-4)
    assert (mine["epoch"], mine["global_step"]) == (plain["epoch"], plain["global_step"])
    assert mine["lr_schedulers"][0]["last_epoch"] == plain["lr_schedulers"][0]["last_epoch"]
    stopping = next(name for name in plain["callbacks"] if name.startswith("EarlyStopping"))
    best, plain_best = (one["callbacks"][stopping]["best_score"] for one in (mine, plain))
    torch.testing.assert_close(best, plain_best, rtol=1e-3, atol=1e-5)
    assert mine["callbacks"][stopping]["wait_count"] == plain["callbacks"][stopping]["wait_count"]


@pytest.mark.slow  # that of the trainer of transformers runs always
def test_a_module_passes_the_check(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert_it_passes_the_check(EXAMPLE, monkeypatch, capfd)


@pytest.mark.slow
def test_a_module_that_is_resized_four_times_ends_as_the_plain_one(plain: dict[str, Any], tmp_path: Path) -> None:
    end = run_resized(EXAMPLE, tmp_path / "job", BATCH, STEPS)
    assert (end.steps, end.ended_early) == (STEPS, "")
    assert end.metrics["train_loss"] > 0
    assert_alike(tmp_path / "job", plain)


def test_a_module_goes_on_from_the_jobs_checkpoint(plain: dict[str, Any], tmp_path: Path) -> None:
    assert run_restarted(EXAMPLE, tmp_path / "job", BATCH, STEPS).steps == STEPS
    assert_alike(tmp_path / "job", plain)


@pytest.mark.slow
def test_outside_of_a_job_it_is_lightnings_own(plain: dict[str, Any], tmp_path: Path) -> None:
    run_plain(EXAMPLE, tmp_path / "run", script="train.py")
    mine = torch.load(tmp_path / "run" / "final.ckpt", weights_only=False)
    assert all(torch.equal(mine["state_dict"][name], value) for name, value in plain["state_dict"].items())


def test_a_trainer_without_an_end_is_refused_in_one_sentence(tmp_path: Path) -> None:
    text = (EXAMPLES / EXAMPLE / "train.py").read_text()
    with in_job(EXAMPLE, tmp_path / "job") as job:
        job.script = tmp_path / "train.py"
        job.script.write_text(text.replace("max_epochs=12", "max_epochs=-1"))
        (member,) = job.start(1, ready=False)
        assert "neither max_epochs nor max_steps is set" in member.wait(Crashed).summary
