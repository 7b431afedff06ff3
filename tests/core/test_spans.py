"""Spans of time are read as people write them, and nothing else is one."""

import pytest
from coadapt.core.span_field import Span
from coadapt.core.spans import seconds_of
from pydantic import TypeAdapter, ValidationError


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), (" 2d ", 172_800)])
def test_a_span_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert TypeAdapter(Span).validate_python(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "10", "10 m", "-1h", "1w", "1e3s"])
def test_any_other_text_is_none(text: str) -> None:
    assert seconds_of(text) is None
    with pytest.raises(ValidationError):
        TypeAdapter(Span).validate_python(text)


def test_seconds_are_a_span_and_yes_is_not() -> None:
    assert TypeAdapter(Span).validate_python(90) == 90.0
    for refused in (0, -1, True, float("nan"), float("inf")):
        with pytest.raises(ValidationError):
            TypeAdapter(Span).validate_python(refused)
