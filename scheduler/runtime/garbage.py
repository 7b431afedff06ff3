"""Keeps Python's garbage collector out of rounds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_collected() -> Iterator[None]:
    """Have no garbage collected within: a collection of all that a large cluster keeps takes as long as a round.

    What a round leaves is collected after it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
