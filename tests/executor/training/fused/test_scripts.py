"""A plain script trains one trial, or several at once, without a change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import coadapt, torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
hp = coadapt.hyperparameters(lr=0.1, momentum=0.9)
data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=hp.lr, momentum=hp.momentum)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
loader = DataLoader(data, batch_size=16, shuffle=True)
model, optimizer, scheduler, loader = coadapt.prepare(model, optimizer, scheduler, loader)
for epoch in coadapt.epochs(4):
    total = correct = 0
    for x, y in loader:
        output = model(x)
        loss = F.cross_entropy(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
        correct += (output.argmax(1) == y).sum().item()
    scheduler.step()
    coadapt.report(loss=total / 64, accuracy=correct / 64)
print(f"{total / 64:.6f}", f"{correct / 64:.4f}")
"""


def said(folder: Path, values: object) -> list[str]:
    """Return the last loss and accuracy of the script with these hyper-parameters."""
    path = folder / "train.py"
    path.write_text(SCRIPT)
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    variables.pop("COADAPT_HYPERPARAMETERS", None)
    if values is not None:
        variables["COADAPT_HYPERPARAMETERS"] = json.dumps(values)
    found = subprocess.run([sys.executable, str(path)], env=variables, capture_output=True, text=True, check=True)
    return found.stdout.split()


def test_a_group_prints_what_its_trials_print_alone(tmp_path: Path) -> None:
    trials = [{"lr": 0.1}, {"lr": 0.02, "momentum": 0.5}]
    alone = [said(tmp_path, one) for one in trials]
    assert alone[0] == said(tmp_path, None), "the defaults"
    together = [word.split("/") for word in said(tmp_path, trials)]
    assert [list(pair) for pair in zip(*together, strict=True)] == alone
