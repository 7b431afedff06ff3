"""Words that programs read, each with a line that says what it means."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Code(StrEnum):
    """A member is written as `NAME = "value", "line"`. It is equal to its value; `line` is for people."""

    line: str

    def __new__(cls, value: str, line: str = "") -> Self:
        """Return a member whose value is the word alone."""
        member = str.__new__(cls, value)
        member._value_, member.line = value, line
        return member
