"""What a job file says of other jobs, and of its own next try: `after`, `resume_from` and `retry`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from .span_field import Span

MOST_AWAITED = 1000
JobName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}$")]
JobNames = Annotated[list[JobName], Field(max_length=MOST_AWAITED)]


class _Strict(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, hide_input_in_errors=True
    )


class AfterJobs(_Strict):
    """Jobs that have to end before this one starts, by id or name."""

    ok: JobNames = []
    """Those that have to succeed; if one fails or is cancelled, this job ends, too."""
    any: JobNames = []
    """Those that only have to end."""

    @property
    def all(self) -> tuple[str, ...]:
        """Return all of them."""
        return (*self.ok, *self.any)


def _as_mapping(value: Any) -> Any:
    return {"ok": value} if isinstance(value, list) else value


After = Annotated[
    AfterJobs,
    BeforeValidator(_as_mapping),
    WithJsonSchema(
        {"anyOf": [{"type": "array", "items": {"type": "string"}}, AfterJobs.model_json_schema(mode="validation")]}
    ),
]
"""A list of jobs that have to succeed, or a mapping with `ok` and `any`."""

ResumeFrom = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}(@[0-9]{1,12})?$")]


class Retry(_Strict):
    """How a job that has failed begins again by itself, from its last checkpoint."""

    times: Annotated[int, Field(ge=1, le=100)] = 3
    """How often it does so."""
    wait: Span = 60.0
    """How long it waits before the first time, in seconds or as in 10m."""
    factor: Annotated[float, Field(ge=1, le=100)] = 2.0
    """By how much each wait is longer than the one before."""

    def wait_s(self, retries: int) -> float:
        """Return the wait after so many retries. It is at most a week."""
        return float(min(self.wait * self.factor**retries, 7 * 86_400.0))


def source_of(resume_from: str) -> tuple[str, int | None]:
    """Return the job and the step of its checkpoint that `JOB` or `JOB@STEP` names; None: the newest."""
    job, _, step = resume_from.partition("@")
    return job, int(step) if step else None
