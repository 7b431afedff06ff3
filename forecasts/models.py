"""A job's goodput model as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from ..estimators.goodput import BatchLimits, JobModel
from ..estimators.throughput import ThroughputModel, ThroughputParams


def to_row(model: JobModel) -> dict[str, Any]:
    """Return a model as JSON's own values."""
    return {
        "throughput": {
            gpu_type: {**asdict(known), "params": known.params.to_json()}
            for gpu_type, known in model.throughput.items()
        },
        "noise_scale": model.noise_scale,
        "limits": asdict(model.limits),
        "gpus_per_replica": dict(model.gpus_per_replica),
    }


def of_row(row: JobModel | Mapping[str, Any]) -> JobModel:
    """Return the model that `to_row` wrote. Raises: ValueError, KeyError or TypeError for anything else."""
    if isinstance(row, JobModel):
        return row
    return JobModel(
        throughput={
            gpu_type: ThroughputModel(**{**known, "params": ThroughputParams.from_json(known["params"])})
            for gpu_type, known in row["throughput"].items()
        },
        noise_scale=row["noise_scale"],
        limits=BatchLimits(**row["limits"]),
        gpus_per_replica=dict(row["gpus_per_replica"]),
    )


# A field of a value that goes to another process.
SentModel = Annotated[JobModel, PlainValidator(of_row), PlainSerializer(to_row)]
