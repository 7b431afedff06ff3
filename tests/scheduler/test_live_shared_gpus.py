"""Two jobs share an emulated GPU under `lucid`: one is killed, and the other goes on at full speed, as it was.

Both have half of the GPU's CPUs and memory meanwhile, which reaches loader workers and cache without a restart.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(400)]

TRAIN = """
import sys
import coadapt, torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

class Samples(Dataset):
    def __init__(self):
        self.read = coadapt.cached(lambda index: bytes(1 << 14))

    def __len__(self):
        return 512

    def __getitem__(self, index):
        self.read(index)
        return torch.randn(4), index, get_worker_info().num_workers

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Samples(), batch_size=16, shuffle=True, num_workers=1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
steps = open(sys.argv[1], "a", buffering=1)
for epoch in coadapt.epochs(100_000):
    for x, indices, workers in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.write(f"{epoch} {' '.join(map(str, indices.tolist()))} by {workers[0]} step\\n")
"""
PLAIN = """
import os, sys
file = open(sys.argv[1], "a", buffering=1)
file.write(f"begins {os.getpid()}\\n")
while True:
    sum(range(100_000))
    file.write("step\\n")
"""
OPTIONS = {
    "packing": "default",
    "least_left": 0.0,
    "profiler": {"pool": "prof", "t_prof_s": 8.0, "burst_s": 8.0},
}
JOB = "name: {name}\n{what}\nresources: {{gpus: 1}}\nemulation: {{gpu_util: 0.5, memory_gib: {gib}}}\n"
NATIVE = "script: train.py\nargs: [{file}]\nprofile: false\ntraining: {{adaptivity: rigid, report_interval_s: 1}}"
FIXED = "script: plain.py\nargs: [{file}]\nelastic: false\nrestartable: true\nrestart_policy: never"


def tell(folder: str) -> dict[str, Any]:
    """Collect everything that the tests below want to know, from one cluster."""
    os.environ.pop("RAY_TMPDIR", None)
    os.environ.pop("RAY_AUTH_MODE", None)
    from coadapt.cli import show
    from coadapt.core.settings import Settings
    from coadapt.deploy import local_cluster

    state_dir, home = Path(folder) / "state", Path(folder) / "job"
    home.mkdir()
    (home / "train.py").write_text(TRAIN)
    (home / "plain.py").write_text(PLAIN)
    whats = {"native": NATIVE, "fixed": FIXED}
    files = {name: Path(folder) / name for name in whats}
    for name, what in whats.items():
        text = JOB.format(name=name, what=what.format(file=files[name]), gib=3)
        (home / f"{name}.yaml").write_text(text)
    settings = Settings(
        state_dir=str(state_dir), policy="lucid", policy_options=OPTIONS, round_interval_s=1.0, debounce_s=0.2
    )
    told: dict[str, Any] = {}
    client = local_cluster.up("1x t4:1/4/8@prof, 1x t4:1/4/8", settings=settings)
    try:
        native = client.submit(home / "native.yaml")
        fixed = client.submit(home / "fixed.yaml")

        def until(holds: Callable[[], bool]) -> None:
            deadline_s = time.monotonic() + 120.0
            while not holds():
                rows = [(row["id"], row["status"], row["reason"], show.where(row)) for row in client.list()]
                assert time.monotonic() < deadline_s, f"it takes too long: {rows}"
                time.sleep(0.1)  # between two looks, up to a limit

        def row(job: str) -> Any:
            return client.describe(job)

        def together() -> bool:
            return row(native)["beside"] == [fixed] and row(fixed)["status"] == "running"

        until(together)
        until(lambda: f"shares emulated GPU 0 with {fixed}" in "".join(client.logs(native)))
        before = row(native)
        told["shown"] = show.where(before)
        told["explained"] = client.explain(native)["lines"]
        mark = lines(files["native"])
        until(lambda: lines(files["native"]) > mark + 5)
        until(lambda: workers(files["native"])[-1] == 2)
        pids = re.findall(r"begins (\d+)", files["fixed"].read_text())
        os.kill(int(pids[-1]), signal.SIGKILL)
        until(lambda: row(fixed)["status"] == "failed")
        until(lambda: row(native)["share"] == 1.0)
        until(lambda: "alone on emulated GPU 0 again" in "".join(client.logs(native)))
        mark = lines(files["native"])
        until(lambda: lines(files["native"]) > mark + 5)
        until(lambda: workers(files["native"])[-1] == 4)
        after = row(native)
        told["workers"] = list(dict.fromkeys(workers(files["native"])))
        told["seen"] = seen(files["native"])
        told["changed"] = [
            after[name] - before[name] for name in ("restarts", "resizes", "recoveries", "evictions")
        ]
        told["usage"] = row(native)["usage"]["t4"]["mean"]
        told["log"] = "".join(client.logs(native))
        told["events"] = [event for job in (native, fixed) for event in row(job)["events"]]
        client.close()
    finally:
        local_cluster.down(state_dir, grace_s=2.0)
    return told


def lines(file: Path) -> int:
    return file.read_text().count("step\n") if file.exists() else 0


def workers(file: Path) -> list[int]:
    """Return how many loader workers there were at each step."""
    return [int(line.split()[-2]) for line in file.read_text().splitlines()[:-1]]


def seen(file: Path) -> dict[int, list[int]]:
    """Return the samples of each whole epoch."""
    found: dict[int, list[int]] = {}
    for line in file.read_text().splitlines()[:-1]:
        epoch, *indices = map(int, line.split()[:-3])
        found.setdefault(epoch, []).extend(indices)
    return {epoch: sorted(indices) for epoch, indices in found.items() if epoch < max(found)}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(tell, (str(tmp_path_factory.mktemp("shared")),)).get(timeout=380)


def test_both_are_shown_on_one_gpu_with_the_source_of_their_speeds(told: dict[str, Any]) -> None:
    assert re.fullmatch(r"0\.5 x t4 with fixed-2 \(emulated\)", told["shown"])
    assert "It shares its GPUs with fixed-2." in told["explained"]
    assert re.search(r"with fixed-2, at 8\d% of its speed \(foretold by what both use of a GPU\)", told["log"])


def test_the_survivor_of_a_killed_partner_goes_on_without_a_restart(told: dict[str, Any]) -> None:
    assert told["changed"] == [0, 0, 0, 0]
    assert "it is alone on emulated GPU 0 again, at full speed" in told["log"]


def test_loader_workers_follow_the_cpus_of_a_pair_and_each_sample_is_seen_once(
    told: dict[str, Any],
) -> None:
    assert {2, 4} <= set(told["workers"]), "half of the 4 CPUs beside a partner, and all of them alone"
    assert told["seen"]
    assert all(indices == list(range(512)) for indices in told["seen"].values())


def test_the_use_of_an_emulated_gpu_is_what_the_job_file_says(told: dict[str, Any]) -> None:
    assert told["usage"]["memory_gib"] == 3.0
    assert 0 < told["usage"]["gpu_util"] <= 0.55
