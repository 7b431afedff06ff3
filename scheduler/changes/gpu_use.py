"""What becomes of a job's record when its executor tells how much its GPUs were used. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...core.usage import IDLE_BELOW, UsageOn, idle_gpu_minutes, is_notably_idle
from ...executor.protocol.job_events import Used
from ..jobs.record import JobRecord


def with_usage(job: JobRecord, used: Used | None, now: float) -> tuple[JobRecord, str]:
    """Return the job with what is told, and a sentence where its GPUs are found to be idle, once a job.

    What was told before changes nothing.
    """
    if used is None or _known(job, used):
        return job, ""
    usage = dict(job.usage)
    for gpu_type, more in used.by_type.items():
        usage[gpu_type] = usage.get(gpu_type, UsageOn()).with_more(more, now)
    told = not job.told_idle and is_notably_idle(usage.values())
    changed = replace(job, usage=usage, usage_told=(used.executor, used.number), told_idle=job.told_idle or told)
    return changed, idle_sentence(usage) if told else ""


def _known(job: JobRecord, used: Used) -> bool:
    executor, number = job.usage_told
    return used.executor == executor and used.number <= number


def idle_sentence(usage: Mapping[str, UsageOn]) -> str:
    """Say on which GPU types a job held GPUs that it did not use, and for how long."""
    minutes = idle_gpu_minutes(usage.values()) or 0.0
    types = ", ".join(sorted(t for t, one in usage.items() if one.mean.idle_s > 0))
    return (
        f"its GPUs are idle: for {minutes:.0f} GPU-minutes so far it held {types} and used it less than "
        f"{IDLE_BELOW:.0%} of the time"
    )
