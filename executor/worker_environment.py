"""The environment variables of a training process: torchrun's and ours."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..core.training_config import Adaptivity
from ..core.trials import as_variable
from .executor_job import ExecutorJob
from .processes.template_wire import ONE_THREAD
from .protocol.messages import (
    CHECKPOINT_URL,
    DEVICES,
    GPU_TYPE,
    HYPERPARAMETERS,
    JOB_ID,
    JOB_LIFE,
    KEPT_EPOCHS,
    MODE,
    NODE_ID,
    PACE_JSON,
    PROFILE_JSON,
    SHARDS,
    SHRINK,
    TRACKERS,
    TRAINING_JSON,
    TRIAL_SOURCES,
    TRIALS,
    UNTIL_EPOCH,
)
from .protocol.ranks import Rendezvous
from .reconciling.effects import StartWorker


def tracking(job_id: str, profile: bool, trackers: Sequence[str] = ()) -> dict[str, str]:
    """Return variables that make a job, restarts included, one run for experiment trackers.

    trackers: to which metrics of `coadapt.report` go on; none is told of a profile run.
    """
    if profile:
        return {"WANDB_MODE": "disabled", "MLFLOW_RUN_NAME": f"{job_id} (measuring)"}
    told = {"WANDB_RUN_ID": job_id, "WANDB_RESUME": "allow", "MLFLOW_RUN_NAME": job_id}
    return {**told, TRACKERS: ",".join(trackers)} if trackers else told


def trials_of(job: ExecutorJob) -> dict[str, str]:
    """Return variables that say which hyper-parameters the script has, and how narrow its model is."""
    found = {SHRINK: str(job.shrink)} if job.shrink > 1 else {}
    if not job.trials:
        return found
    values = [trial.values for trial in job.trials]
    found[HYPERPARAMETERS] = json.dumps(values if len(values) > 1 else values[0])
    if job.training.adaptivity is Adaptivity.RIGID:
        found |= {TRIALS: as_variable(job.trials), TRIAL_SOURCES: json.dumps(dict(job.trial_sources))}
        found |= {KEPT_EPOCHS: ",".join(map(str, job.kept_epochs))} if job.kept_epochs else {}
        found |= {} if job.until_epoch is None else {UNTIL_EPOCH: str(job.until_epoch)}
    return found


def worker_environment(job: ExecutorJob, start: StartWorker, store: Rendezvous) -> dict[str, str]:
    """Return what is added to the worker actor's own environment; the user's `env` overrides none of ours.

    A worker sees only its own GPUs, so LOCAL_RANK, which scripts use as a device index, is 0. RANK and WORLD_SIZE
    are those expected at the start; the group that the process joins has the last word.
    """
    environment = {
        **(ONE_THREAD if start.slot.emulated else {}),
        **tracking(job.id, start.profile, job.trackers),
        **job.env,
        JOB_ID: job.id,
        JOB_LIFE: str(job.life),
        "RANK": str(start.rank),
        "WORLD_SIZE": str(start.world_size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(start.rank),
        "MASTER_ADDR": store.host,
        "MASTER_PORT": str(store.port),
        MODE: "profile" if start.profile else "train",
        TRAINING_JSON: job.training.model_dump_json(),
        CHECKPOINT_URL: job.checkpoint_url,
        GPU_TYPE: start.slot.gpu_type,
        NODE_ID: start.slot.node_id,
        DEVICES: ",".join(map(str, start.slot.devices)),
        "PYTHONUNBUFFERED": "1",
    }
    if start.profile:
        environment[PROFILE_JSON] = start.progress.to_json()
    if job.sharded:
        environment[SHARDS] = str(start.slot.gpus)
    environment |= trials_of(job)
    if start.slot.emulated:
        environment["CUDA_VISIBLE_DEVICES"] = ""
        if job.pace is not None:
            environment[PACE_JSON] = json.dumps(dict(job.pace))
    return environment
