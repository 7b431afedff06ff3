"""How a program without `coadapt.prepare` says how far it is: a line of JSON in a file that is watched."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any


def write(path: str, said: Mapping[str, Any]) -> None:
    """Append what rank 0 says. Numbers of any kind are taken; raises ValueError for what is none."""
    if os.environ.get("RANK", "0") != "0":
        return
    line = json.dumps({name: _number(name, value) for name, value in said.items()}) + "\n"
    # One write, so that no line is torn.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def _number(name: str, value: Any) -> float | int | None:
    try:
        number = value if isinstance(value, int) else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"report: {name} is {value!r}; a number is expected") from None
    return number if math.isfinite(number) else None
