"""A function of Ray Train's `TorchTrainer` trains elastically in a job, and ends as it does alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from coadapt.executor.protocol.messages import Crashed

from tests.support.framework_runs import EXAMPLES, assert_it_passes_the_check, in_job, run_plain, run_resized

EXAMPLE, BATCH, STEPS = "ray_train", 16, 6 * 25


@pytest.fixture(scope="module")
def error(tmp_path_factory: pytest.TempPathFactory) -> float:
    said = run_plain(EXAMPLE, tmp_path_factory.mktemp("plain") / "run")
    return float(ast.literal_eval(said.splitlines()[-1])["error"])


@pytest.mark.slow  # that of the trainer of transformers runs always
def test_a_function_passes_the_check(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert_it_passes_the_check(EXAMPLE, monkeypatch, capfd)


@pytest.mark.slow
def test_a_function_that_is_resized_four_times_ends_as_the_plain_one(error: float, tmp_path: Path) -> None:
    end = run_resized(EXAMPLE, tmp_path / "job", BATCH, STEPS)
    assert (end.steps, end.ended_early) == (STEPS, "")
    assert end.metrics["error"] == pytest.approx(error, rel=1e-3)
    # Its own last checkpoint lies among the job's outputs.
    assert torch.load(tmp_path / "job" / "outputs" / "checkpoint" / "model.pt").keys() >= {"0.weight", "2.bias"}


@pytest.mark.slow
def test_outside_of_a_job_it_is_ray_trains_own(error: float, tmp_path: Path) -> None:
    said = run_plain(EXAMPLE, tmp_path / "run", script="train.py")
    assert ast.literal_eval(said.splitlines()[-1])["error"] == error


def test_ray_data_is_refused_in_one_sentence(tmp_path: Path) -> None:
    text = (EXAMPLES / EXAMPLE / "train.py").read_text()
    with in_job(EXAMPLE, tmp_path / "job") as job:
        job.script = tmp_path / "train.py"
        job.script.write_text(
            text.replace("    scaling_config=", '    datasets={"train": 1},\n    scaling_config=')
        )
        (member,) = job.start(1, ready=False)
        assert member.wait(Crashed).summary.startswith("ValueError: TorchTrainer: datasets are given")
