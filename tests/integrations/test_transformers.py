"""A script with the Trainer of transformers trains elastically with one callback, and ends as it does alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.protocol.messages import Crashed, Report

from tests.support.framework_runs import (
    EXAMPLES,
    assert_it_passes_the_check,
    in_job,
    run_plain,
    run_resized,
    run_restarted,
)

EXAMPLE, BATCH, STEPS = "transformers_trainer", 32, 72


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "run"
    run_plain(EXAMPLE, folder)
    return folder / "out"


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def last_state(folder: Path) -> dict[str, Any]:
    """Return what the trainer's own last checkpoint remembers."""
    return json.loads((folder / f"checkpoint-{STEPS}" / "trainer_state.json").read_text())


def told(state: dict[str, Any], name: str) -> dict[int, float]:
    """Return what was logged under a name, by step."""
    return {one["step"]: one[name] for one in state["log_history"] if name in one}


def assert_alike(job: Path, plain: Path) -> None:
    """Parameters, validation losses and learning rates are those of the plain run, to round-off."""
    mine, theirs = weights(job), weights(plain)
    for name, value in theirs.items():
        torch.testing.assert_close(mine[name], value, rtol=1e-3, atol=3e-4)
    mine_told, theirs_told = last_state(job), last_state(plain)
    assert mine_told["global_step"] == STEPS
    assert told(mine_told, "eval_loss") == pytest.approx(told(theirs_told, "eval_loss"), rel=1e-4)
    assert told(mine_told, "learning_rate") == pytest.approx(told(theirs_told, "learning_rate"))
    # The trainer averages steps, and a job averages the tokens of steps.
    assert told(mine_told, "loss") == pytest.approx(told(theirs_told, "loss"), rel=0.01)


def test_a_trainer_passes_the_check(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert_it_passes_the_check(EXAMPLE, monkeypatch, capfd)


def test_a_trainer_that_is_resized_four_times_ends_as_the_plain_one(plain: Path, tmp_path: Path) -> None:
    end = run_resized(EXAMPLE, tmp_path / "job", BATCH, STEPS)
    assert (end.steps, end.ended_early) == (STEPS, "")
    assert end.metrics["eval_loss"] == pytest.approx(told(last_state(plain), "eval_loss")[STEPS], rel=1e-4)
    assert_alike(tmp_path / "job" / "outputs" / "out", plain)


def test_a_trainer_goes_on_from_the_jobs_checkpoint_with_its_state_and_log(plain: Path, tmp_path: Path) -> None:
    assert run_restarted(EXAMPLE, tmp_path / "job", BATCH, STEPS).steps == STEPS
    assert_alike(tmp_path / "job" / "outputs" / "out", plain)


def test_a_trainer_whose_batch_is_adapted_makes_the_progress_of_its_epochs(tmp_path: Path) -> None:
    training = TrainingConfig(report_interval_s=0.2, max_batch_size=2 * BATCH)
    from coadapt.core.batch_plan import BatchPlan

    with in_job(EXAMPLE, tmp_path / "job", training) as job:
        (member,) = job.start(1)
        job.join([member], BatchPlan(2 * BATCH, 0, 2 * BATCH))
        (end,) = job.finish()
        epochs = member.all(Report)[-1].progress.epochs
    assert end.steps < STEPS  # each is of a larger batch, whose progress is more
    assert epochs == 6
    steps = [int(step) for step in re.findall(r"checkpoint-(\d+)", " ".join(map(str, (tmp_path).rglob("*"))))]
    assert max(steps) <= STEPS


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("trainer.train()", "trainer._inner_training_loop(resume_from_checkpoint='here')"),
            "resume_from_checkpoint",
        ),
        (("CoadaptCallback(trainer)", "CoadaptCallback(args)"), "TrainingArguments is no transformers.Trainer"),
        (("disable_tqdm=True", "disable_tqdm=True, auto_find_batch_size=True"), "auto_find_batch_size is set"),
    ],
)
def test_what_a_job_cannot_follow_is_refused_in_one_sentence(
    tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    text = (EXAMPLES / EXAMPLE / "train.py").read_text()
    assert change[0] in text
    with in_job(EXAMPLE, tmp_path / "job") as job:
        job.script = tmp_path / "train.py"
        job.script.write_text(text.replace(*change))
        (member,) = job.start(1, ready=False)
        assert said in member.wait(Crashed).summary
