"""Widths that a script asks for, which know how wide the target is."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any

from .errors import CannotShrink

VARIABLE = "COADAPT_SHRINK"  # a whole number: widths are divided by it
ZERO = "COADAPT_SHRINK_ZERO"  # 1: readouts and query projections of narrow models begin at 0
LEAST = 8  # Too few neurons are no sample of a wide layer's; mean-field limits need many.
_known: dict[int, set[int]] = {}  # the narrow numbers that a script has computed from widths, and the wide ones


def divisor() -> int:
    """Return by what this process divides widths; 1: it trains the target.

    Raises: ValueError, if the environment says something else than a whole number of at least 1.
    """
    text = os.environ.get(VARIABLE, "1")
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{VARIABLE}: {text!r} is no divisor of widths; a whole number of at least 1 is accepted")
    return int(text)


def begins_at_zero() -> bool:
    """Return whether readouts and queries of narrow models begin at 0.

    They do not by default: the target begins as its script says, and a narrow model that begins otherwise learns
    otherwise (`python -m benchmarks.width_transfer` measures by how much).

    Raises: ValueError, if the environment says neither 0 nor 1.
    """
    if (text := os.environ.get(ZERO, "0")) not in ("0", "1"):
        raise ValueError(f"{ZERO}: {text!r} is neither 0 nor 1")
    return text == "1"


class Width(int):
    """A narrow width. It knows that of the target, also after `+`, `-`, `*`, `//`; `int()` makes it forget."""

    wide: int

    def __new__(cls, narrow: int, wide: int) -> Width:
        found = super().__new__(cls, narrow)
        found.wide = wide
        _known.setdefault(narrow, set()).add(wide)
        return found

    def __getnewargs__(self) -> tuple[int, int]:  # type: ignore[override]  # those of this class
        return int(self), self.wide


def width(wide: int, least: int = LEAST) -> int:
    """Return the width that this process gives to what is `wide` in the target.

    Args:
        least: the narrowest that is accepted. Numbers of heads may be small.

    Raises: CannotShrink, where it does not divide or gets too narrow.
    """
    return wide if (by := divisor()) == 1 else Width(divided("width", wide, by, least), wide)


def divided(what: str, wide: int, by: int, least: int = LEAST) -> int:
    """Return a size divided by a number. Raises: CannotShrink, with `what` it is, if that cannot be."""
    if wide % by:
        raise CannotShrink(f"shrink: {what} is {wide}, which cannot be divided by {by}")
    if wide // by < least:
        raise CannotShrink(f"shrink: {what} is {wide}, divided by {by} {wide // by}; at least {least} is accepted")
    return wide // by


def wide_of(size: int) -> int:
    """Return the size that a size of a layer has in the target: its own one if it is no width."""
    return size.wide if isinstance(size, Width) else size


def known() -> dict[int, set[int]]:
    """Return the narrow numbers that a script has computed from widths, with those of the target."""
    return _known


def forget() -> None:
    """Forget the widths that were asked for; a process has one script, and tests have many."""
    _known.clear()


def _method(compute: Callable[[int, int], int], swapped: bool) -> Callable[[Width, Any], Any]:
    def method(self: Width, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        pairs = (int(self), int(other)), (self.wide, wide_of(other))
        narrow, wide = (compute(*reversed(pair)) if swapped else compute(*pair) for pair in pairs)
        return Width(narrow, wide)

    return method


for _name in ("add", "sub", "mul", "floordiv"):
    setattr(Width, f"__{_name}__", _method(getattr(operator, _name), swapped=False))
    setattr(Width, f"__r{_name}__", _method(getattr(operator, _name), swapped=True))
