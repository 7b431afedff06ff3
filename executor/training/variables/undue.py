"""Numbers of batches, epochs and steps that a script may see, and that equal nothing yet."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Undue(int):
    """A number that equals no other, and no multiple of anything, until its time comes.

    `due()` tells whether it has come; without it, it never does. What is computed from it is undue, too.
    """

    _due: Callable[[], bool] | None

    def __new__(cls, value: int, due: Callable[[], bool] | None = None) -> Undue:
        number = super().__new__(cls, value)
        number._due = due
        return number

    @property
    def _is_due(self) -> bool:
        return self._due is not None and self._due()

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return int.__eq__(self, other) is True and (self._is_due or looks_up(sys._getframe(1)))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return not self._is_due or int.__bool__(self)

    def __reduce__(self) -> Any:
        return int, (int.__index__(self),)

    def _as_due(self, value: Any) -> Any:
        return type(self)(value, self._due) if value is not NotImplemented else value

    def __add__(self, other: Any) -> Any:
        return self._as_due(int.__add__(self, other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._as_due(int.__sub__(self, other))

    def __mul__(self, other: Any) -> Any:
        return self._as_due(int.__mul__(self, other))

    __rmul__ = __mul__

    def __mod__(self, other: Any) -> Any:
        return self._as_due(int.__mod__(self, other))

    def __floordiv__(self, other: Any) -> Any:
        return self._as_due(int.__floordiv__(self, other))


class Resumed(Undue):
    """The number of an epoch that others are in the midst of: what is done at this number alone was done.

    What goes by turns of epochs is decided as the others have decided it.
    """

    def __mod__(self, other: Any) -> Any:
        return int.__mod__(self, other)

    def __floordiv__(self, other: Any) -> Any:
        return int.__floordiv__(self, other)


class Late(Undue):
    """The number of a batch in a pass before its last: once the pass has trained, limits are not reached yet.

    What a script asks before it trains, such as `if i >= n: break` or whose turn it is, holds for all passes.
    """

    _trained: Callable[[], bool]

    def __new__(cls, value: int, trained: Callable[[], bool] = lambda: True) -> Late:
        number = int.__new__(cls, value)
        number._due, number._trained = None, trained
        return number

    def _as_due(self, value: Any) -> Any:
        return type(self)(value, self._trained) if value is not NotImplemented else value

    @property
    def _is_due(self) -> bool:
        return not self._trained()

    @property
    def _reached(self) -> int:
        return int(self) - self._trained()

    def __lt__(self, other: Any) -> bool:
        return self._reached < other

    def __le__(self, other: Any) -> bool:
        return self._reached <= other

    def __gt__(self, other: Any) -> bool:
        return self._reached > other

    def __ge__(self, other: Any) -> bool:
        return self._reached >= other


def operation(frame: FrameType) -> str:
    """Return what a frame is doing: the last instruction before its caches."""
    code, place = frame.f_code.co_code, frame.f_lasti
    while place > 0 and dis.opname[code[place]] == "CACHE":
        place -= 2
    return dis.opname[code[place]]


def looks_up(frame: FrameType) -> bool:
    """Return whether a frame reads an entry, as in `rates[epoch]`, where a number is a name and no condition."""
    return operation(frame).startswith("BINARY_SUBSCR")
