"""What the service accepts as a job, whoever sends it: a client may have checked nothing."""

from __future__ import annotations

from ...core.job import JobSpec
from ...core.job_limits import MOST_BYTES, JobLimitError, sent_refusals
from ..files.packages import PackageStore


def accepted(spec_json: str, package: str | None, packages: PackageStore | None = None) -> JobSpec:
    """Return the job in some JSON.

    Args:
        package: the name of its working folder.
        packages: where that was put before; None: it may still come.

    Raises: JobLimitError; PackageError; pydantic.ValidationError for a field of a wrong form.
    """
    if (size := len(spec_json)) > MOST_BYTES:
        raise JobLimitError([f"job: has {size} characters of JSON; at most {MOST_BYTES} are accepted"])
    spec = JobSpec.model_validate_json(spec_json)
    if problems := sent_refusals(spec):
        raise JobLimitError(problems)
    if package and packages is not None:
        packages.find(package)
    return spec
