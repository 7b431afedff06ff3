"""A training job leaves a node in time: for an operator, for Ray, and for a spot notice from loopback."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(400)]

SCRIPT = """
import os, sys
import coadapt, torch
from torch.utils.data import DataLoader, TensorDataset

class Count:
    steps = 0
    def state_dict(self):
        return {"steps": self.steps}
    def load_state_dict(self, state):
        self.steps = state["steps"]

model, count = torch.nn.Linear(4, 1), Count()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(512, 4)), batch_size=16)
model, optimizer, loader, count = coadapt.prepare(model, optimizer, loader, count)
file = open(sys.argv[1], "a", buffering=1)
for _ in coadapt.epochs(100_000):
    for (x,) in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count.steps += 1
        file.write(f"{count.steps}\\n")
"""


# Ray is asked to drain a node as its autoscaler asks it; there is no public call for that.
DRAIN = """
import json, sys, time
from coadapt.client.cluster_record import ClusterRecord
from coadapt.deploy.ray_connection import connected_ray
from coadapt.scheduler import ray_private
from ray.core.generated import autoscaler_pb2

ray = connected_ray(ClusterRecord.load(sys.argv[1]))
gcs = ray._raylet.GcsClient(address=ray.get_runtime_context().gcs_address)
reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
accepted, why = gcs.drain_node(sys.argv[2], reason, "a test", int((time.time() + 60) * 1000))
assert accepted, why
print(json.dumps({"until": ray_private.draining_nodes()[sys.argv[2]], "on": ray_private.actors_on(sys.argv[2])}))
"""


def tell(folder: str) -> dict[str, Any]:
    os.environ.pop("RAY_TMPDIR", None)
    os.environ.pop("RAY_AUTH_MODE", None)
    from coadapt.core.cloud import Cloud
    from coadapt.core.settings import Settings
    from coadapt.deploy import local_cluster

    from tests.support.metadata_server import serving, soon

    state_dir, home, file = Path(folder) / "state", Path(folder) / "job", Path(folder) / "steps"
    home.mkdir()
    (home / "train.py").write_text(SCRIPT)
    (home / "job.yaml").write_text(
        f"name: a\nscript: train.py\nargs: [{file}]\nprofile: false\nresources: {{max_gpus: 1}}\n"
    )
    told: dict[str, Any] = {}
    with serving(Cloud.GCP) as server:
        settings = Settings(
            state_dir=str(state_dir),
            policy="fifo",
            cloud=Cloud.GCP,
            metadata_url=server.url,
            metadata_every_s=0.2,
        )
        client = local_cluster.up("2x t4:2", settings=settings)
        try:
            job = client.submit(home / "job.yaml")
            until(lambda: lines(file) > 20)

            def where() -> str:
                nodes = {node["id"]: node["machine"] for node in client.cluster()["nodes"]}
                return next((nodes[id] for id in client.describe(job)["nodes"]), "")

            def moved_from(machine: str) -> None:
                until(lambda: where() not in ("", machine))
                mark = lines(file)
                until(lambda: lines(file) > mark + 20)

            first = where()
            told["order"] = client.drain(first, 60.0, "a fan")["changed"]
            moved_from(first)
            told["row"] = next(row for row in client.machines() if row["machine"] == first)
            client.uncordon(first)

            second = where()
            server.going_s[second] = soon(30)
            moved_from(second)
            del server.going_s[second]
            until(lambda: not any(row["closed"] for row in client.machines()))

            third = where()
            id = next(node["id"] for node in client.cluster()["nodes"] if node["machine"] == third)
            done = subprocess.run(
                [sys.executable, "-c", DRAIN, str(state_dir), id],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            told["ray"] = json.loads(done.stdout.splitlines()[-1])
            moved_from(third)
            told["closed"] = {row["machine"]: row["closed"] for row in client.machines()}
            told["machines"] = [first, second, third]
            told["events"] = [event["text"] for event in client.describe(job)["events"]]
            told["cluster"] = [event["text"] for event in client.cluster()["events"]]
            told["steps"] = [int(line) for line in file.read_text().split()]
            client.close()
        finally:
            local_cluster.down(state_dir, grace_s=2.0)
    return told


def lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 90.0
    while not holds():
        assert time.monotonic() < deadline_s, "it takes too long"
        time.sleep(0.1)  # between two looks, up to a limit


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(tell, (str(tmp_path_factory.mktemp("story")),)).get(timeout=380)


def test_no_step_is_done_twice_or_left_out(told: dict[str, Any]) -> None:
    assert told["steps"] == list(range(1, len(told["steps"]) + 1))


def test_an_operator_sees_who_drains_a_node_until_when_and_that_it_is_empty(told: dict[str, Any]) -> None:
    first = told["machines"][0]
    assert told["order"]
    assert told["row"]["closed"].startswith("drained by ")
    assert told["row"]["closed"].endswith(": a fan")
    assert told["row"]["leaves"]
    assert f"{first} is empty: nothing runs there any more" in told["cluster"]


def test_a_spot_notice_is_heard_what_was_saved_is_told_and_the_node_is_used_again(told: dict[str, Any]) -> None:
    second = told["machines"][1]
    from coadapt.scheduler.power.closing import LISTENER  # it loads Ray, which must not be loaded before `up`

    assert LISTENER in told["ray"]["on"], "so that power knows it for one of ours"
    assert any(text.startswith(f"{second} goes away in ") and "preemption" in text for text in told["cluster"])
    assert any("preemption notice of gcp is withdrawn" in text for text in told["cluster"])
    assert len([text for text in told["events"] if text.startswith("saved at step ")]) >= 3
    assert len([text for text in told["events"] if text.startswith("has left ")]) == 3


def test_what_ray_drains_is_left_by_the_moment_that_ray_tells(told: dict[str, Any]) -> None:
    assert told["ray"]["until"] == pytest.approx(time.time(), abs=600)
    assert told["closed"][told["machines"][2]].startswith("drained by Ray, until ")
