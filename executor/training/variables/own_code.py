"""Tells which running code is the runtime's own, and not the script's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import TypeVar

FOLDER = f"{Path(os.path.abspath(__file__)).parents[2]}{os.sep}"  # the folder `executor`
# Loops of frameworks, which keep their state by themselves.
INTEGRATIONS = f"{Path(os.path.abspath(__file__)).parents[3] / 'integrations'}{os.sep}"
_Function = TypeVar("_Function", bound=Callable[..., object])
_readers: set[CodeType] = set()


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs code of the runtime."""
    return frame.f_code.co_filename.startswith(FOLDER)


def reads_batches(function: _Function) -> _Function:
    """Mark a function that reads the training batches: what it takes of loaders is not the script's doing."""
    _readers.add(function.__code__)
    return function


def is_reading_batches(frame: FrameType) -> bool:
    """Return whether a frame runs a function with that mark."""
    return frame.f_code in _readers
