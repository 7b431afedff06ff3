"""Trials of a study, as a job file has them: values that the script is to take, and where each begins."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from .job_relations import JobName

MOST_TRIALS = 10_000  # in one group
ValueName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
Value = bool | int | float | str


class Trial(BaseModel):
    """One setting of a script's hyper-parameters."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    number: int = Field(default=0, ge=0, lt=2**31)
    """Its number in its study."""
    values: dict[ValueName, Value] = {}
    """Values by the names that the script gives to coadapt.hyperparameters."""
    from_job: JobName | None = None
    """A job from whose checkpoint it goes on; by default it begins as the script does."""
    from_trial: int | None = Field(default=None, ge=0, lt=2**31)
    """The trial of that job that it goes on from; by default that of the same number."""

    from_epoch: int | None = Field(default=None, ge=1, lt=2**31)
    """The epoch after which that job has kept its state; by default the newest."""

    @field_validator("values", mode="before")
    @classmethod
    def _finite(cls, values: Any) -> Any:
        for name, value in values.items() if isinstance(values, Mapping) else ():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name}: {value} is no finite number")
        return values

    @model_validator(mode="after")
    def _comes_of_a_job(self) -> Trial:
        for name in ("from_trial", "from_epoch"):
            if getattr(self, name) is not None and self.from_job is None:
                raise ValueError(f"{name}: {getattr(self, name)} is of a job, and from_job is not given")
        return self

    @property
    def source(self) -> int:
        """The number of the trial that it goes on from."""
        return self.number if self.from_trial is None else self.from_trial


def as_variable(trials: Sequence[Trial]) -> str:
    """Return trials as the text of a variable of their process."""
    return json.dumps([trial.model_dump(mode="json", exclude_defaults=True) for trial in trials])


def of_variable(text: str) -> list[Trial]:
    """Return trials from the text of a variable. Raises: ValueError for another text."""
    return [Trial.model_validate(one) for one in json.loads(text)]


def kept(trials: Sequence[Trial], numbers: Sequence[int]) -> list[Trial]:
    """Return the trials with these numbers, in their order. Raises: ValueError for one that is not there."""
    known = {trial.number for trial in trials}
    if strange := [number for number in numbers if number not in known]:
        there = ", ".join(map(str, sorted(known)))
        raise ValueError(f"trials: {strange[0]} is not among those of the job, which are {there}")
    if not numbers:
        raise ValueError("trials: none is kept; cancel the job instead")
    return [trial for trial in trials if trial.number in set(numbers)]


def url_of_epoch(url: str, epoch: int) -> str:
    """Return where a group keeps the states of an epoch for others, in the folder of its checkpoints."""
    return f"{url.rstrip('/')}/epoch-{epoch}"


def check_numbers(trials: Sequence[Trial]) -> None:
    """Refuse trials of one job that share a number. Raises: ValueError."""
    numbers = [trial.number for trial in trials]
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise ValueError(f"trials: number {twice} is given twice")
