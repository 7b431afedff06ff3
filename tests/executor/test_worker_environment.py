"""What a training process is told in its environment."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.slot import Slot
from coadapt.executor.executor_job import ExecutorJob
from coadapt.executor.protocol.ranks import Rendezvous
from coadapt.executor.reconciling.effects import StartWorker
from coadapt.executor.worker_environment import worker_environment


def environment(profile: bool = False, emulated: bool = True, **env: str) -> dict[str, Any]:
    job = ExecutorJob("train-7", "train.py", env=env, checkpoint_url="/c/train-7")
    start = StartWorker("w-1", Slot("n", "l", (0, 3), "t4", emulated=emulated), profile, rank=1, world_size=2)
    return worker_environment(job, start, Rendezvous("10.0.0.1", 123))


def test_a_script_knows_its_jobs_id_and_trackers_go_on_with_one_run() -> None:
    told = environment()
    assert told["COADAPT_JOB_ID"] == "train-7"
    assert (told["WANDB_RUN_ID"], told["WANDB_RESUME"], told["MLFLOW_RUN_NAME"]) == ("train-7", "allow", "train-7")


def test_a_script_knows_its_gpus_by_their_position_on_the_node() -> None:
    told = environment()
    assert (told["COADAPT_NODE_ID"], told["COADAPT_DEVICES"]) == ("n", "0,3")


def test_what_the_user_set_for_a_tracker_stays() -> None:
    told = environment(WANDB_RUN_ID="mine", WANDB_RESUME="never", MLFLOW_RUN_NAME="ours")
    assert (told["WANDB_RUN_ID"], told["WANDB_RESUME"], told["MLFLOW_RUN_NAME"]) == ("mine", "never", "ours")


def test_profile_runs_write_into_no_run_of_a_tracker() -> None:
    told = environment(profile=True)
    assert told["WANDB_MODE"] == "disabled"
    assert "WANDB_RUN_ID" not in told
    assert told["MLFLOW_RUN_NAME"] != environment()["MLFLOW_RUN_NAME"]


@pytest.mark.parametrize(("emulated", "threads"), [(True, "1"), (False, None)])
def test_only_emulated_replicas_are_kept_to_one_thread(emulated: bool, threads: str | None) -> None:
    assert environment(emulated=emulated).get("OMP_NUM_THREADS") == threads
