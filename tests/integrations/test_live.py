"""The example of each framework runs as a job on Ray, is resized, and ends as it does alone."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.executor_job import ExecutorJob
from coadapt.executor.protocol.job_events import JobFinished, Running

from tests.support.emulated_cluster import NAMESPACE, EmulatedCluster
from tests.support.executor_service import NAME, ToldJob
from tests.support.framework_runs import EXAMPLES, run_plain

pytestmark = [pytest.mark.live, pytest.mark.slow]
State = dict[str, torch.Tensor]


def of_trainer(folder: Path) -> State:
    from safetensors.torch import load_file

    return load_file(folder / "out" / "model.safetensors")


def of_loop(folder: Path) -> State:
    return torch.load(folder / "model.pt")


def of_module(folder: Path) -> State:
    found = next(folder.rglob("final.ckpt"))
    return torch.load(found, weights_only=False)["state_dict"]


def begin(service: Any, example: str, folder: Path) -> ToldJob:
    from coadapt.executor.adaptive_executor import AdaptiveExecutor

    job = ToldJob(service, AdaptiveExecutor, folder)
    job.begin(
        ExecutorJob(
            id=job.id,
            script=str(EXAMPLES / example / "train.py"),
            args=(),
            training=TrainingConfig(report_interval_s=1.0),
            checkpoint_url=str(folder / "checkpoints"),
            outputs_url=str(folder / "outputs"),
            log_dir=str(folder / "logs"),
            gpus_per_replica={"*": 1},
            service_name=NAME,
            service_namespace=NAMESPACE,
            env={"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0"},
        )
    )
    return job


def run_shrunk(service: Any, example: str, folder: Path, cluster: EmulatedCluster) -> JobFinished:
    """Run an example with two replicas, then with the second of them alone."""
    job = begin(service, example, folder)
    try:
        a, b = cluster.slot("a100", 0), cluster.slot("a100", 1)
        job.assign(a, b)
        job.wait(Running, lambda event: len(event.slots) == 2)
        job.assign(b)
        assert job.wait(Running, lambda event: event.slots == (b,)).warm
        return job.wait(JobFinished)
    finally:
        job.end()


@pytest.mark.parametrize(
    ("example", "state_of"),
    [("transformers_trainer", of_trainer), ("accelerate_loop", of_loop), ("lightning_module", of_module)],
)
def test_an_example_is_resized_as_a_job_and_ends_as_the_plain_script(
    example: str,
    state_of: Callable[[Path], State],
    service: Any,
    emulated_cluster: EmulatedCluster,
    tmp_path: Path,
) -> None:
    run_plain(example, tmp_path / "plain")
    run_shrunk(service, example, tmp_path / "job", emulated_cluster)
    mine = state_of(tmp_path / "job" / "outputs")
    for name, value in state_of(tmp_path / "plain").items():
        torch.testing.assert_close(mine[name], value, rtol=1e-3, atol=3e-4)


def test_a_function_of_ray_train_is_resized_as_a_job_and_ends_as_alone(
    service: Any,
    emulated_cluster: EmulatedCluster,
    tmp_path: Path,
) -> None:
    said = run_plain("ray_train", tmp_path / "plain")
    end = run_shrunk(service, "ray_train", tmp_path / "job", emulated_cluster)
    assert end.metrics["error"] == pytest.approx(ast.literal_eval(said.splitlines()[-1])["error"], rel=1e-3)
