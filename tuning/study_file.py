"""A study's file: YAML -> `StudyFile`, and what is wrong with one in one sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..core import safe_yaml
from ..core.refused_values import shown, why_refused
from ..core.span_field import Span
from .space import Space, SpaceError, read

ALGORITHMS = ("random", "tpe", "gp", "halving", "hyperband", "asha")
MOST_TRIALS = 100_000
MOST_EPOCHS = 100_000
# Their best values do not carry over from a narrow model (Hydro, section 3.6).
_NOT_TRANSFERRED = re.compile(r"(^|_)(weight_?decay|wd|l2|drop_?out|drop_?path|drop(_rate|_prob|_p)?)(_|$|\d)")
_TEXT_FIELDS = ("name",)


class StudyFileError(ValueError):
    """A study file that is not accepted; one sentence with field, value and what is accepted."""


class Algorithm(BaseModel):
    """How trials are proposed, and which of them stop early.

    `grace`: epochs that every trial trains. `reduction`: of so many trials at a rung, one goes on.
    `wave`: how many trials are proposed before the results of earlier ones are known; of `tpe` and `gp`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: Literal["random", "tpe", "gp", "halving", "hyperband", "asha"] = "asha"
    grace: int = Field(default=1, ge=1, le=MOST_EPOCHS)
    reduction: int = Field(default=3, ge=2, le=100)
    wave: int | None = Field(default=None, ge=1, le=MOST_TRIALS)

    @property
    def stops(self) -> bool:
        """Whether trials may stop before their last epoch."""
        return self.name in ("halving", "hyperband", "asha")

    @property
    def learns(self) -> bool:
        """Whether a proposal depends on the results of earlier trials."""
        return self.name in ("tpe", "gp")


class StudyFile(BaseModel):
    """What a user asks of a study. `epochs` are those of a whole training; a trial reports once an epoch."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
    job: str | dict[str, Any]
    space: dict[str, Any]
    metric: str = Field(min_length=1, max_length=200)
    mode: Literal["min", "max"]
    trials: int = Field(ge=1, le=MOST_TRIALS)
    epochs: int = Field(ge=1, le=MOST_EPOCHS)
    algorithm: Algorithm = Algorithm()
    apart: tuple[str, ...] = ()
    shrink: int = Field(default=8, ge=1, le=1024)
    widths: tuple[int, ...] | None = None
    fuse: bool | int = True
    deadline: Span | None = None
    promote: int = Field(default=3, ge=1, le=100)
    eager: float = Field(default=0.5, gt=0, le=1, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0, lt=2**31)

    @field_validator("algorithm", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """Read `asha`, and `{asha: {grace: 3}}`."""
        if isinstance(value, str):
            value = {value: {}}
        if not isinstance(value, Mapping) or len(value) != 1:
            raise ValueError(f"{shown(value)} is not one of {', '.join(ALGORITHMS)}, such as asha: {{grace: 3}}")
        ((name, options),) = value.items()
        if name not in ALGORITHMS:
            raise ValueError(f"{shown(name)} is not one of {', '.join(ALGORITHMS)}")
        if not isinstance(options, Mapping):
            raise ValueError(f"{name}: {shown(options)} is not a mapping, such as {{grace: 3}}")
        takes = {"grace", "reduction"} if name in ("halving", "hyperband", "asha") else set[str]()
        takes |= {"wave"} if name in ("tpe", "gp") else set()
        for option in options:
            if option not in takes:
                known = f"known: {', '.join(sorted(takes))}" if takes else f"{name} has no options"
                raise ValueError(f"{name}.{option}: unknown option; {known}")
        return {**options, "name": name}

    @field_validator("fuse", mode="before")
    @classmethod
    def _group(cls, value: Any) -> Any:
        if not isinstance(value, bool) and not (isinstance(value, int) and 1 <= value <= 10_000):
            raise ValueError(f"{shown(value)} is not true, false, or the largest number of trials in a group")
        return value

    @model_validator(mode="after")
    def _can_be(self) -> StudyFile:
        try:
            space = self.searched()
        except SpaceError as error:
            raise ValueError(f"space: {error}") from None
        for name in self.apart:
            if name not in self.space:
                raise ValueError(f"apart: {shown(name)} is not in the space, which has {', '.join(self.space)}")
        self._check_widths(space)
        if self.algorithm.stops and self.algorithm.grace > self.epochs:
            raise ValueError(
                f"algorithm.grace: {self.algorithm.grace} epochs are more than a whole training has, {self.epochs}"
            )
        if space.size < self.trials:
            raise ValueError(f"trials: {self.trials} is more than the {space.size:.0f} that the space has")
        if isinstance(self.job, dict) and not self.job:
            raise ValueError("job: it is empty; the path of a job file, or its fields, are accepted")
        return self

    def _check_widths(self, space: Space) -> None:
        for one in space.searched:
            if self.shrink > 1 and _NOT_TRANSFERRED.search(one.name.lower()):
                raise ValueError(
                    f"space.{one.name}: the best value of a narrow model is not that of the wide one; "
                    "give it one value, or set shrink: 1"
                )
        if self.widths is None:
            return
        if not self.widths or self.widths[-1] != 1 or list(self.widths) != sorted(set(self.widths), reverse=True):
            raise ValueError(f"widths: {list(self.widths)} are not divisors that fall to 1, such as [2, 1]")
        if self.widths[0] >= self.shrink > 1:
            raise ValueError(f"widths: {self.widths[0]} is not below shrink, which is {self.shrink}")

    def searched(self) -> Space:
        """Return the space. Raises: SpaceError."""
        return read(self.space)

    def cannot_fuse(self) -> frozenset[str]:
        """Return the names by whose values trials are grouped."""
        return frozenset(self.searched().cannot_fuse() | set(self.apart))

    @property
    def ladder(self) -> tuple[int, ...]:
        """Divisors of the width that promoted trials pass, down to 1; () where the trials are the target."""
        if self.shrink == 1:
            return ()
        return self.widths or ((2, 1) if self.shrink > 2 else (1,))


def parse(data: bytes | str) -> StudyFile:
    """Return the study of a file's content. Raises: StudyFileError."""
    try:
        values = safe_yaml.read(data.encode() if isinstance(data, str) else data, _TEXT_FIELDS)
    except safe_yaml.YamlProblem as error:
        raise StudyFileError(safe_yaml.told(error, "study file")) from None
    if not isinstance(values, dict):
        raise StudyFileError(f"{shown(values)} is not a mapping of fields, such as name, job, space and metric")
    return from_values(values)


def from_values(values: Mapping[str, Any]) -> StudyFile:
    """Return the study of these fields. Raises: StudyFileError."""
    try:
        return StudyFile.model_validate(dict(values))
    except ValidationError as error:
        raise StudyFileError(_sentence(error)) from None


def deadline_problem(study: StudyFile, epoch_s: float, of: str = "the target") -> str:
    """Return why a deadline leaves no time for an epoch, or "". `epoch_s`: measured. `of`: what trains so long."""
    if study.deadline is None or study.deadline >= epoch_s:
        return ""
    takes = f"{float(f'{epoch_s:.3g}'):g} s"
    return f"deadline: {study.deadline:g} s is less than an epoch of {of}, which takes {takes}"


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"] if part not in ("str", "bool", "int", "dict[str,any]"))
    if first["type"] == "extra_forbidden":
        return f"{field}: unknown field; known: {', '.join(StudyFile.model_fields)}"
    if first["type"] == "missing":
        return f"{field}: missing; a study names {', '.join(_required())}"
    if field == "job":
        return f"job: {shown(first['input'])} is neither the path of a job file nor its fields"
    return f"{field}: {why_refused(first)}" if field else why_refused(first)


def _required() -> list[str]:
    return [name for name, one in StudyFile.model_fields.items() if one.is_required()]
