"""Without a scheduler a prepared script gives the results of the plain one."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from elastic_runs import run_script


def assert_identical(ours: dict[str, object], plain: dict[str, object]) -> None:
    torch.testing.assert_close(ours["model"], plain["model"], rtol=0, atol=0)
    assert ours["lr"] == plain["lr"]


PLAIN_ALONE = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
if {ours}:
    import coadapt
torch.manual_seed(0)
x, y = torch.randn(50, 4), torch.randn(50, 1)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.BatchNorm1d(8), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=21)
loader = DataLoader(TensorDataset(x, y), 8, shuffle=True)
if {ours}:
    model, optimizer, loader, schedule = coadapt.prepare(model, optimizer, loader, schedule)
for epoch in coadapt.epochs(3) if {ours} else range(3):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        schedule.step()
    if {ours}:
        coadapt.report(epoch=epoch)
torch.save(dict(model.state_dict()), sys.argv[1])
"""


def test_python_train_py_is_the_script_without_coadapt_bit_by_bit(tmp_path: Path) -> None:
    states = []
    for ours in (True, False):
        script = tmp_path / f"train_{ours}.py"
        script.write_text(PLAIN_ALONE.format(ours=ours))
        subprocess.run([sys.executable, script, tmp_path / f"{ours}.pt"], check=True, cwd=tmp_path, timeout=120)
        states.append(torch.load(tmp_path / f"{ours}.pt"))
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)


@pytest.mark.parametrize("extra", [["--schedule=step"], ["--optimizer=adam", "--clip", "--schedule=epoch"]])
def test_torchrun_is_plain_ddp_with_the_same_global_batch_bit_by_bit(tmp_path: Path, extra: list[str]) -> None:
    args = ["--samples=96", "--batch-size=16", *extra]
    ours = run_script(tmp_path / "ours", *args, processes=2)
    plain = run_script(tmp_path / "plain", *args, "--plain", processes=2)
    assert_identical(ours, plain)


def test_importing_coadapt_does_not_import_torch() -> None:
    code = "import sys, coadapt; assert 'torch' not in sys.modules; assert 'prepare' in dir(coadapt)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
