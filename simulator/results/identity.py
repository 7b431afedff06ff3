"""The identity of a run: its inputs, and the code that ran it."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PROJECT = Path(__file__).parents[2]
# Whose code decides what a simulation gives.
ROOMS = (
    *("core", "estimators", "forecasts", "optimizer", "policies"),
    *("scheduler/scaling", "scheduler/services", "scheduler/sharing", "simulator", "tuning"),
)
_LIBRARIES = ("highspy", "lightgbm", "numba", "numpy", "scipy")  # whose version may change a result
MADE_BY = "made_by"


def digest(path: Path | None) -> str | None:
    """Return the SHA-256 of a file, or of all files of a folder and their names.

    None: no path is given, or nothing is there.
    """
    if path is None or not path.exists():
        return None
    found = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
        found.update(f"{file.relative_to(path)}\0".encode())
        with file.open("rb") as content:
            found.update(hashlib.file_digest(content, "sha256").digest())
    return found.hexdigest()


@cache
def project() -> str:
    """Return the SHA-256 of all that decides a simulation: code and data of this project, Python, libraries."""
    found = hashlib.sha256(platform.python_version().encode())
    for name in _LIBRARIES:
        found.update(version(name).encode())
    for package in ROOMS:
        for file in sorted(p for p in (_PROJECT / package).rglob("*") if p.suffix in (".py", ".json")):
            found.update(f"{file.relative_to(_PROJECT)}\0".encode() + file.read_bytes())
    return found.hexdigest()


def check_same(folder: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise ValueError, with the first input that differs, if a folder holds a run of other inputs."""
    for name in [*here, *there]:
        if name != MADE_BY and there.get(name) != here.get(name):
            was = f"without {name}" if there.get(name) is None else f"with {name} {there[name]!r}"
            has = "none" if here.get(name) is None else repr(here[name])
            raise ValueError(
                f"{folder}: holds a run {was}, and this one has {has}; "
                "save this one elsewhere, or remove that folder"
            )
