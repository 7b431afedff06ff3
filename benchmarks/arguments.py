"""Types of benchmarks' arguments: what makes no sense is refused in one sentence before anything is measured."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path


def at_least(least: int) -> Callable[[str], int]:
    """Accept whole numbers from `least` on."""

    def count(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            found = least - 1
        if found < least:
            raise argparse.ArgumentTypeError(f"{text!r}: a whole number of at least {least} is accepted")
        return found

    return count


def share(text: str) -> float:
    """Accept a part of a whole."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a number from 0 to 1 is accepted")
    return found


def numbers(kind: Callable[[str], int]) -> Callable[[str], list[int]]:
    """Accept numbers of a kind with commas between them, each of them once."""

    def listed(text: str) -> list[int]:
        return list(dict.fromkeys(kind(part) for part in text.split(",")))

    return listed


def some_of(accepted: Sequence[str]) -> Callable[[str], list[str]]:
    """Accept names with commas between them, each of them known."""

    def names(text: str) -> list[str]:
        found = text.split(",")
        for name in found:
            if name not in accepted:
                raise argparse.ArgumentTypeError(f"{name!r} is unknown; accepted: {', '.join(accepted)}")
        return found

    return names


def file(text: str) -> Path:
    """Accept a file that is there."""
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is no file")
    return Path(text)
