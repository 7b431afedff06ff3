"""Without a scheduler a prepared script gives the results of the plain one."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support.elastic_runs import run_script
from tests.support.warm_python import Script, run_together


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
    scripts = []
    for ours in (True, False):
        script = tmp_path / f"train_{ours}.py"
        script.write_text(PLAIN_ALONE.format(ours=ours))
        scripts.append(Script(script, [str(tmp_path / f"{ours}.pt")], cwd=tmp_path))
    run_together(scripts)
    ours, plain = (torch.load(tmp_path / f"{ours}.pt") for ours in (True, False))
    torch.testing.assert_close(ours, plain, rtol=0, atol=0)


@pytest.mark.parametrize("extra", [["--schedule=step"], ["--optimizer=adam", "--clip", "--schedule=epoch"]])
def test_torchrun_is_plain_ddp_with_the_same_global_batch_bit_by_bit(tmp_path: Path, extra: list[str]) -> None:
    args = ["--samples=96", "--batch-size=16", *extra]
    ours = run_script(tmp_path / "ours", *args, processes=2)
    plain = run_script(tmp_path / "plain", *args, "--plain", processes=2)
    assert_identical(ours, plain)


def test_importing_coadapt_does_not_import_torch() -> None:
    code = "import sys, coadapt; assert 'torch' not in sys.modules; assert 'prepare' in dir(coadapt)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


ADDED_LAYER = """
import sys, torch
from torch import nn
import coadapt
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(96, 6)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(3):
    if epoch == 1:
        torch.manual_seed(1 + coadapt.rank())
        model.insert(2, nn.Linear(8, 8))
        optimizer.add_param_group({"params": model[2].parameters()})
    for a, b in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
torch.save(dict(model.state_dict()), f"{sys.argv[1]}-{coadapt.rank()}.pt")
"""


@pytest.mark.slow
def test_under_torchrun_a_layer_that_is_added_later_is_trained_alike_and_as_alone(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(ADDED_LAYER)
    run_together([Script(script, [str(tmp_path / "alone")], cwd=tmp_path)])
    # The one test with torchrun itself; others start ranks with the environment that it makes.
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run([*launch, script, tmp_path / "group"], check=True, cwd=tmp_path, timeout=120)
    alone, first, second = (torch.load(tmp_path / f"{name}.pt") for name in ("alone-0", "group-0", "group-1"))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    torch.testing.assert_close(first, alone)


def test_a_program_without_prepare_may_report_by_hand_and_on_nodes_where_nobody_listens(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, coadapt\nsys.stderr = sys.stdout\ncoadapt.report(step=1, steps=2, loss=0.5)\nprint('done')\n"
    )
    ranks = [Script(script, env={"RANK": rank, "WORLD_SIZE": "2"}) for rank in ("0", "1")]
    assert run_together(ranks) == ["done\n", "done\n"]
