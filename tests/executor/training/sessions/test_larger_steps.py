"""A loop in steps that accumulates, given larger batches: its steps are means of several, and count as such."""

import json
from pathlib import Path

import pytest
import torch
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.reports import Report
from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.executor.protocol.messages import SetBatch
from torch import Tensor, nn

from tests.support.warm_group import WarmGroup

BATCH, ACCUMULATION, STEPS = 16, 2, 120
SCRIPT = f"""
import json, os, sys, time
import coadapt, torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
draw = torch.Generator().manual_seed(1)
def batch():
    x = torch.randn({BATCH}, 4, generator=draw)
    return x, x.sum(1, keepdim=True) + torch.randn({BATCH}, 1, generator=draw)
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer, batches = coadapt.prepare(model, optimizer, coadapt.batches(batch))
taken, made = [0], []
register_optimizer_step_post_hook(lambda *_: made.append(taken[0]))
for step in coadapt.steps({STEPS}):
    while not os.path.exists(sys.argv[2]):  # until it is told of a larger batch
        time.sleep(0.03)  # of a poll; longer than between two reports, which the test waits for
        if len(made) < 9:
            break
    for _ in range({ACCUMULATION}):
        x, y = next(batches)
        taken[0] += 1
        (nn.functional.mse_loss(model(x), y) / {ACCUMULATION}).backward()
    optimizer.step()
    optimizer.zero_grad()
if coadapt.is_main():
    weights = [p.flatten().tolist() for p in model.parameters()]
    open(sys.argv[1], "w").write(json.dumps({{"made": made, "taken": taken[0], "weights": weights}}))
"""


def trained_as(made: list[int]) -> list[Tensor]:
    """Return the parameters after plain steps, each of the batches up to one of these."""
    draw = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for begin, end in zip([0, *made], made, strict=False):
        optimizer.zero_grad()
        for _ in range(begin, end):
            x = torch.randn(BATCH, 4, generator=draw)
            y = x.sum(1, keepdim=True) + torch.randn(BATCH, 1, generator=draw)
            (nn.functional.mse_loss(model(x), y) / (end - begin)).backward()
        optimizer.step()
    return [parameter.detach().flatten() for parameter in model.parameters()]


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_step_is_the_mean_of_what_it_takes_and_counts_as_much(tmp_path: Path, replicas: int) -> None:
    script, out, told = tmp_path / "train.py", tmp_path / "out.json", tmp_path / "told"
    script.write_text(SCRIPT)
    training = TrainingConfig(
        max_batch_size=1024,
        lr_scaling="none",
        report_interval_s=0.02,
        checkpoint=CheckpointConfig(at_epoch_end=False),
    )
    with WarmGroup(script, tmp_path, training, args=[str(out), str(told)]) as job:
        members = job.start(replicas)
        job.join(members, BatchPlan(BATCH // replicas, 0, BATCH))
        members[0].wait(Report, lambda report: report.progress.steps >= 3)
        members[0].send(SetBatch(BatchPlan(BATCH // replicas, 0, 4 * BATCH * ACCUMULATION)))
        told.touch()
        job.finish()
        last = members[0].all(Report)[-1]
    found = json.loads(out.read_text())
    sizes = {end - begin for begin, end in zip(found["made"], found["made"][1:], strict=False)}
    assert sizes == {ACCUMULATION, 4 * ACCUMULATION}
    assert found["made"][-1] == found["taken"], "a step was left half done"
    for ours, plain in zip(found["weights"], trained_as(found["made"]), strict=True):
        torch.testing.assert_close(torch.tensor(ours), plain, rtol=1e-4, atol=1e-5)
    assert last.grad_var is not None
    assert last.progress.progress_samples == pytest.approx(STEPS * BATCH * ACCUMULATION, rel=0.05)
    assert last.progress.samples > 1.5 * last.progress.progress_samples
