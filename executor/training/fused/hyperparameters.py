"""What a study searches: values that the script names with their defaults, and a trial or a group sets."""

from __future__ import annotations

import json
import math
import os
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from .of_trials import together

VARIABLE = "COADAPT_HYPERPARAMETERS"  # JSON: the values of a trial, or a list with those of each trial of a group

LONGEST_TOLD = 80  # characters of what is not understood


_alive: list[weakref.ref[Hyperparameters]] = []  # of this process; a script has one


def of_process() -> list[Hyperparameters]:
    """Return what scripts of this process have asked for and still hold."""
    _alive[:] = [one for one in _alive if one() is not None]
    return [found for one in _alive if (found := one()) is not None]


class Hyperparameters(Mapping[str, Any]):
    """Values by name, also as attributes: `hp.lr`. In a group a number stands for those of all trials."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.become(values)
        _alive.append(weakref.ref(self))

    def become(self, values: Mapping[str, Any]) -> None:
        """Have the values of other trials, where those of a group change."""
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
    """Return the values of each trial of this process; [{}]: of one, with the script's defaults.

    Raises: ValueError, in one sentence, if the variable holds something else.
    """
    given = os.environ.get(VARIABLE, "{}")
    told = given if len(given) <= LONGEST_TOLD else f"{given[:LONGEST_TOLD]}…"
    accepted = "values by name as JSON, or a list of them with one for each trial, are accepted"
    try:
        found = json.loads(given, parse_constant=_not_finite)
    except ValueError:
        raise ValueError(f"{VARIABLE}: {told} is no JSON of finite numbers; {accepted}") from None
    trials = found if isinstance(found, list) else [found]
    if not trials or not all(isinstance(one, dict) for one in trials):
        raise ValueError(f"{VARIABLE}: {told} is not understood; {accepted}")
    for name, value in ((name, value) for one in trials for name, value in one.items()):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{VARIABLE}: {name} is {value}, and finite numbers are accepted")
    return [dict(one) for one in trials]


def _not_finite(name: str) -> float:
    raise ValueError(f"{name} is not finite")


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
    return Hyperparameters({name: together(values) for name, values in named.items()})
