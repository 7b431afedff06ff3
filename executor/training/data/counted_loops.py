"""`enumerate`, `zip`, `itertools.islice` and `cycle` over the training batches, which count a batch once.

A batch may take several passes, or have to be done again, and a process may come in at any of them. So what
counts batches goes by their numbers in the script's own loop.
In all passes but the last of a batch a number equals nothing (`Undue`). So a script does once what it does at
every n-th batch.
"""

from __future__ import annotations

import builtins
import copyreg
import functools
import itertools
import sys
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import GeneratorType
from typing import Any, Protocol

import torch

from ..variables import seen_sums
from ..variables.script_frames import is_own_object
from ..variables.undue import Late
from .elastic_loader import feeds, hands_out

# These are counted all the time, and never are training batches.
_COMMON = frozenset(
    {list, tuple, dict, str, set, range, zip, map, type({}.items()), type({}.keys()), type({}.values())}
)
# An iterator of these is drawn from once for each batch; others, such as loaders, are drawn from in each pass.
_PLAIN = (range, itertools.count, list, tuple)
# So many values are kept for batches that have to be done again: more than go into a step.
_KEPT = 4096
_NOTHING = object()
_DEPTH = 3  # the code of what hands training batches on


class Numbers(Protocol):
    """Answers what counting loops ask of the session about the running loop over the data."""

    @property
    def batch_number(self) -> int:
        """The number of the batch that was handed out last, from 0 in each loop."""

    @property
    def pass_number(self) -> int:
        """The number of passes that were handed out so far."""

    def next_number(self) -> int:
        """Return the number of the batch that comes next; it stays while that has passes left or is done again."""

    @property
    def partial(self) -> bool:
        """Whether the running pass is one before the last of its batch."""

    @property
    def trained(self) -> bool:
        """Whether there was a backward in the running pass."""

    def note_counting(self, how: str) -> None:
        """Note that the script has counted its batches, and how."""


class Counted(ABC):
    """An iterator over training batches that knows their places in the loop, from 0."""

    def __init__(self, batches: Any, numbers: Numbers) -> None:
        inner = _inside(batches)
        self._inner = inner if isinstance(inner, Counted) else None
        self._numbers = numbers
        self._items: Iterator[Any] | None = iter(batches)

    def __iter__(self) -> Counted:
        return self

    @abstractmethod
    def __next__(self) -> Any: ...

    @property
    def place(self) -> int:
        """The place of the batch that was handed out last."""
        return self._place_below()

    def next_place(self) -> int:
        """Return the place of the batch that comes next."""
        return self._next_below()

    def _place_below(self) -> int:
        return self._inner.place if self._inner is not None else self._numbers.batch_number

    def _next_below(self) -> int:
        return self._inner.next_place() if self._inner is not None else self._numbers.next_number()

    def _take(self) -> Any:
        if self._items is None:
            raise StopIteration
        return next(self._items)

    def _end(self) -> None:
        """Leave the loop over the batches, as `break` does."""
        self._items = self._inner = None

    def _shown(self, number: Any) -> Any:
        """Return a batch's number as the running pass may see it."""
        numbers = self._numbers  # a number must not keep its loop from ending
        if type(number) is int and numbers.partial:
            return Late(number, lambda: numbers.trained)
        return number


class _Enumerated(Counted):
    def __init__(self, batches: Any, numbers: Numbers, start: int = 0) -> None:
        super().__init__(batches, numbers)
        self._start = start

    def __next__(self) -> tuple[int, Any]:
        item = self._take()
        return self._shown(self._start + self._place_below()), item


class _Loose(_Enumerated):
    """An iterator over what the script makes of its batches, one item or several of each."""

    def __init__(self, batches: Any, numbers: Numbers, start: int = 0) -> None:
        super().__init__(batches, numbers, start)
        self._count = 0
        self._pass = numbers.pass_number
        self._begun: dict[int, int] = {}  # by number of a batch: how many items came before it

    def _place_below(self) -> int:
        given, number = self._numbers.pass_number, self._numbers.batch_number
        if given != self._pass:
            before = self._count if self._begun else number
            self._pass, self._count = given, self._begun.setdefault(number, before)
            if len(self._begun) > _KEPT:
                del self._begun[next(iter(self._begun))]
        self._count += 1
        return self._count - 1


class _Sliced(Counted):
    def __init__(self, batches: Any, numbers: Numbers, start: int, stop: int | None, step: int) -> None:
        super().__init__(batches, numbers)
        self._start, self._stop, self._step = start, stop, step

    def __next__(self) -> Any:
        while self._items is not None:
            if self._stop is not None and self._start + self.next_place() * self._step >= self._stop:
                self._end()
                break
            item = self._take()
            past = self._place_below() - self._start
            if past >= 0 and past % self._step == 0:
                return item
        raise StopIteration

    @property
    def place(self) -> int:
        return (self._place_below() - self._start) // self._step

    def next_place(self) -> int:
        return max(0, -(-(self._next_below() - self._start) // self._step))


class _Zipped(Counted):
    """Columns that are drawn from together: those of plain values once for each batch, others in each pass."""

    def __init__(self, columns: tuple[Any, ...], numbers: Numbers, strict: bool = False) -> None:
        """Begin to draw. `strict`: columns of unequal length are an error, as in `zip`."""
        self._strict = strict
        batches = next(column for column in columns if _is_fed(column))
        super().__init__(batches, numbers)
        self._plain = {i: _Column(column) for i, column in enumerate(columns) if isinstance(column, _PLAIN)}
        self._others: dict[int, Callable[[], Any]] = {
            i: self._take if column is batches else iter(column).__next__
            for i, column in enumerate(columns)
            if i not in self._plain
        }

    def __next__(self) -> tuple[Any, ...]:
        if self._items is None:
            raise StopIteration
        following = self._next_below()
        if not all(column.reaches(following) for column in self._plain.values()):
            self._check(any(column.reaches(following) for column in self._plain.values()) or self._has_more())
            self._end()
            raise StopIteration
        try:
            row = {i: take() for i, take in self._others.items()}
        except StopIteration:
            self._check(True)  # the plain columns have one value more
            raise
        place = self._place_below()
        row |= {i: self._shown(column.at(place)) for i, column in self._plain.items()}
        return tuple(row[i] for i in range(len(row)))

    def _has_more(self) -> bool:
        if not self._strict or self._items is None:
            return False
        return next(self._items, _NOTHING) is not _NOTHING

    def _check(self, unequal: bool) -> None:
        if self._strict and unequal:
            raise ValueError("zip() arguments are of unequal length")


class _Paired:
    """`zip` of epochs or steps with plain columns, which are drawn from by the numbers of these."""

    def __init__(self, columns: tuple[Any, ...]) -> None:
        self._place = next(i for i, column in enumerate(columns) if _is_numbers(column))
        self._plain = {i: _Column(column) for i, column in enumerate(columns) if isinstance(column, _PLAIN)}
        self._others = {i: iter(column) for i, column in enumerate(columns) if i not in self._plain}

    def __iter__(self) -> _Paired:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = {i: next(column) for i, column in self._others.items()}
        number = int(row[self._place])
        if not all(column.reaches(number) for column in self._plain.values()):
            self._others[self._place] = iter(())  # leaves the loop over epochs, as `break` does
            raise StopIteration
        row |= {i: column.at(number) for i, column in self._plain.items()}
        return tuple(row[i] for i in range(len(row)))


class _Column:
    """A column that is drawn from once for each batch."""

    def __init__(self, values: Any) -> None:
        self._values = iter(values)
        self._drawn: deque[Any] = deque(maxlen=_KEPT)
        self._count = 0

    def reaches(self, place: int) -> bool:
        """Draw up to this place. Returns False where there is nothing."""
        for value in itertools.islice(self._values, max(0, place + 1 - self._count)):
            self._drawn.append(value)
            self._count += 1
        return self._count > place

    def at(self, place: int) -> Any:
        if not self.reaches(place):
            raise StopIteration
        return self._drawn[place - self._count]


# --- in the place of Python's own -------------------------------------------------------------------------------


class _Counting(type):
    """Classes that stand for Python's own. They make instances of these unless they are given training batches."""

    numbers: Numbers | None = None
    alike = True  # Python's own are equal to what stands for them.

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, cls.__mro__[1])

    # numba, `singledispatch` and the like look a class up in a table, where they find Python's own.
    def __eq__(cls, other: object) -> bool:
        return cls is other or (_Counting.alike and cls.__mro__[1] is other)

    def __hash__(cls) -> int:
        return hash(cls.__mro__[1])


_enumerate, _zip, _islice, _cycle = enumerate, zip, itertools.islice, itertools.cycle


class _Enumerate(enumerate, metaclass=_Counting):
    __doc__ = _enumerate.__doc__

    def __new__(cls, iterable: Any, start: int = 0) -> Any:
        numbers = _Counting.numbers
        if numbers is None or type(iterable) in _COMMON:
            return _enumerate(iterable, start)
        if _is_numbers(iterable):
            return ((number + start, number) for number in iterable)
        if _is_fed(iterable):
            numbers.note_counting("enumerate(loader)")
            return _Enumerated(iterable, numbers, start)
        return _Loose(iterable, numbers, start) if _hands_on(iterable) else _enumerate(iterable, start)


class _Zip(zip, metaclass=_Counting):
    __doc__ = _zip.__doc__

    def __new__(cls, *iterables: Any, **options: Any) -> Any:
        numbers = _Counting.numbers
        others = [one for one in iterables if type(one) not in _COMMON]
        if numbers is None or not others:
            return _zip(*iterables, **options)
        if not any(isinstance(one, _PLAIN) for one in iterables):
            return _zip(*iterables, **options)
        if any(map(_is_numbers, others)):
            return _Paired(iterables)
        if not any(map(_is_fed, others)):
            return _zip(*iterables, **options)
        numbers.note_counting("zip(…, loader)")
        return _Zipped(iterables, numbers, **options)


class _Islice(itertools.islice, metaclass=_Counting):
    __doc__ = _islice.__doc__

    def __new__(cls, iterable: Any, *limits: int | None) -> Any:
        numbers = _Counting.numbers
        if numbers is None or type(iterable) in _COMMON or not _is_fed(iterable):
            return _islice(iterable, *limits)
        _islice((), *limits)  # raises what Python raises
        numbers.note_counting("islice(loader, …)")
        start, stop, step = (*limits, None, None)[:3] if len(limits) > 1 else (0, limits[0], 1)
        return _Sliced(iterable, numbers, start or 0, stop, step or 1)


class _Cycle(itertools.cycle, metaclass=_Counting):
    __doc__ = _cycle.__doc__

    def __new__(cls, iterable: Any) -> Any:
        fed = _Counting.numbers is not None and type(iterable) not in _COMMON and _is_fed(iterable)
        return _again_and_again(iterable) if fed else _cycle(iterable)


def _again_and_again(batches: Any) -> Iterator[Any]:
    """Yield the batches again and again. None is kept: they are parts, which change when replicas come and go."""
    some = True
    while some:
        some = False
        for batch in batches:
            some = True
            yield batch


# Classes that stand for Python's own -> Python's own.
_STAND_FOR: dict[Any, Any] = {_Enumerate: _enumerate, _Zip: _zip, _Islice: _islice, _Cycle: _cycle}

_of_epochs: weakref.WeakSet[Iterator[int]] = weakref.WeakSet()


def known_as_numbers(numbers: Iterator[int]) -> Iterator[int]:
    """Return the numbers of epochs or steps still to do, and note that they may not begin at 0."""
    if isinstance(numbers, GeneratorType):
        _of_epochs.add(numbers)
    return numbers


def count_batches(numbers: Numbers) -> None:
    """Let what counts training batches go by these numbers. Whatever else is counted is as before."""
    install()
    _Counting.numbers = numbers


def is_taken_before() -> bool:
    """Return whether the script has imported Python's own `islice` before, as it may under `torchrun`."""
    return any(value is _islice for value in vars(sys.modules["__main__"]).values())


def install() -> None:
    """Take the place of Python's own. This is called before the script, which may import `islice` by itself."""
    if builtins.enumerate is _Enumerate:
        return
    for ours, own in _STAND_FOR.items():
        ours.__name__, ours.__qualname__, ours.__module__ = own.__name__, own.__qualname__, own.__module__
        copyreg.pickle(own, _reduced)  # one that is saved is found again by its class
    _put_in_place(_STAND_FOR)
    compile_as_before = torch.compile

    @functools.wraps(compile_as_before)
    def compile(*args: Any, **options: Any) -> Any:
        seen_sums.compiled()
        _explain_to_compiler()
        return compile_as_before(*args, **options)

    torch.compile = compile


@functools.cache
def _explain_to_compiler() -> None:
    """Tell the compiler that these are Python's own: compiled code counts nothing but what it holds itself.

    A compiler that cannot be told leaves such code uncompiled.
    """
    with suppress(Exception):
        _put_in_place(_STAND_FOR.values())
        try:  # it lists Python's own once
            from torch._dynamo import decorators, trace_rules

            trace_rules.is_builtin_callable(len)
        finally:
            _put_in_place(_STAND_FOR)
        _Counting.alike = False  # it has rules of its own for Python's
        try:
            for ours, own in _STAND_FOR.items():
                decorators.substitute_in_graph(ours, is_embedded_type=True, skip_signature_check=True)(_as(own))
        finally:
            _Counting.alike = True


def _put_in_place(classes: Iterable[Any]) -> None:
    for one in classes:
        vars(sys.modules[one.__module__])[one.__name__] = one


def _reduced(iterator: Any) -> tuple[Any, ...]:
    own, *rest = iterator.__reduce__()
    return vars(sys.modules[own.__module__])[own.__name__], *rest


def _as(own: Any) -> Any:
    def make(*args: Any, **options: Any) -> Any:
        return own(*args, **options)

    return make


def _is_numbers(thing: Any) -> bool:
    return isinstance(thing, GeneratorType) and thing in _of_epochs


def _is_fed(thing: Any) -> bool:
    """Return whether these are training batches, perhaps inside of a progress bar such as tqdm's."""
    inner = _inside(thing)
    return feeds(thing) or isinstance(thing, Counted) or feeds(inner) or isinstance(inner, Counted)


def _inside(thing: Any) -> Any:
    """Return what a progress bar such as tqdm's shows, or the thing itself.

    The thing may be anybody's, so it is asked for no attribute that it may make up.
    """
    try:
        return object.__getattribute__(thing, "__dict__").get("iterable", thing)
    except AttributeError:
        return thing


def _hands_on(thing: Any, depth: int = _DEPTH) -> bool:
    """Return whether the script's own generator or object has training batches to hand on."""
    if hands_out(thing):
        return True
    if isinstance(thing, GeneratorType) and thing.gi_frame is not None:
        held = list(thing.gi_frame.f_locals.values())
    elif is_own_object(thing) and hasattr(type(thing), "__iter__"):
        held = list(vars(thing).values())
    else:
        inner = _inside(thing)
        held = [] if inner is thing else [inner]
    return any(_is_fed(one) or (depth > 0 and _hands_on(one, depth - 1)) for one in held)
