"""The job of a group of trials: from the user's job file and what a study asks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..actions import Submit
from ..rungs import levels
from ..study_file import StudyFile

STUDY, GROUP = "study", "group"  # labels of its jobs
# What a group has of the user's job file: the rest is for a job that adapts, or for a job of its own.
_OF_RESOURCES = ("gpu_types", "cpus_per_gpu", "memory_gib_per_gpu")
_OF_TRAINING = ("initial_batch_size", "seed", "report_interval_s", "hang_timeout_s")
_NOT_OF_GROUPS = ("deadline", "on_missed", "array", "retry", "after", "resume_from", "time_limit", "notify")


def job_of(
    study_id: str, study: StudyFile, base: Mapping[str, Any], asked: Submit, jobs: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields of the job that a group is.

    Args:
        base: fields of the user's job file.
        jobs: group -> its job, of those that trials go on from.
    """
    kept = kept_epochs(study)
    trials = [_trial(number, values, asked, jobs, kept) for number, values in sorted(asked.runs.items())]
    spec = {name: value for name, value in base.items() if name not in _NOT_OF_GROUPS}
    spec |= {
        "name": _name(asked.group, asked.elastic),
        "labels": {**base.get("labels", {}), STUDY: study_id, GROUP: asked.group},
        "weight": asked.weight,
        "trials": trials,
    }
    if asked.elastic:
        training = {name: one for name, one in base.get("training", {}).items() if name != "target"}
        # It is measured as it trains: what a profile run takes is worth more at the end of a study.
        return spec | {"training": training, "profile": base.get("profile", False)}
    resources, training = base.get("resources", {}), base.get("training", {})
    return spec | {
        "resources": {"gpus": 1, **{name: resources[name] for name in _OF_RESOURCES if name in resources}},
        "training": {
            "adaptivity": "rigid",
            **{name: training[name] for name in _OF_TRAINING if name in training},
        },
        "restart_policy": "on_loss",
        "until_epoch": asked.until,
        "kept_epochs": [epoch for epoch in kept if epoch <= asked.until],
        "shrink": asked.shrink,
    }


def kept_epochs(study: StudyFile) -> list[int]:
    """Return the epochs after which trials may go on elsewhere: the rungs of the search."""
    algorithm = study.algorithm
    return levels(algorithm.grace, algorithm.reduction, study.epochs) if algorithm.stops else []


def best_job(job: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a job file that trains with the best values."""
    return {**job, "trials": [{"values": dict(values)}]}


def _trial(
    number: int, values: Mapping[str, Any], asked: Submit, jobs: Mapping[str, str], kept: list[int]
) -> dict[str, Any]:
    found: dict[str, Any] = {"number": number, "values": dict(values)}
    if (origin := asked.origins.get(number)) is not None and not asked.elastic:
        found |= {"from_job": jobs[origin.group], "from_trial": origin.run}
        if origin.epoch in kept:
            found["from_epoch"] = origin.epoch
    return found


def _name(group: str, elastic: bool) -> str:
    return f"{group}.target"[:63] if elastic else group[:63]
