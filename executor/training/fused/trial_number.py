"""One number that stands for those of all trials of a group."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import roster
from .errors import CannotFuse


class TrialNumber:
    """The numbers of all trials, in their order. Arithmetic is done for each.

    A comparison has the one answer that all trials agree on. It raises CannotFuse where they differ, as does
    whatever needs one plain number, such as `float` or `math.exp`.
    """

    def __init__(self, values: Iterable[float]) -> None:
        self._values, self._age = tuple(values), roster.age()

    @property
    def values(self) -> tuple[float, ...]:
        """The number of each trial that is left."""
        if self._age != roster.age():
            if (left := roster.places_left(len(self._values), self._age)) is not None:
                self._values = tuple(self._values[place] for place in left)
            self._age = roster.age()
        return self._values

    def beside(self, other: TrialNumber) -> tuple[float, ...]:
        """Return the values of another one. Raises: CannotFuse, if they are of other trials."""
        if len(other.values) != len(self.values):
            raise CannotFuse(f"trials: numbers of {len(self.values)} and {len(other.values)} trials do not meet")
        return other.values

    def __repr__(self) -> str:
        return "/".join(map(repr, self.values))

    def __format__(self, spec: str) -> str:
        return "/".join(format(value, spec) for value in self.values)

    def of(self, trial: int) -> float:
        """Return the number of one trial."""
        return self.values[trial]

    def __float__(self) -> float:
        raise CannotFuse(f"float: one number is asked for, and trials have {self}; leave numbers as they are")

    __int__ = __index__ = __float__

    def __bool__(self) -> bool:
        return agreed("a condition", (bool(value) for value in self.values))

    def __hash__(self) -> int:
        return hash(self.values)

    def __eq__(self, other: object) -> bool:
        return self._compared(operator.eq, other)

    def __ne__(self, other: object) -> bool:
        return self._compared(operator.ne, other)

    def __lt__(self, other: object) -> bool:
        return self._compared(operator.lt, other)

    def __le__(self, other: object) -> bool:
        return self._compared(operator.le, other)

    def __gt__(self, other: object) -> bool:
        return self._compared(operator.gt, other)

    def __ge__(self, other: object) -> bool:
        return self._compared(operator.ge, other)

    def _compared(self, compare: Callable[[Any, Any], bool], other: object) -> bool:
        others = self.beside(other) if isinstance(other, TrialNumber) else (other,) * len(self.values)
        return agreed("a comparison", map(compare, self.values, others))

    def __abs__(self) -> TrialNumber:
        return type(self)(map(abs, self.values))

    def __neg__(self) -> TrialNumber:
        return type(self)(map(operator.neg, self.values))

    def __pos__(self) -> TrialNumber:
        return self

    def __round__(self, digits: int | None = None) -> TrialNumber:
        return type(self)(round(value, digits) for value in self.values)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let an operation of torch that is given numbers of trials run for each trial."""
        from .trial_tensor import for_each_trial

        return for_each_trial(func, args, kwargs or {})


class TrialSetting(TrialNumber, float):  # type: ignore[misc]  # its arithmetic gives numbers of trials
    """A setting of an optimizer. It counts as 0 only where it is 0 for all trials.

    So an optimizer does for all what a setting other than 0 asks for, which changes nothing where it is 0. It is a
    float, as torch's operators ask for one; what takes it for a plain one gets nan and no number of some trial.
    """

    def __new__(cls, values: Iterable[float]) -> TrialSetting:
        return float.__new__(cls, math.nan)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)) and other == 0:
            return not any(self.values)
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other if isinstance(other, (int, float)) and other == 0 else super().__ne__(other)

    def __bool__(self) -> bool:
        return any(self.values)

    __hash__ = TrialNumber.__hash__


def agreed(what: str, answers: Iterable[bool]) -> bool:
    """Return the answer of all trials. Raises: CannotFuse, if they differ."""
    found = set(answers)
    if len(found) > 1:
        raise CannotFuse(f"{what} differs between trials, so that they would take different ways from here")
    return found.pop()


def _arithmetic(compute: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a method for an operator, and the one for swapped operands."""

    def method(self: TrialNumber, other: Any) -> Any:
        if isinstance(other, TrialNumber):
            kind = type(other) if isinstance(other, TrialSetting) else type(self)
            return kind(map(compute, self.values, self.beside(other)))
        return type(self)(compute(value, other) for value in self.values) if _is_plain(other) else NotImplemented

    def swapped(self: TrialNumber, other: Any) -> Any:
        return type(self)(compute(other, value) for value in self.values) if _is_plain(other) else NotImplemented

    return method, swapped


def _is_plain(value: object) -> bool:
    return isinstance(value, (int, float))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _method, _swapped = _arithmetic(getattr(operator, _name))
    setattr(TrialNumber, f"__{_name}__", _method)
    setattr(TrialNumber, f"__r{_name}__", _swapped)
