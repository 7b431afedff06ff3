"""A gradient scaler of a framework acts once per step of a job, and leaves out the steps that overflow.

Frameworks make a scaler on GPUs only. Here they are given one of the CPU; the Trainer also computes in fp16.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from coadapt.core.batch_plan import BatchPlan

from tests.support.framework_runs import EXAMPLES, in_job

pytestmark = pytest.mark.slow

SCALER = 'torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=20)'
OVERFLOWS = 3  # an epoch
State = Mapping[str, torch.Tensor]


def of_loop(folder: Path) -> State:
    return torch.load(folder / "model.pt")


def of_module(folder: Path) -> State:
    return torch.load(next(folder.rglob("final.ckpt")), weights_only=False)["state_dict"]


def of_trainer(folder: Path) -> State:
    from safetensors.torch import load_file

    found = load_file(folder / "out" / "model.safetensors")
    # Biases of keys have no gradient but round-off, of which AdamW makes steps.
    return {name: value for name, value in found.items() if not name.endswith("c_attn.bias")}


def accelerate(text: str) -> str:
    """Give a script of Accelerate a scaler, clip as under fp16, and let all steps of one epoch overflow."""
    made = "accelerator = Accelerator(gradient_accumulation_steps=2)\n"
    text = text.replace(made, f"{made}accelerator.scaler = {SCALER}\n")
    text = text.replace("for epoch in ", f"{as_fp16('accelerator')}for epoch in ", 1)
    clips = "accelerator.clip_grad_norm_("
    text = text.replace(clips, f"if accelerator.sync_gradients: {clips}")
    back = "accelerator.backward(loss)"
    return text.replace(back, f"accelerator.backward(loss * (float('inf') if epoch == {OVERFLOWS} else 1))")


def lightning(text: str) -> str:
    """Give a script of Lightning a scaler, without computing in less than fp32."""
    plugin = (
        "import contextlib, torch\n"
        "from lightning.pytorch.plugins import MixedPrecision\n"
        f'plugin = MixedPrecision("16-mixed", "cpu", scaler={SCALER})\n'
        "plugin.forward_context = contextlib.nullcontext\n"
    )
    return text.replace("trainer = Trainer(\n", f"{plugin}trainer = Trainer(\n    plugins=[plugin],\n")


def transformers(text: str) -> str:
    """Give a script of the Trainer a scaler, with which it computes in fp16 where autocast says so."""
    scaler = f"trainer.accelerator.scaler = {SCALER}\n"
    return text.replace("trainer.train()", f"{scaler}{as_fp16('trainer.accelerator')}trainer.train()")


def as_fp16(accelerator: str) -> str:
    """Return lines with which Accelerate takes gradients back to their scale before it clips them."""
    return f'{accelerator}.native_amp = True\n{accelerator}.state._mixed_precision = "fp16"\n'


@pytest.mark.parametrize(
    ("example", "changed", "batch", "steps", "state_of", "close"),
    [
        ("accelerate_loop", accelerate, 24, 11 * 13, of_loop, (1e-3, 3e-4)),
        ("lightning_module", lightning, 24, 12 * 10, of_module, (1e-3, 3e-4)),
        ("transformers_trainer", transformers, 32, 72, of_trainer, (2e-2, 5e-3)),
    ],
    ids=["accelerate", "lightning", "transformers"],
)
def test_a_job_with_a_scaler_ends_as_the_plain_script_with_it(
    example: str,
    changed: Callable[[str], str],
    batch: int,
    steps: int,
    state_of: Callable[[Path], State],
    close: tuple[float, float],
    tmp_path: Path,
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for name in ("plain.py", "train.py"):
        before = (EXAMPLES / example / name).read_text()
        text = changed(before)
        assert text.count("GradScaler") == 1
        (tmp_path / name).write_text(text)
    run = [sys.executable, str(tmp_path / "plain.py")]
    done = subprocess.run(run, cwd=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    with in_job(example, tmp_path / "job") as job:
        job.script = tmp_path / "train.py"
        first, second = job.start(2)
        job.join([first], BatchPlan(batch, 0, batch))
        first.reached(steps // 4)
        job.join([first, second], BatchPlan(-(-batch // 4), 1, batch))
        second.reached(steps // 2)
        job.join([second], BatchPlan(batch, 0, batch))
        (end,) = job.finish()
    assert end.steps == steps, "a step that overflows is none"
    mine = state_of(tmp_path / "job" / "outputs")
    for name, value in state_of(plain).items():
        torch.testing.assert_close(mine[name], value, rtol=close[0], atol=close[1])
