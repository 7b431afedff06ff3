"""A trial of Ray Tune is a job of the cluster, which ends with it."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.job import JobSpec
from coadapt.tuning.live.ray_tune import epochs_of, trial_of

from tests.support.played_verbs import PlayedCluster, accuracy

SPEC = JobSpec.model_validate(
    {
        "name": "digits",
        "script": "train.py",
        "resources": {"max_gpus": 4, "gpu_types": ["t4"]},
        "training": {"initial_batch_size": 64, "max_batch_size": 256, "target": {"metric": "loss", "at_most": 1}},
    }
)


class Ticking(PlayedCluster):
    """A cluster on which an epoch passes whenever somebody looks."""

    def submit(self, spec: JobSpec) -> str:
        return self.submit_told({"spec": spec.model_dump(exclude_unset=True)}, str(len(self.keys)))

    def jobs(self, *, ids: Any) -> Any:
        self.tick()
        return super().jobs(ids=ids)


def test_a_trial_reports_each_epoch_of_its_job() -> None:
    cluster: Any = Ticking(epochs=5)
    found = list(epochs_of(cluster, SPEC, {"lr": 0.2}, "accuracy", look_s=0))
    assert found == [{"accuracy": accuracy({"lr": 0.2}, 1, epoch), "epoch": epoch} for epoch in range(1, 6)]


def test_a_trial_that_ray_tune_stops_ends_its_job() -> None:
    cluster: Any = Ticking(epochs=5)
    trial = epochs_of(cluster, SPEC, {"lr": 0.2}, "accuracy", look_s=0)
    next(trial)
    trial.close()
    (job,) = cluster.jobs_by_id.values()
    assert job.phase == "cancelled"


def test_a_trial_whose_job_fails_says_why() -> None:
    cluster: Any = Ticking(fails=lambda spec: "ValueError: no data")
    with pytest.raises(RuntimeError, match="is failed: ValueError: no data"):
        list(epochs_of(cluster, SPEC, {"lr": 0.2}, "accuracy", look_s=0))


def test_a_trial_trains_on_one_gpu_of_the_types_that_the_job_may_use() -> None:
    trial = trial_of(SPEC, {"lr": 0.2})
    assert (trial.is_group, trial.resources.gpus, trial.resources.gpu_types) == (True, 1, ["t4"])
