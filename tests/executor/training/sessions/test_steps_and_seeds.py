"""A loop in steps ends at its target; what a job draws goes by the script's own seed."""

from pathlib import Path
from typing import Any

import pytest
from coadapt.core.training_config import CheckpointConfig, MetricTarget, TrainingConfig
from coadapt.executor.protocol.messages import Finished

from tests.support.warm_group import WarmGroup

SCRIPT = """
import sys, coadapt, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(int(sys.argv[1]))
x = torch.arange(64.0)[:, None] / 64
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
loader = DataLoader(TensorDataset(x, x), batch_size=8, shuffle=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
LOOP
"""
STEPS = """
def endless():
    while True:
        yield from loader
batches = endless()
for step in coadapt.steps(100_000):
    a, b = next(batches)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(a), b).backward()
    optimizer.step()
    if step % 5 == 4:
        coadapt.report(done=float(step))
"""
EPOCHS = """
for epoch in coadapt.epochs(1):
    for a, b in loader:
        print("saw", *(64 * a).int().flatten().tolist(), flush=True)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
"""


TWICE = """
for epoch in coadapt.epochs(5):
    for a, b in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    if epoch == 1:
        break
for epoch in coadapt.epochs(2):
    if coadapt.is_main():
        print("epoch", int(epoch), flush=True)
    for a, b in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
"""


def job(folder: Path, loop: str, seed: int, **training: Any) -> WarmGroup:
    folder.mkdir(exist_ok=True)
    script = folder / "train.py"
    script.write_text(SCRIPT.replace("LOOP", loop))
    config = TrainingConfig(checkpoint=CheckpointConfig(at_epoch_end=False), **training)
    return WarmGroup(script, folder, config, args=[str(seed)])


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_loop_in_steps_ends_when_its_target_is_reached(tmp_path: Path, replicas: int) -> None:
    with job(tmp_path, STEPS, 1, target=MetricTarget(metric="done", at_least=20.0)) as training:
        training.join(training.start(replicas))
        finished = training.finish()
    assert all(isinstance(end, Finished) and end.target_reached for end in finished)
    assert 20 <= finished[0].metrics["done"] < 100_000


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_second_loop_over_epochs_is_whole_although_the_first_was_left(tmp_path: Path, replicas: int) -> None:
    with job(tmp_path, TWICE, 1) as training:
        members = training.start(replicas)
        training.join(members)
        finished = training.finish()
    assert {end.steps for end in finished} == {(2 + 2) * 8}
    assert [line for line in members[0].output().splitlines() if line.startswith("epoch")] == [
        "epoch 0",
        "epoch 1",
    ]


def orders(folder: Path, seed: int) -> list[str]:
    with job(folder, EPOCHS, seed) as training:
        (member,) = training.start(1)
        training.join([member])
        training.finish()
        return [line for line in member.output().splitlines() if line.startswith("saw")]


def test_scripts_of_different_seeds_see_their_samples_in_different_orders(tmp_path: Path) -> None:
    one, again, two = orders(tmp_path / "a", 1), orders(tmp_path / "b", 1), orders(tmp_path / "c", 2)
    assert one == again
    assert one != two
    assert sorted(" ".join(one).split()) == sorted(" ".join(two).split())
