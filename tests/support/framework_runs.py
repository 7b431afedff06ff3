"""Runs the examples of frameworks, by themselves and as a job whose replicas come and go."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.protocol import messages
from coadapt.executor.protocol.messages import Finished
from coadapt.executor.rehearsal import check

from tests.support.warm_group import WarmGroup
from tests.support.warm_python import Script, run_together

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# What an example imports that takes seconds.
MODULES = {
    "transformers_trainer": ("transformers.trainer", "transformers.models.gpt2.modeling_gpt2"),
    "accelerate_loop": ("accelerate",),
    "lightning_module": ("lightning.pytorch",),
    "ray_train": ("ray.train.torch",),
}


def run_plain(example: str, folder: Path, script: str = "plain.py") -> str:
    """Run an example by itself in a folder of its own; return what it wrote."""
    folder.mkdir()
    (said,) = run_together([Script(EXAMPLES / example / script, cwd=folder)], MODULES[example])
    return said


def in_job(example: str, folder: Path, training: TrainingConfig | None = None) -> WarmGroup:
    """Return a job of the example; its outputs lie in `folder/outputs`, and replicas are still to be started."""
    (folder / "outputs").mkdir(parents=True)
    (folder / "work").mkdir()
    return WarmGroup(
        EXAMPLES / example / "train.py",
        folder,
        training or TrainingConfig(report_interval_s=0.2),
        env={messages.OUTPUT_DIR: str(folder / "outputs")},
        cwd=folder / "work",
        modules=MODULES[example],
    )


def assert_it_passes_the_check(
    example: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Run `coadapt check` on an example."""
    monkeypatch.setattr(check, "TrainingGroup", partial(WarmGroup, modules=MODULES[example]))
    code = main.run(["check", str(EXAMPLES / example / "job.yaml")])
    said = capfd.readouterr().out
    assert code == Exit.OK, said
    assert "with one replica, two replicas, two replicas in two passes and batches of" in said


def run_resized(example: str, folder: Path, batch: int, steps: int) -> Finished:
    """Train with one, two and three replicas, with others, in two passes, and again with one; return its end.

    `steps` that the example makes in all.
    """
    with in_job(example, folder) as job:
        first, second, third = job.start(3)
        job.join([first], _plan(batch, 1))
        first.reached(steps // 10)
        job.join([first, second], _plan(batch, 2))
        first.reached(steps * 3 // 10)
        job.join([first, second, third], _plan(batch, 3))
        first.reached(steps // 2)
        job.join([third, second], _plan(batch, 2, passes=2))
        third.reached(steps * 7 // 10)
        job.join([second], _plan(batch, 1))
        return job.finish()[0]


def run_restarted(example: str, folder: Path, batch: int, steps: int) -> Finished:
    """Train with two replicas, stop all of them, and go on with another one from the checkpoint."""
    with in_job(example, folder) as job:
        job.join(job.start(2), _plan(batch, 2))
        job.group[0].reached(steps // 3)
        job.stop()
        job.join(job.start(1), _plan(batch, 1))
        return job.finish()[0]


def _plan(batch: int, replicas: int, passes: int = 1) -> BatchPlan:
    return BatchPlan(-(-batch // (replicas * passes)), passes - 1, batch)
