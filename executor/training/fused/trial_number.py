"""One number that stands for those of all trials of a group."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

from . import roster
from .errors import CannotFuse


class TrialNumber:
    """The numbers of all trials, in their order. Arithmetic is done for each.

    A comparison has the one answer that all trials agree on. It raises CannotFuse where they differ, as does
    whatever needs one plain number, such as `float` or `math.exp`.
    """

    # To whom asks, it is a float: torch's optimizers and schedulers accept no other kind. What reads one as a C
    # double, such as `math.exp`, calls `__float__`.
    __class__ = property(lambda self: float)

    def __init__(self, values: Iterable[float]) -> None:
        self._values, self._age = tuple(values), roster.age()
        self._negated: TrialNumber | None = None

    def __array_ufunc__(self, function: Any, method: str, *given: Any, **kwargs: Any) -> TrialNumber:
        """Compute with numpy for each trial. Raises: CannotFuse, beside arrays."""
        if method != "__call__" or not all(isinstance(one, (TrialNumber, Real)) for one in given):
            raise CannotFuse(f"{function.__name__}: numbers of trials cannot be in an array; use tensors")
        columns = [same_trials(self, one) if isinstance(one, TrialNumber) else None for one in given]
        return TrialNumber(
            function(
                *(one if own is None else own[at] for one, own in zip(given, columns, strict=True)), **kwargs
            ).item()
            for at in range(len(self.values))
        )

    @property
    def values(self) -> tuple[float, ...]:
        """The number of each trial that is left."""
        if self._age != roster.age():
            if (left := roster.places_left(len(self._values), self._age)) is not None:
                self._values, self._negated = tuple(self._values[place] for place in left), None
                self.__dict__.pop("_tensors", None)
            self._age = roster.age()
        return self._values

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.values,)

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
        raise CannotFuse(f"hash: a key of a dictionary is one number, and trials have {self}")

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
        others = same_trials(self, other) if isinstance(other, TrialNumber) else (other,) * len(self.values)
        return agreed("a comparison", map(compare, self.values, others))

    def __abs__(self) -> TrialNumber:
        return type(self)(map(abs, self.values))

    def __neg__(self) -> TrialNumber:
        if self._negated is None:  # an optimizer asks for each parameter, and its tensor is made once
            self._negated = type(self)(map(operator.neg, self.values))
        return self._negated

    def __pos__(self) -> TrialNumber:
        return self

    def __round__(self, digits: int | None = None) -> TrialNumber:
        return type(self)(round(value, digits) for value in self.values)


class TrialSetting(TrialNumber):
    """A setting of an optimizer while it steps. It counts as 0 only where it is 0 for all trials.

    So an optimizer does for all what a setting other than 0 asks for, which changes nothing where it is 0.
    """

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
            return kind(map(compute, self.values, same_trials(self, other)))
        return type(self)(compute(value, other) for value in self.values) if _is_plain(other) else NotImplemented

    def swapped(self: TrialNumber, other: Any) -> Any:
        return type(self)(compute(other, value) for value in self.values) if _is_plain(other) else NotImplemented

    return method, swapped


def same_trials(one: TrialNumber, other: TrialNumber) -> tuple[float, ...]:
    """Return the values of the other number. Raises: CannotFuse, if it is of another number of trials."""
    if len(one.values) != len(other.values):
        counts = f"{len(one.values)} trials and of {len(other.values)}"
        raise CannotFuse(f"numbers of {counts} meet; one of them was kept from before the group changed")
    return other.values


def _is_plain(value: object) -> bool:
    return isinstance(value, Real)  # numbers of numpy are, too


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _method, _swapped = _arithmetic(getattr(operator, _name))
    setattr(TrialNumber, f"__{_name}__", _method)
    setattr(TrialNumber, f"__r{_name}__", _swapped)
