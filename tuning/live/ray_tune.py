"""Lets Ray Tune drive trials that are jobs of the cluster: each of its trials submits one and reports its epochs.

    from coadapt.tuning.live.ray_tune import trainable
    tune.Tuner(tune.with_resources(trainable("job.yaml", "val_acc"), {"cpu": 0}), param_space=…).fit()

Ray Tune proposes and stops; where and when a trial trains is the cluster's to say. Needs the extra `ray_tune`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.phase import Phase

if TYPE_CHECKING:
    from ...client.client import Client
    from ...core.job import JobSpec

LOOK_S = 2.0


def trainable(
    job: JobSpec | str | Path, metric: str, *, look_s: float = LOOK_S
) -> Callable[[dict[str, Any]], None]:
    """Return a function for `tune.Tuner`, whose trials are jobs like `job` with the values of their config.

    The cluster is the one that `coadapt` commands use here. Trials report `metric` and `epoch` after each epoch.

    Raises: JobFileError, for a job file that cannot be used.
    """
    from ...client import jobfile
    from ...client.client import connect

    spec = jobfile.located(job)
    here = connect()
    address, token = here.url, here.token

    def train(config: dict[str, Any]) -> None:
        from ray import tune

        for told in epochs_of(connect(address, token=token), spec, config, metric, look_s):
            tune.report(told)

    return train


def epochs_of(
    client: Client, spec: JobSpec, values: Mapping[str, Any], metric: str, look_s: float = LOOK_S
) -> Iterator[dict[str, Any]]:
    """Submit a trial as a job; yield its metric after each epoch. Whoever stops asking ends the job.

    Raises: RuntimeError, with the job's reason, where it fails or is cancelled by somebody else.
    """
    job = client.submit(trial_of(spec, values))
    epoch, over = 0, False
    try:
        while True:
            (row,) = client.jobs(ids=[job])
            phase = Phase(row["phase"])
            for event in client.events(job, last=1000, kinds=["trials"]):
                found = event.get("metrics", {}).get(metric)
                if found and event["epoch"] > epoch:
                    epoch = event["epoch"]
                    yield {metric: float(found[0]), "epoch": epoch}
            over = phase.is_terminal
            if phase is Phase.SUCCEEDED:
                return
            if over:
                raise RuntimeError(f"{job} is {phase}: {row['reason']}")
            time.sleep(look_s)
    finally:
        if not over:
            client.cancel(job)


def trial_of(spec: JobSpec, values: Mapping[str, Any]) -> JobSpec:
    """Return the job of one trial: rigid, on one GPU of the types that the job may use."""
    given = spec.model_dump(exclude_unset=True)
    kept = {name: one for name, one in given.get("resources", {}).items() if name in _KEPT}
    training = {**given.get("training", {}), "adaptivity": "rigid"}
    for name in ("max_batch_size", "target"):
        training.pop(name, None)
    fields = {
        **given,
        "trials": [{"values": dict(values)}],
        "resources": {"gpus": 1, **kept},
        "training": training,
    }
    return type(spec).model_validate(fields)


_KEPT = ("gpu_types", "cpus_per_gpu", "memory_gib_per_gpu")
