"""What a study hands over: a job with the best values, and rows of trials."""

from __future__ import annotations

import json

from coadapt.tuning.result import best_job, rows

from tests.support.played_studies import Cluster, study_of


def test_the_job_has_the_best_values_in_its_environment() -> None:
    job = {"script": "train.py", "env": {"A": "1"}}
    found = best_job(job, {"lr": 0.1, "batch_size": 64})
    assert json.loads(found["env"]["COADAPT_HYPERPARAMETERS"]) == {"lr": 0.1, "batch_size": 64}
    assert found["env"]["A"] == "1"
    assert job["env"] == {"A": "1"}


def test_rows_tell_of_each_trial_what_it_reached_and_what_it_cost() -> None:
    cluster = Cluster(study_of(trials=9))
    cluster.play()
    found = rows(cluster.state)
    assert len([one for one in found if one.shrink == 8]) == 9
    assert {one.state for one in found} == {"done", "stopped"}
    assert all(one.best is not None and one.epochs >= 1 for one in found)
    held = sum(job.gpu_s for job in cluster.jobs.values())
    assert abs(sum(one.gpu_s for one in found) - held) < 1e-6
    assert [one.trial for one in found] == sorted(one.trial for one in found)
