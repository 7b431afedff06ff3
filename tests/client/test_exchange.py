"""A service is exchanged while a job trains: not a step is lost, and no process begins again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.client.client import Client
from coadapt.core.errors import SettingError, StoreError
from coadapt.core.job import Phase
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.scheduler.store import restoring

from tests.support.stores import raw

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

SCRIPT = """
import json, os, time
import torch, coadapt
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=16)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
steps = open(os.environ["STEPS"], "a", buffering=1)
for epoch in coadapt.epochs(2000):
    for (x,) in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(os.getpid(), time.time(), file=steps)
        time.sleep(0.02)  # a step takes so long
    coadapt.report(loss=loss.item())
    if os.path.exists(os.environ["STEPS"] + ".stop"):
        break
"""
JOB = """
name: steady
script: train.py
resources: {max_gpus: 1}
env: {STEPS: STEPS_FILE}
training: {report_interval_s: 1}
"""
EMULATE = "1x t4:2"


def until(holds: Callable[[], bool], patience_s: float = 120.0) -> None:
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)  # between two looks, up to a limit


def steps(path: Path) -> list[tuple[int, float]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(pid), float(at)) for pid, at in (line.split() for line in lines if len(line.split()) == 2)]


def test_a_job_trains_on_under_the_next_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COADAPT_HOME", str(tmp_path / "home"))
    for name in ("COADAPT_ADDRESS", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "job.yaml").write_text(JOB.replace("STEPS_FILE", str(tmp_path / "steps")))
    settings = Settings(round_interval_s=2.0, policy="fifo")
    client = local_cluster.up(EMULATE, settings=settings)
    try:
        _exchange(client, tmp_path, settings)
    finally:
        local_cluster.down()


def _exchange(client: Client, tmp_path: Path, settings: Settings) -> None:
    job, seen = client.submit(tmp_path / "job.yaml"), tmp_path / "steps"
    until(lambda: client.list()[0]["phase"] == "running")
    measured = len(steps(seen))  # in a process of its own
    until(lambda: len(steps(seen)) > measured + 20)
    assert list(client.change_settings({"debounce_s": 0.2})) == ["debounce_s"]
    with pytest.raises(SettingError, match="it names a place"):
        client.change_settings({"state_dir": "/x"})
    written = client.backup(tmp_path / "copy.sqlite")
    assert (restoring.checked(tmp_path / "copy.sqlite"), written["jobs"]) == (1, 1)
    until(lambda: bool(client.metrics(job)["metrics"].get("loss")))
    assert client.prune(dry_run=True) == []
    with pytest.raises(StoreError, match="held by process"):
        restoring.restore(tmp_path / "copy.sqlite", settings.store, settings.backup_dir, [])
    client.close()
    assert main.run(["down", "--keep-jobs"]) == Exit.OK
    ended_at = len(steps(seen))
    until(lambda: len(steps(seen)) > ended_at + 20)
    assert main.run(["doctor"]) == Exit.OK
    with pytest.raises(
        local_cluster.LocalClusterError, match="a cluster of 1 emulated node runs already, with other"
    ):
        local_cluster.up("2x t4:2", settings=settings)
    (version,) = raw(settings.store, "select version_num from alembic_version")[0]
    raw(settings.store, "update alembic_version set version_num='0099'")
    with pytest.raises(StoreError, match="store version 0099, and this program writes version"):
        local_cluster.up(EMULATE, settings=settings)
    raw(settings.store, f"update alembic_version set version_num='{version}'")
    client = local_cluster.up(EMULATE, settings=settings)
    assert client.settings.debounce_s == 0.2
    again_at = len(steps(seen))
    until(lambda: len(steps(seen)) > again_at + 20)
    until(lambda: len(client.metrics(job)["metrics"]["loss"]) > 1)
    (row,) = client.list()
    assert (row["id"], row["phase"], row["restarts"]) == (job, "running", 0)
    (tmp_path / "steps.stop").touch()
    assert client.wait([job], timeout_s=120.0) == {job: Phase.SUCCEEDED}
    assert len({pid for pid, _ in steps(seen)[measured:]}) == 1
    client.close()
