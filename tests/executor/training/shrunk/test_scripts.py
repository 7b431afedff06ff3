"""A plain script trains the target or a narrow model of it, without a change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import coadapt, torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
hp = coadapt.hyperparameters(lr=0.1)
WIDTH
data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
model = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 3))
torch.manual_seed(1)  # a narrow model has drawn fewer numbers
optimizer = torch.optim.SGD(model.parameters(), lr=hp.lr, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
loader = DataLoader(data, batch_size=16, shuffle=True)
model, optimizer, scheduler, loader = coadapt.prepare(model, optimizer, scheduler, loader)
for epoch in coadapt.epochs(3):
    total = 0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    scheduler.step()
print(sum(one.numel() for one in model.parameters()), total)
"""
PLAIN, MARKED = SCRIPT.replace("WIDTH", "width = 64"), SCRIPT.replace("WIDTH", "width = coadapt.width(64)")


def said(folder: Path, script: str, **variables: str) -> list[str]:
    path = folder / "train.py"
    path.write_text(script)
    names = ("COADAPT_SHRINK", "COADAPT_HYPERPARAMETERS")
    own = {name: value for name, value in os.environ.items() if name not in names} | {"OMP_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, str(path)], env=own | variables, capture_output=True, text=True, check=True
    )
    return found.stdout.split()


def test_the_target_is_the_plain_script_to_the_last_bit(tmp_path: Path) -> None:
    assert said(tmp_path, MARKED, COADAPT_SHRINK="1") == said(tmp_path, PLAIN)


def test_a_narrow_script_trains_alone_and_as_a_group(tmp_path: Path) -> None:
    """Alone it is narrowed by rules, and as a group by widths of its own: that is the same model."""
    alone = said(tmp_path, PLAIN, COADAPT_SHRINK="8")
    assert int(alone[0]) == 8 * 8 + 8 + 3 * 8 + 3
    trials = json.dumps([{"lr": 0.02}, {"lr": 0.1}])
    group = said(tmp_path, MARKED, COADAPT_SHRINK="8", COADAPT_HYPERPARAMETERS=trials)
    assert float(group[1].split("/")[1]) == pytest.approx(float(alone[1]), abs=1e-4)
