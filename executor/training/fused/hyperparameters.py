"""What a study searches: values that the script names with their defaults, and a trial or a group sets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from .of_trials import together
from .trial_number import TrialNumber

SHOWN = 60  # characters of the variable in a sentence
VARIABLE = "COADAPT_HYPERPARAMETERS"  # JSON: the values of a trial, or a list with those of each trial of a group


class Hyperparameters(Mapping[str, Any]):
    """Values by name, also as attributes: `hp.lr`. In a group a number stands for those of all trials."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"hyperparameters: {name} is set by the study; give a default to `hyperparameters`")

    def __repr__(self) -> str:
        return f"Hyperparameters({', '.join(f'{name}={value!r}' for name, value in self.items())})"


def trials_of_environment() -> list[dict[str, Any]]:
    """Return the values of each trial of this process; [{}]: of one, with the script's defaults."""
    text = os.environ.get(VARIABLE, "{}")
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except ValueError:
        found = None
    trials = found if isinstance(found, list) else [found]
    if not trials or not all(isinstance(one, dict) for one in trials):
        shown = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
        raise ValueError(f"{VARIABLE}: {shown!r} is no JSON of values by name, or of a list of these")
    return trials


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def chosen(defaults: Mapping[str, Any], trials: list[dict[str, Any]]) -> Hyperparameters:
    """Return the values of trials, with defaults for what they leave out.

    Raises: ValueError, for a value that the script does not name. CannotFuse, where trials of a group differ in
        something else than a number.
    """
    strange = sorted({name for trial in trials for name in trial} - set(defaults))
    if strange:
        asked = ", ".join(defaults) or "nothing"
        raise ValueError(f"hyperparameters: the study sets {strange[0]}, and the script names {asked}")
    named = {name: [trial.get(name, default) for trial in trials] for name, default in defaults.items()}
    return Hyperparameters({name: together(values, TrialNumber) for name, values in named.items()})
