"""A job that was measured on few CPUs trains with more when others leave them, and is measured on these, too."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(400)]

TRAIN = """
import time
import coadapt, torch
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self):
        return 480

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.full((4,), index / 480)

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Samples(), batch_size=8, num_workers=1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for _ in coadapt.epochs(100_000):
    for x in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
"""
WAITS = "import time\nwhile True: time.sleep(1)\n"
JOBS = {
    "waits": "name: waits\nscript: waits.py\nelastic: false\nrestartable: true\nresources: {gpus: 1}",
    "train": "name: train\nscript: train.py\nresources: {gpus: 1}\n"
    "training: {adaptivity: rigid, report_interval_s: 2}\nemulation: {time_scale: 20}",
}


def tell(folder: str) -> dict[str, Any]:
    """Collect everything that the test below wants to know, from one cluster."""
    os.environ.pop("RAY_TMPDIR", None)
    os.environ.pop("RAY_AUTH_MODE", None)
    from coadapt.core.settings import Settings
    from coadapt.deploy import local_cluster

    home = Path(folder) / "job"
    home.mkdir()
    (home / "train.py").write_text(TRAIN)
    (home / "waits.py").write_text(WAITS)
    for name, text in JOBS.items():
        (home / f"{name}.yaml").write_text(text)
    settings = Settings(
        state_dir=str(Path(folder) / "state"),
        policy="fifo",
        policy_options={"provisioning": "tune"},
        round_interval_s=2.0,
        debounce_s=0.2,
    )
    client = local_cluster.up("1x a100:2/6/64", settings=settings)
    told: dict[str, Any] = {}
    try:

        def until(holds: Callable[[], bool], what: str) -> None:
            deadline_s = time.monotonic() + 150.0
            while not holds():
                rows = [(row["id"], row["status"], row["reason"]) for row in client.list()]
                assert time.monotonic() < deadline_s, f"{what} takes too long: {rows}"
                time.sleep(0.2)  # between two looks, up to a limit

        waits = client.submit(home / "waits.yaml")
        until(lambda: client.describe(waits)["status"] == "running", "the first job")
        train = client.submit(home / "train.yaml")
        until(lambda: client.describe(train)["status"] == "running", "measuring")
        told["first"] = client.describe(train)["habits"]
        client.cancel(waits)
        until(lambda: client.describe(train)["habits"][0] != told["first"][0], "measuring on more CPUs")
        told["then"], told["explained"] = client.describe(train)["habits"], client.explain(train)
        found = client.describe(train)
        told["changed"] = [found[name] for name in ("restarts", "resizes", "recoveries", "evictions")]
        until(lambda: client.explain(train).get("cpus") == 6, "the plan with more CPUs")
        told["model"] = client.explain(train)["speed_over_share"]
        client.close()
    finally:
        local_cluster.down(settings.state_dir, grace_s=2.0)
    return told


def test_cpus_that_become_free_are_measured_while_training_and_then_given(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        told = pool.apply_async(tell, (str(tmp_path),)).get(timeout=380)
    assert "3 CPUs were free to measure it" in told["first"][0]
    assert "6 CPUs were free to measure it" in told["then"][0]
    assert told["changed"] == [0, 0, 0, 0]
    assert told["model"] == pytest.approx(2.0, rel=0.25), "6 workers prepare twice as fast as 3"
