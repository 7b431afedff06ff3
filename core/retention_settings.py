"""How long what is over is kept, and how much of it. The defaults suit a disk of 1 TB."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Days = Annotated[float | None, Field(gt=0)]
Most = Annotated[int | None, Field(ge=1)]
Gib = Annotated[float | None, Field(gt=0)]


class RetentionSettings(BaseModel):
    """Limits by kind; None: none. Of jobs only what has ended is ever removed, the oldest first.

    ended_job_days, most_ended_jobs: jobs, with their outputs and logs.
    event_days, most_events: events of ended jobs and of the cluster.
    interval_days, most_intervals: when ended jobs held GPUs.
    profile_days, most_profiles: what later jobs of the same script start from.
    audit_days, most_audit: rows of the audit log. A row says which ones were removed.
    round_days, most_rounds: what rounds decided.
    metric_days: the history of metrics; the last values stay with the job.
    package_days: packages that no job names any more, since they were last asked for.
    checkpoint_days, checkpoint_gib; output_days, output_gib: where the cluster keeps them. Jobs with a
        `training.checkpoint.url` of their own keep theirs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    ended_job_days: Days = 365
    most_ended_jobs: Most = 200_000
    event_days: Days = 180
    most_events: Most = 5_000_000
    interval_days: Days = 365
    most_intervals: Most = 5_000_000
    profile_days: Days = 365
    most_profiles: Most = 20_000
    audit_days: Days = 730
    most_audit: Most = 1_000_000
    round_days: Days = 30
    most_rounds: Most = 50_000
    metric_days: Days = 180
    package_days: Annotated[float, Field(gt=0)] = 7
    checkpoint_days: Days = 30
    checkpoint_gib: Gib = 500
    output_days: Days = 365
    output_gib: Gib = 200
