"""A script that accumulates may make a step of fewer batches at an epoch's ends: it is a step like any other."""

import json
from pathlib import Path

import pytest
import torch
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.reports import Report
from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.executor.protocol.messages import SetBatch
from coadapt.executor.training.state.training_state import Position

from tests.support.warm_group import WarmGroup
from tests.support.warm_python import Script, run_together

BATCH, EPOCHS = 8, 40
SCRIPT = f"""
import json, sys
import coadapt, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
count, accumulation, steps_at = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.manual_seed(0)
x = torch.randn(count * {BATCH}, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size={BATCH})
model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + 0.05 * n))
model, optimizer, loader, scheduler = coadapt.prepare(model, optimizer, loader, scheduler)
updates, lags = 0, 0
for epoch in coadapt.epochs({EPOCHS}):
    for i, (a, b) in enumerate(loader):
        (nn.functional.mse_loss(model(a), b) / accumulation).backward()
        if i % accumulation == steps_at or i + 1 == len(loader):
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            updates += 1
            lags += scheduler.last_epoch != updates
if coadapt.is_main():
    weights = [p.flatten().tolist() for p in model.parameters()]
    open(sys.argv[1], "w").write(json.dumps({{"updates": updates, "lags": lags, "weights": weights}}))
"""


@pytest.mark.parametrize(
    ("batches", "accumulation", "steps_at"),
    [(9, 4, 3), (9, 2, 0), (10, 2, 0)],
    ids=["what is left at the end", "the first batch alone", "the first and the last batch alone"],
)
def test_a_script_trains_as_by_itself_once_its_batch_size_is_known(
    tmp_path: Path, batches: int, accumulation: int, steps_at: int
) -> None:
    script, asked = tmp_path / "train.py", [str(batches), str(accumulation), str(steps_at)]
    script.write_text(SCRIPT)
    run_together([Script(script, [str(tmp_path / "plain.json"), *asked], {})])
    training = TrainingConfig(report_interval_s=0.02, checkpoint=CheckpointConfig(at_epoch_end=False))
    with WarmGroup(script, tmp_path, training, args=[str(tmp_path / "job.json"), *asked]) as job:
        members = job.start(1)
        job.join(members, BatchPlan(BATCH, 0, BATCH))
        members[0].wait(Report, lambda report: report.progress.epoch >= 1)
        members[0].send(SetBatch(BatchPlan(BATCH, accumulation - 1, BATCH * accumulation)))
        members[0].wait(Report, lambda report: report.batch_size == BATCH * accumulation)
        job.finish()
    plain, found = (json.loads((tmp_path / name).read_text()) for name in ("plain.json", "job.json"))
    assert (found["updates"], found["lags"]) == (plain["updates"], 0)
    for ours, theirs in zip(found["weights"], plain["weights"], strict=True):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=1e-4, atol=1e-5)


def test_a_script_that_accumulates_less_from_some_epoch_on_is_followed() -> None:
    position = Position()
    for batches in (1, 4, 4, 1, 4):
        position.count_step_of(batches)
    assert position.per_step == 4
    for batches in (2, 2, 2):
        position.count_step_of(batches)
    assert position.per_step == 2
