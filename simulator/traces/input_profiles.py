"""How fast models train with given CPUs and memory, from a file of published profiles (Synergy, OSDI'22)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...estimators.sensitivity.table import SpeedGrid, TabulatedSensitivity
from .text_file import read_text

# Axes of the published matrices; one of four columns leaves out the first.
CPUS = np.array([1.0, 2, 3, 4, 5, 6, 9, 12, 24])
MEMORY_GIB = np.array([20.83, 62.5, 125, 187.5, 250])
REFERENCE_CPUS, REFERENCE_GIB = 3.0, 62.5  # of each GPU: the share of the servers on which speeds are 1
SET = "models"  # measured at the reference; other sets repeat its matrices


@dataclass(frozen=True, eq=False)
class InputProfile:
    """One model. step_s: seconds of an iteration at the reference share."""

    sensitivity: TabulatedSensitivity
    step_s: float


@dataclass(frozen=True, eq=False)
class InputProfiles:
    """Models by name, all relative to the same share of each GPU."""

    models: Mapping[str, InputProfile]
    reference_cpus: float = REFERENCE_CPUS
    reference_gib: float = REFERENCE_GIB

    def of(self, name: str, whose: str = "trace") -> InputProfile:
        """Return a model. Raise ValueError, one sentence, for one that is not there."""
        found = self.models.get(name)
        if found is None:
            raise ValueError(f"{whose}: model {name!r} has no profile; there are {', '.join(sorted(self.models))}")
        return found


def is_profiles(path: Path) -> bool:
    """Return whether a file seems to hold such profiles. Raise ValueError if it cannot be read."""
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError):
        return False
    models = content.get(SET) if isinstance(content, dict) else None
    return isinstance(models, dict) and any(isinstance(one, dict) and "tput" in one for one in models.values())


def read_profiles(path: Path) -> InputProfiles:
    """Read `{"models": {"NAME_GPUS": {"tput": matrix, "iter_time": seconds, …}}}`.

    Raise ValueError, one sentence with model, field and value, for a file that is not accepted.
    """
    text = read_text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is no JSON: {error}") from None
    models = content.get(SET) if isinstance(content, dict) else None
    if not isinstance(models, dict) or not models:
        raise ValueError(f"{path}: has no {SET!r} with a profile for each model")
    grids: dict[str, dict[int, SpeedGrid]] = {}
    step_s: dict[str, float] = {}
    for key, profile in models.items():
        name, _, gpus = str(key).rpartition("_")
        if not name or not gpus.isdigit() or int(gpus) < 1 or not isinstance(profile, dict):
            raise ValueError(f"{path}: {SET}: {key!r} is no profile named like 'res18_1', a model and its GPUs")
        grids.setdefault(name, {})[int(gpus)] = _grid(profile.get("tput"), f"{path}: {key}")
        seconds = profile.get("iter_time")
        if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            raise ValueError(f"{path}: {key}: iter_time {seconds!r} must be seconds above 0")
        if int(gpus) == 1 or name not in step_s:
            step_s[name] = float(seconds)
    return InputProfiles(
        {name: InputProfile(TabulatedSensitivity(found), step_s[name]) for name, found in grids.items()}
    )


def _grid(matrix: Any, where: str) -> SpeedGrid:
    try:
        speeds = np.array(matrix, float)
    except (TypeError, ValueError):
        raise ValueError(f"{where}: tput must be a matrix of numbers") from None
    shapes = ((len(CPUS), len(MEMORY_GIB)), (len(CPUS), len(MEMORY_GIB) - 1))
    if speeds.shape not in shapes:
        raise ValueError(f"{where}: tput has shape {speeds.shape}; {shapes[0]} or {shapes[1]} is accepted")
    try:
        return SpeedGrid(CPUS, MEMORY_GIB[-speeds.shape[1] :], speeds)
    except ValueError as error:
        raise ValueError(f"{where}: tput: {error}") from None
