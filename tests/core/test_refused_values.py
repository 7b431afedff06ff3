"""Promises of the words for a refused value: they repeat the value, and say what is accepted."""

from typing import Annotated, Any, Literal

import pytest
from coadapt.core.refused_values import refused
from pydantic import Field, TypeAdapter, ValidationError


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (int, "1.5", "1.5 is not a whole number"),
        (float, "soon", "soon is not a number"),
        (Annotated[float, Field(ge=1)], 0.5, "0.5 is not a number of at least 1"),
        (Annotated[float, Field(gt=0)], 0, "0 is not a number above 0"),
        (Annotated[int, Field(le=8)], 9, "9 is not a number of at most 8"),
        (Annotated[float, Field(allow_inf_nan=False)], float("nan"), "NaN is not a finite number"),
        (Literal["auto", "never"], "ever", "ever is not one of auto, never"),
        (bool, "maybe", "maybe is not true or false"),
        (int, None, "an empty value is not a whole number"),
        (int, "two\nlines", "two lines is not a whole number"),
    ],
)
def test_a_refused_value_is_told_with_what_is_accepted(kind: Any, value: Any, told: str) -> None:
    with pytest.raises(ValidationError) as error:
        TypeAdapter(kind).validate_python(value)
    assert refused(error.value.errors()[0]) == told
