"""Arrays of jobs: one job file with a grid or a list of values, which makes a job of each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

MOST_ELEMENTS = 1000
NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"
_HOLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]{0,62})\}")


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Value = Annotated[str, BeforeValidator(_as_text), Field(max_length=1024, pattern=r"^[^\x00]*$")]
ValueName = Annotated[str, Field(pattern=NAME)]


class Array(BaseModel):
    """The values of an array; `{NAME}` in args, command and env stands for the value of NAME."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    grid: dict[ValueName, Annotated[list[Value], Field(min_length=1)]] = {}
    """Values by name; each combination is a job."""
    values: list[Annotated[dict[ValueName, Value], Field(min_length=1)]] = []
    """A list of mappings from name to value; each is a job."""

    @model_validator(mode="after")
    def _has_elements(self) -> Array:
        if bool(self.grid) == bool(self.values):
            raise ValueError("grid or values: exactly one of them is accepted, and not empty")
        if self.size > MOST_ELEMENTS:
            raise ValueError(f"has {self.size} jobs; at most {MOST_ELEMENTS} are accepted")
        names = [set(one) for one in self.values]
        if any(one != names[0] for one in names):
            raise ValueError("values: each entry has to name the same values")
        return self

    @property
    def size(self) -> int:
        """Return how many jobs it makes."""
        return len(self.values) or prod(len(values) for values in self.grid.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its values."""
        return tuple(self.grid or self.values[0])

    def elements(self) -> Iterator[dict[str, str]]:
        """Yield the values of each job, the last name of a grid fastest."""
        if self.values:
            yield from self.values
        else:
            for combination in product(*self.grid.values()):
                yield dict(zip(self.grid, combination, strict=True))


@dataclass(frozen=True)
class ArrayElement:
    """Where a job stands in an array. `id`: of the array; "": it is the first one, which names it."""

    id: str
    index: int
    values: Mapping[str, str]


def filled_in(text: str, values: Mapping[str, str]) -> str:
    """Return a text with values in place of their names in braces; other braces stay."""
    return _HOLE.sub(lambda hole: values.get(hole[1], hole[0]), text)


def used_in(texts: Iterator[str]) -> set[str]:
    """Return the names that stand in braces."""
    return {name for text in texts for name in _HOLE.findall(text)}
