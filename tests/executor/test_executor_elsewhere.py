"""An executor off the head: its log and its package lie on the head's disk, and nothing is lost on the way."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.schemas import ALL
from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.executor.adaptive_executor import AdaptiveExecutor
from coadapt.executor.executor_job import ExecutorJob
from coadapt.executor.head_files import FILES_NAME, HeadFiles
from coadapt.executor.light_actor import executor_class, light, packed
from coadapt.executor.protocol.job_events import AtRest, JobFinished, Released, Running, Standing
from coadapt.scheduler.executors.actors import NODE_LABEL
from coadapt.scheduler.files.job_logs import page

from tests.support.emulated_cluster import NAMESPACE, EmulatedCluster
from tests.support.executor_service import NAME, ToldJob

pytestmark = pytest.mark.live
LINES = 3000
SCRIPT = """
import torch, coadapt
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=16)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(100):
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for line in range(30):
        print("line", epoch * 30 + line, flush=True)
"""


class Elsewhere(ToldJob):
    """A job whose executor stands on a node of choice, and whose disk is the head's."""

    def __init__(self, service: Any, folder: Path, head: str, node: str, package: Path) -> None:
        super().__init__(service, AdaptiveExecutor, folder)
        self.job = ExecutorJob(
            id=self.id,
            script="train.py",
            package=str(package),
            training=TrainingConfig(checkpoint=CheckpointConfig(every_minutes=0.02), report_interval_s=1.0),
            checkpoint_url=str(folder / "checkpoints"),
            log_dir=str(folder / "logs"),
            head_node=head,
            gpus_per_replica={"*": 1},
            service_name=NAME,
            service_namespace=NAMESPACE,
        )
        self.place(node)

    def place(self, node: str) -> None:
        import ray

        kind: Any = ray.remote(executor_class(AdaptiveExecutor))
        self.actor = kind.options(
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=8,
            label_selector={NODE_LABEL: node},
            fallback_strategy=[{"label_selector": {NODE_LABEL: f"!{node}"}}],
        ).remote(packed(self.job))


def head_of(cluster: EmulatedCluster) -> str:
    return str(cluster.cluster.head_node.node_id)


@pytest.fixture
def files(emulated_cluster: EmulatedCluster, tmp_path: Path) -> Iterator[Any]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    kind: Any = ray.remote(light(HeadFiles))
    actor = kind.options(
        name=FILES_NAME,
        namespace=NAMESPACE,
        num_cpus=0,
        max_restarts=-1,
        max_concurrency=16,
        scheduling_strategy=NodeAffinitySchedulingStrategy(head_of(emulated_cluster), soft=False),
    ).remote(str(tmp_path))
    yield actor
    ray.kill(actor)


@pytest.fixture
def job(service: Any, files: Any, emulated_cluster: EmulatedCluster, tmp_path: Path) -> Iterator[Elsewhere]:
    folder = tmp_path / "script"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    package = tmp_path / "package.tar.gz"
    subprocess.run(["tar", "czf", package, "-C", folder, "train.py"], check=True)
    found = Elsewhere(service, tmp_path, head_of(emulated_cluster), emulated_cluster.nodes["t4"], package)
    yield found
    found.end()


def lines(folder: Path, source: str) -> list[str]:
    text, offset = "", 0
    while True:
        more, following = page(folder / "logs", source, offset)
        if following == offset:
            return text.splitlines()
        text, offset = text + more, following


def test_every_line_is_kept_once_though_the_writer_on_the_head_is_killed(
    job: Elsewhere, files: Any, emulated_cluster: EmulatedCluster
) -> None:
    import ray

    told = job.wait(Standing)
    assert told.node_id == emulated_cluster.nodes["t4"]
    job.assign(emulated_cluster.slot("a100"))
    job.wait(Running)
    for _ in range(3):
        ray.kill(files, no_restart=False)
        time.sleep(0.3)  # some lines are on their way at any moment
    job.wait(JobFinished)
    assert ray.get(job.actor.leave.remote(), timeout=60)
    wanted = [f"line {number}" for number in range(LINES)]
    assert lines(job.folder, "rank-0") == wanted
    assert lines(job.folder, ALL) == [f"[rank-0] {line}" for line in wanted]


def test_the_next_executor_goes_on_from_what_the_one_before_knew(
    job: Elsewhere, emulated_cluster: EmulatedCluster
) -> None:
    import ray

    a, t = emulated_cluster.slot("a100"), emulated_cluster.slot("t4")
    job.assign(a)
    job.wait(Running)
    job.assign()
    job.wait(Released)
    assert ray.get(job.actor.leave.remote(), timeout=60)
    rested = job.wait(AtRest)
    job.end()
    job.job = replace(job.job, kept=rested.kept, measurements=rested.measurements)
    job.place(emulated_cluster.nodes["a100"])
    job.assign(t)
    running = job.wait(Running, count=2)
    assert running.pause_s is not None
    assert running.pause_s > 0.0, "the time without any executor counts"
    job.wait(JobFinished)
    assert ray.get(job.actor.leave.remote(), timeout=60)
    found = lines(job.folder, "rank-0")
    assert set(found) == {f"line {number}" for number in range(LINES)}


def test_a_job_goes_on_where_the_node_of_its_executor_is_lost(
    job: Elsewhere, emulated_cluster: EmulatedCluster
) -> None:
    import ray

    job.wait(Standing)
    job.end()
    cluster = emulated_cluster.cluster
    extra = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20, include_dashboard=False)
    job.place(extra.node_id)
    assert job.wait(Standing, count=2).node_id == extra.node_id
    job.assign(emulated_cluster.slot("a100"))
    job.wait(Running)
    cluster.remove_node(extra, allow_graceful=False)
    job.wait(Released, lambda event: event.everything)
    assert job.wait(Standing, count=3).node_id != extra.node_id
    job.assign(emulated_cluster.slot("a100"))
    job.wait(JobFinished)
    assert ray.get(job.actor.leave.remote(), timeout=60)
    assert f"line {LINES - 1}" in lines(job.folder, "rank-0")


def test_an_executor_process_has_loaded_no_module_of_torch(
    job: Elsewhere, emulated_cluster: EmulatedCluster
) -> None:
    import psutil

    job.assign(emulated_cluster.slot("a100"))
    job.wait(Running)
    executors = [
        process
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [""])[0].startswith("ray::AdaptiveExecutor")
    ]
    assert executors
    for process in executors:
        mapped = {Path(one.path).name for one in process.memory_maps()}
        assert not [name for name in mapped if name.startswith(("libtorch", "libllvmlite"))]
