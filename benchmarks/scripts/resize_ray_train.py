"""What a Ray Train user writes: TorchTrainer with failure restarts and a checkpoint every 20 steps."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import ray
import torch
from ray import train
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

HERE = str(Path(__file__).parent)


def train_loop(config: dict) -> None:
    sys.path.insert(0, config["here"])
    from resize_step import StepLog, batches, build, train_step

    torch.set_num_threads(1)
    context = train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    bare, optimizer, data = build()
    step = 0
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            state = torch.load(os.path.join(directory, "state.pt"), weights_only=True)
        bare.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    model = prepare_model(bare)
    log = StepLog(config["folder"])
    for inputs, labels in batches(data, torch.Generator().manual_seed(rank)):
        train_step(model, optimizer, inputs, labels)
        step += 1
        log.step(rank, world)
        if step % 20 == 0:
            with tempfile.TemporaryDirectory() as directory:
                if rank == 0:
                    state = {"model": bare.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                    torch.save(state, os.path.join(directory, "state.pt"))
                saved = train.Checkpoint.from_directory(directory) if rank == 0 else None
                train.report({"step": step}, checkpoint=saved)


if __name__ == "__main__":
    folder = sys.argv[1]
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    TorchTrainer(
        train_loop,
        train_loop_config={"folder": folder, "here": HERE},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=RunConfig(
            storage_path=folder,
            name="run",
            failure_config=FailureConfig(max_failures=-1),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
