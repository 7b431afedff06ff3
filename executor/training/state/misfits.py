"""Names what differs between a model and a state that was saved of another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from torch import nn

MOST_NAMED = 3


def misfit(modules: Sequence[nn.Module], states: Sequence[Mapping[str, Any]]) -> str:
    """Return in one clause which parameters and buffers differ, a few by name; "" where none does."""
    found: list[str] = []
    for number, (module, state) in enumerate(zip_longest(modules, states), 1):
        of = f"model {number}: " if len(modules) > 1 else ""
        own = module.state_dict() if module is not None else {}
        saved = state if state is not None else {}
        for name in [*saved, *(name for name in own if name not in saved)]:
            if name not in own or name not in saved:
                found.append(f"{of}{name} is only in the {'checkpoint' if name in saved else 'script'}")
            elif (before := _shape(saved[name])) != (now := _shape(own[name])):
                found.append(f"{of}{name} is {before} in the checkpoint and {now} in the script")
    more = len(found) - MOST_NAMED
    return ", ".join(found[:MOST_NAMED]) + (f", and {more} more differ" if more > 0 else "")


def _shape(value: Any) -> str:
    """Return a tensor's shape in words, such as 4x8; other values have none."""
    shape = getattr(value, "shape", None)
    return "" if shape is None else "x".join(map(str, shape)) or "one number"
