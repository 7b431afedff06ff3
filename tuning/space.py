"""What a study may set: a space of values, as Optuna's distributions and back. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.refused_values import shown

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Value = bool | int | float | str | None
KINDS = ("uniform", "log", "int", "log_int", "choice")
_FORMS = "{uniform: [0, 1]}, {log: [0.001, 1]}, {int: [1, 8]}, {log_int: [1, 64]}, {choice: [a, b]} or one value"
MOST_CHOICES = 1_000
_DIGITS = 12  # so that 3 * 0.1 is 0.3


class SpaceError(ValueError):
    """A space that cannot be searched; one sentence with name, value and what is accepted."""


@dataclass(frozen=True)
class Dimension:
    """One hyper-parameter that is searched.

    `low`, `high`: both may be drawn. `step`: values are low, low + step, …; None: any number between.
    `log`: each factor is as likely as another. `choices`: of a choice only.
    """

    name: str
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    log: bool = False
    whole: bool = False
    choices: tuple[Value, ...] = ()

    @property
    def size(self) -> float:
        """How many values there are; inf where any number may be drawn."""
        if self.choices:
            return len(self.choices)
        return math.inf if self.step is None else math.floor((self.high - self.low) / self.step * (1 + 1e-9)) + 1

    @property
    def numeric(self) -> bool:
        """Whether each value is a number, which several trials of one group may differ in."""
        return all(isinstance(one, int | float) and not isinstance(one, bool) for one in self.choices)

    def distribution(self) -> BaseDistribution:
        """Return what Optuna draws from. It has no steps on a logarithm, so `value` rounds to them."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if self.choices:
            return CategoricalDistribution(self.choices)
        if self.whole:
            step = 1 if self.log else int(self.step or 1)
            return IntDistribution(int(self.low), int(self.high), log=self.log, step=step)
        return FloatDistribution(self.low, self.high, log=self.log)

    def value(self, drawn: Value) -> Value:
        """Return a drawn value on the grid of steps."""
        if self.choices or self.step is None or not isinstance(drawn, int | float):
            return drawn
        steps = min(round((drawn - self.low) / self.step), self.size - 1)
        found = round(self.low + steps * self.step, _DIGITS)
        return int(found) if self.whole else found

    def values(self) -> list[Value]:
        """Return every value. Raises: ValueError where there is no end of them."""
        if self.choices:
            return list(self.choices)
        if math.isinf(self.size):
            raise ValueError(f"{self.name} may be any number")
        return [self.value(self.low + i * (self.step or 1)) for i in range(int(self.size))]


@dataclass(frozen=True)
class Space:
    """All hyper-parameters of a study. `fixed`: those that have one value in every trial."""

    searched: tuple[Dimension, ...]
    fixed: Mapping[str, Value]

    @property
    def size(self) -> float:
        """How many different trials there are."""
        return math.prod(one.size for one in self.searched)

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return Optuna's distributions by name."""
        return {one.name: one.distribution() for one in self.searched}

    def trial(self, drawn: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of a trial from what Optuna drew: on the grid, with those that are fixed."""
        return {**self.fixed, **{one.name: one.value(drawn[one.name]) for one in self.searched}}

    def drawn(self, trial: Mapping[str, Value]) -> dict[str, Value]:
        """Return what Optuna is told of a trial: its searched values."""
        return {one.name: trial[one.name] for one in self.searched}

    def cannot_fuse(self) -> set[str]:
        """Return the names whose values decide what trains together: `batch_size`, and what is no number."""
        return {one.name for one in self.searched if not one.numeric or one.name == "batch_size"}


def read(fields: Mapping[str, Any]) -> Space:
    """Return the space that a study file writes.

    Raises: SpaceError, for a space that is empty, inverted, of a logarithm of 0, or coarser than its range.
    """
    if not fields:
        raise SpaceError(f"it is empty; a name with {_FORMS} is accepted")
    searched, fixed = [], {}
    for name, form in fields.items():
        if not name.isidentifier():
            raise SpaceError(f"{shown(name)} is not a name that a script can ask for, such as lr")
        if isinstance(form, Mapping):
            searched.append(_dimension(name, form))
        elif isinstance(form, bool | int | str) or (isinstance(form, float) and math.isfinite(form)):
            fixed[name] = form
        else:
            raise SpaceError(f"{name}: {shown(form)} is neither a value nor a range; {_FORMS} are accepted")
    if not searched:
        raise SpaceError(f"every name has one value, so nothing is searched; {_FORMS} are accepted")
    return Space(tuple(searched), fixed)


def _dimension(name: str, form: Mapping[str, Any]) -> Dimension:
    kinds = [key for key in form if key in KINDS]
    unknown = [key for key in form if key not in (*KINDS, "step")]
    if unknown or len(kinds) != 1:
        raise SpaceError(f"{name}: {shown(dict(form))} is no range; {_FORMS} are accepted")
    kind = kinds[0]
    if kind == "choice":
        if "step" in form:
            raise SpaceError(f"{name}.step: a choice has no step; list the values instead")
        return Dimension(name, choices=_choices(name, form[kind]))
    low, high = _bounds(f"{name}.{kind}", form[kind])
    whole, log = "int" in kind, kind.startswith("log")
    if log and low <= 0:
        raise SpaceError(f"{name}.{kind}: {low:g} has no logarithm; a lower end above 0 is accepted")
    if whole and (low != int(low) or high != int(high)):
        raise SpaceError(f"{name}.{kind}: {shown(form[kind])} are not two whole numbers")
    step = _step(name, form["step"], high - low, whole) if "step" in form else None
    return Dimension(name, low, high, 1.0 if whole and step is None else step, log, whole)


def _choices(name: str, values: object) -> tuple[Value, ...]:
    if not isinstance(values, list) or not 2 <= len(values) <= MOST_CHOICES:
        raise SpaceError(
            f"{name}.choice: {shown(values)} is not a list of 2 to {MOST_CHOICES} values; write one value plainly"
        )
    for i, one in enumerate(values):
        if not (isinstance(one, bool | int | str) or (isinstance(one, float) and math.isfinite(one))):
            raise SpaceError(f"{name}.choice: {shown(one)} is not a number, a text, true or false")
        if any(one == other and type(one) is type(other) for other in values[:i]):
            raise SpaceError(f"{name}.choice: {shown(one)} is given twice")
    return tuple(values)


def _bounds(field: str, values: object) -> tuple[float, float]:
    if (
        not isinstance(values, list)
        or len(values) != 2
        or not all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
        or not all(math.isfinite(one) and abs(one) < 1e15 for one in values)
    ):
        raise SpaceError(f"{field}: {shown(values)} is not a list of two finite numbers, the lower first")
    low, high = values
    if low > high:
        raise SpaceError(f"{field}: {low:g} is above {high:g}; the lower end comes first")
    if low == high:
        raise SpaceError(f"{field}: both ends are {low:g}; write one value plainly, or two ends that differ")
    return float(low), float(high)


def _step(name: str, step: object, width: float, whole: bool) -> float:
    if isinstance(step, bool) or not isinstance(step, int | float) or not math.isfinite(step) or step <= 0:
        raise SpaceError(f"{name}.step: {shown(step)} is not a number above 0")
    if whole and step != int(step):
        raise SpaceError(f"{name}.step: {step:g} is not a whole number")
    if step > width:
        raise SpaceError(f"{name}.step: {step:g} is coarser than the range, which is {width:g} wide")
    return float(step)
