"""Options of all models are told alike: with their name, their value and the numbers that are accepted."""

from __future__ import annotations

import pytest
from coadapt.core.options import options_of
from pydantic import BaseModel, ConfigDict, Field, model_validator


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    free: float = 0.0
    below: float = Field(default=0.0, lt=1)
    between: int = Field(default=1, gt=0, lt=10)
    shown: int | None = Field(default=None, ge=2, le=5, alias="as-typed")
    either: bool | int = False

    @model_validator(mode="after")
    def _fits(self) -> Options:
        if self.free == 13.0:
            raise ValueError("13 brings bad luck")
        return self


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("free", "x", "free: 'x' is not accepted, must be a number, and finite"),
        ("below", 1, "below: 1 is not accepted, must be a number below 1"),
        ("between", 0, "between: 0 is not accepted, must be a whole number above 0 and below 10"),
        ("between", False, "between: False is not accepted, must be a whole number above 0 and below 10"),
        ("as-typed", 6, "as-typed: 6 is not accepted, must be a whole number from 2 to 5"),
        ("shown", 3, "option 'shown' is unknown; accepted: free, below, between, as-typed, either"),
        ("free", 13, "options: {'free': 13} is not accepted: 13 brings bad luck"),
    ],
)
def test_an_option_that_is_not_accepted_is_one_sentence(name: str, value: object, told: str) -> None:
    with pytest.raises(ValueError, match="policy p") as error:
        options_of(Options, "policy p", {name: value})
    assert str(error.value) == f"policy p: {told}"


def test_what_is_accepted_is_taken() -> None:
    found = options_of(Options, "policy p", {"free": 2, "as-typed": 3, "either": True})
    assert (found.free, found.shown, found.either) == (2.0, 3, True)
