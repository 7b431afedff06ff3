"""A script's variables before a batch that takes several passes or has to be done again.

After a batch of several passes they end up as if it had been given once. Counts of batches are as after one
pass. Numbers with a fraction have moved by the mean of all passes. Sums over samples keep what each pass added.
"""

from __future__ import annotations

import math
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Container, Mapping, Sequence, Set, Sized
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from . import script_random
from .script_frames import (
    ARRAYS,
    FRACTIONS,
    MOST_ELEMENTS,
    NUMBERS,
    OTHERS,
    Leaf,
    Reach,
    is_entry_of,
    put,
    reach,
    script_objects,
)
from .script_random import GLOBALS
from .script_rows import RowCounts, is_row, is_whole, numbers_of, with_numbers
from .script_sums import Given, grows_by_samples

ANY_SIZE = 1 << 62
MOST_KEYS = 4096  # entries of a mapping that are kept, to tell which are new
MOST_QUEUED = 1024  # items of a queue that are kept
LEAST_VECTOR = 32  # elements; a shorter vector may equal a model's parameters in number by chance

_Value = TypeVar("_Value")


class Weights:
    """Models' parameters, by which copies of them are known in what a script keeps: averages, and the like."""

    def __init__(self, models: Sequence[nn.Module] = ()) -> None:
        named = [dict(model.named_parameters()) for model in models]
        self._names = {name for parameters in named for name in parameters}
        states = [[value for value in model.state_dict().values() if _has_fraction(value)] for model in models]
        orders = [list(parameters.values()) for parameters in named]
        orders.append([parameter for order in orders for parameter in order])
        trained = [[parameter for parameter in order if parameter.requires_grad] for order in orders]
        every = [order for order in (*orders, *trained, *states) if sum(one.numel() for one in order) > 1]
        # How many entries those have which may have more than is looked into otherwise.
        self.counts = {len(order) for order in every} | {len(model.state_dict()) for model in models}
        self._shapes = {tuple(one.shape for one in order) for order in every}
        lengths = {sum(one.numel() for one in order) for order in every if len(order) > 1}
        self._lengths = {length for length in lengths if length >= LEAST_VECTOR}

    def copies(self, leaves: Mapping[str, Leaf]) -> set[str]:
        """Return paths under a parameter's name, of lists with all of a model's shapes, and of vectors of them."""
        found, lists = set(), defaultdict[str, dict[str, torch.Size]](dict)
        for path, leaf in leaves.items():
            holder, _, name = path.rpartition("/")
            if name in self._names or self._is_vector(leaf.value):
                found.add(path)
            elif name.isdigit() and isinstance(leaf.value, Tensor) and _has_fraction(leaf.value):
                lists[holder][path] = leaf.value.shape
        found.update(*(shapes for shapes in lists.values() if tuple(shapes.values()) in self._shapes))
        tensors = {path: id(leaf.value) for path, leaf in leaves.items() if isinstance(leaf.value, Tensor)}
        same = {tensors[path] for path in found & tensors.keys()}  # a loop's variable may still have one of a list
        return found | {path for path, number in tensors.items() if number in same}

    def _is_vector(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.ndim == 1 and len(value) in self._lengths


NO_WEIGHTS = Weights()


class Undo:
    """Plain values and lists as they are now.

    weights: copies of those follow the last pass, which has made the step.
    before: the one of the batch before, where tensors of any size are kept that were there already.
    reading: ids of random generators that are not the loop's. All others draw in each pass of a batch what they
    drew in the first.
    """

    def __init__(
        self,
        weights: Weights = NO_WEIGHTS,
        several: bool = False,
        before: Undo | None = None,
        reading: Container[int] = (),
    ) -> None:
        own = script_objects(*script_random.GENERATORS)
        self._generators = [
            (generator, script_random.state_of(generator))
            for generator in (*own, *GLOBALS)
            if id(generator) not in reading
        ]
        kinds = (*NUMBERS, *ARRAYS, *OTHERS)
        found = reach(kinds, ANY_SIZE, weights.counts) if several else reach(kinds)
        self._large: dict[str, weakref.ref[Any]] = {}
        self._leaves = {path: leaf for path, leaf in found.leaves.items() if self._stays(path, leaf.value, before)}
        self._versions = {
            path: leaf.value._version for path, leaf in self._leaves.items() if isinstance(leaf.value, Tensor)
        }
        # Data sets may lie in variables: what nobody has written to since is not copied again.
        self._values: dict[str, Any] = {
            path: before._values[path]
            if before is not None and before._untouched(path, leaf.value)
            else _kept(leaf.value)
            for path, leaf in self._leaves.items()
        }
        self._copies = weights.copies(self._leaves)
        self._containers = found.containers
        self._mappings = found.mappings
        held = (leaf.value for leaf in found.holders.values())
        self._keys = [(one, set(one)) for one in held if isinstance(one, dict) and len(one) <= MOST_KEYS]
        self._holders = found.holders
        self._new: set[str] = set()  # paths of numbers that mappings have got since
        self._made: dict[str, Leaf] = {}  # objects that mappings have got since, and that each pass makes anew
        self._lists = found.lists
        self._lengths = {path: len(items) for path, items in found.lists.items()}
        self._queues = {
            path: list(items)
            for path, items in found.lists.items()
            if isinstance(items, deque) and len(items) <= MOST_QUEUED
        }

    def _stays(self, path: str, value: Any, before: Undo | None) -> bool:
        """Return whether a value is kept: of large tensors, those that outlive a batch."""
        if not isinstance(value, Tensor) or value.numel() <= MOST_ELEMENTS:
            return True
        self._large[path] = weakref.ref(value)
        return before is None or (path in before._large and before._large[path]() is value)

    def _untouched(self, path: str, value: Any) -> bool:
        """Return whether a value is a tensor or a large array that was here before and still holds the same."""
        if path not in self._values or self._leaves[path].value is not value:
            return False
        if isinstance(value, Tensor):
            return bool(self._versions.get(path) == value._version)
        large = isinstance(value, np.ndarray) and value.size > MOST_ELEMENTS
        return large and np.array_equal(value, self._values[path])

    def _is_written(self, path: str, live: Any) -> bool:
        """Return whether a tensor or array that was here may hold something else now."""
        if isinstance(live, Tensor):
            return bool(live._version != self._versions[path])
        return not np.array_equal(live, self._values[path], equal_nan=True)

    def restore(self) -> None:
        """Put all back to what it was."""
        self._put_back(lambda path: True)
        self._draw_again()
        for path in self._lists:
            self._shorten(path)
        for mapping, keys in self._keys:
            for key in [key for key in mapping if key not in keys]:
                del mapping[key]

    def _draw_again(self) -> None:
        for generator, state in self._generators:
            script_random.put_back(generator, state)

    @property
    def makes_anew(self) -> bool:
        """Whether each pass makes objects anew that are to be taken in."""
        return bool(self._made)

    def take_in_new(self, given: Given, kept: Container[str] = ()) -> None:
        """Take in numbers, lists and objects under new keys of mappings, after a pass.

        Numbers and lists began as nothing, and objects as new. Objects that have sums over samples, of which
        some are `kept`, stay what they are.
        """
        found = reach((*NUMBERS, *ARRAYS))
        for path, leaf in found.leaves.items():
            is_new = path not in self._leaves and leaf.place is None and is_entry_of(path, self._mappings)
            if is_new and _is_single(leaf.value):
                self._begin_at_zero(path, leaf)
                self._new.add(path)
        for path, items in found.lists.items():
            if path not in self._lists and is_entry_of(path, self._mappings):
                self._begin_empty(path, items)
        for path, leaf in self._new_holders(found).items():
            numbers, lists = _inside(path, found.leaves), _inside(path, found.lists)
            if _is_over_samples(numbers, lists, given, kept):
                self._holders[path] = leaf
            elif numbers or lists:
                self._made[path] = leaf
                for inner, number in numbers.items():
                    self._begin_at_zero(inner, number)
                for inner, items in lists.items():
                    self._begin_empty(inner, items)

    def _new_holders(self, found: Reach) -> dict[str, Leaf]:
        """Return objects and mappings that stand under new keys, and that were nowhere before."""
        old = {id(leaf.value) for leaf in self._holders.values()}
        return {
            path: leaf
            for path, leaf in found.holders.items()
            if path not in self._holders
            and path not in self._leaves
            and is_entry_of(path, self._mappings)
            and id(leaf.value) not in old
        }

    def _begin_at_zero(self, path: str, leaf: Leaf) -> None:
        self._leaves[path], self._values[path] = leaf, 0 if isinstance(leaf.value, ARRAYS) else type(leaf.value)(0)

    def _begin_empty(self, path: str, items: list[Any] | deque[Any]) -> None:
        if len(items) == 1:
            self._lists[path], self._lengths[path] = items, 0
            if isinstance(items, deque):
                self._queues[path] = []

    def repeat(self, keep: Container[str], samples: int) -> set[str]:
        """Put back, before a further pass of the same batch, what goes by batches, but not the paths to `keep`.

        `samples`: of the pass that is over. Returns the paths of numbers that were put back.
        """
        put_back = self._put_back(lambda path: path not in keep)
        self._draw_again()
        for path, items in self._lists.items():
            if (
                path not in keep
                and len(items) == self._lengths[path] + 1
                and not _is_of_samples(items[-1], samples)
            ):
                self._shorten(path)
        return put_back

    def restore_only(self, paths: Container[str]) -> None:
        """Put back these alone, because the part was another replica's, too."""
        self._put_back(lambda path: path in paths)
        for path in self._lists:
            if path in paths:
                self._shorten(path)

    def moves(self, leave_out: Container[str]) -> dict[str, Any]:
        """Return how far numbers with a fraction have moved, and those that lists have got, one for the batch."""
        moved = {}
        for path, leaf in self._now().items():
            before = _begun(self._values[path])
            if path in leave_out or path in self._copies:
                continue
            if _has_fraction(leaf.value) and _alike(leaf.value, before):
                moved[path] = 0.0 if self._untouched(path, leaf.value) else _move(before, leaf.value)
        for path, items in self._lists.items():
            if len(items) != self._lengths[path] + 1 or path in leave_out:
                continue
            if _has_fraction(items[-1]):
                moved[_last(path)] = _kept(items[-1])
            else:
                moved |= {_last(path) + p: _kept(number) for p, number in numbers_of(items[-1]).items()}
        return moved

    def average(
        self,
        passes: Sequence[tuple[float, Mapping[str, Any]]],
        early: Set[str],
        of_all: Callable[[], list[float]],
        last_alone: bool = False,
        follows: Callable[[str, Any, list[Any]], bool] = lambda *_: False,
        counts: RowCounts | None = None,
    ) -> None:
        """Let what moved have moved by the mean of all passes, after the last one; `passes`: weights and moves.

        `early`: paths that have ever moved before a last pass. All others go by what only the last pass does,
        such as a step.
        `of_all()`: values that are of the whole batch in the last pass. What has become one of them stays.
        `last_alone`: only the last pass was to move things, so what has moved in it alone stays.
        `follows(path, before, moves)`: whether a number goes by such values; it stays, too.
        `counts`: counts in rows, which add up.
        """
        common = set.intersection(*(set(moves) for _, moves in passes))
        mean = {path: _mean([(weight, moves[path]) for weight, moves in passes]) for path in common}
        now, others = self._now(), {}
        apart = {path for path in common & early if not _equal(passes[-1][1][path], mean[path])}
        if last_alone:
            apart = {path for path in apart if any(not _equal(moves[path], 0.0) for _, moves in passes[:-1])}
        followers = {
            path
            for path in apart & self._values.keys()
            if follows(path, _begun(self._values[path]), [moves[path] for _, moves in passes])
        }
        settled = {float(now[path].value) for path in followers & now.keys()}
        if apart:
            settled.update(of_all())
        apart -= followers
        for path, move in mean.items():
            if path not in apart or path not in now or _among(now[path].value, settled):
                continue
            if not (isinstance(move, ARRAYS) or math.isfinite(move)):
                continue
            before, live = _begun(self._values[path]), now[path].value
            if _equal(live, 0) and not _equal(before, 0):
                continue  # it begins anew
            with np.errstate(invalid="ignore"):
                value = before + move
            if isinstance(live, ARRAYS):
                value = _finite_or(value, live)
            if isinstance(live, ARRAYS) and live is self._leaves[path].value:
                live[...] = value
            else:
                others[path] = value
        put(others, now)
        kept = {path: value for path, value in mean.items() if path in apart}
        for path, items in self._lists.items():
            last = _last(path)
            if len(items) != self._lengths[path] + 1:
                continue
            if last in kept and not _among(items[-1], settled):
                items[-1] = kept[last]
            elif (row := numbers_of(items[-1])) and not _has_fraction(items[-1]):
                values = _of_row(last, row, passes, kept, counts)
                items[-1] = with_numbers(
                    items[-1], {p: v for p, v in values.items() if not _among(row[p], settled)}
                )

    def late(self, paths: Container[str], make: Callable[[int], int]) -> None:
        """Let counts show that what they count is not over yet."""
        now = self._now()
        put(
            {
                path: make(leaf.value)
                for path, leaf in now.items()
                if path in paths and isinstance(leaf.value, int)
            },
            now,
        )

    def _now(self) -> dict[str, Leaf]:
        return _as_of_now(self._leaves)

    def _put_back(self, chosen: Callable[[str], bool]) -> set[str]:
        """Put back the values whose paths are `chosen`.

        A tensor that was changed in place is changed back. One that was replaced comes back itself.
        """
        self._put_containers_back(chosen)
        self._take_out(chosen)
        now, others, written = self._now(), {}, set()
        for path, value in self._values.items():
            if path not in now or not chosen(path):
                continue
            if path in self._new:
                del now[path].owner[now[path].key]
                continue
            first, live = self._leaves[path].value, now[path].value
            if isinstance(value, ARRAYS):
                if live is not first:
                    others[path] = first
                elif self._is_written(path, live):  # it may be one that nobody may write to
                    live[...] = value
                    written.add(path)
            elif type(live) is not type(value) or live != value:
                others[path] = value
        put(others, now)
        return written | others.keys()

    def _take_out(self, chosen: Callable[[str], bool]) -> None:
        """Take out objects under new keys, which are not there yet."""
        for path in filter(chosen, self._made):
            leaf = self._made[path]
            leaf.owner.pop(leaf.key, None)
            for inner in _inside(path, self._leaves):
                del self._leaves[inner], self._values[inner]
            for inner in _inside(path, self._lists):
                del self._lists[inner], self._lengths[inner]

    def _put_containers_back(self, chosen: Callable[[str], bool]) -> None:
        """Put back lists, mappings and the like that were replaced, as in `window = [*window[1:], value]`."""
        now = _as_of_now(self._containers)
        replaced = {
            p: leaf.value for p, leaf in self._containers.items() if p in now and now[p].value is not leaf.value
        }
        put({path: value for path, value in replaced.items() if chosen(path)}, now)

    def _shorten(self, path: str) -> None:
        items = self._lists[path]
        if isinstance(items, deque):
            if path in self._queues:
                items.clear()
                items.extend(self._queues[path])
        else:
            del items[self._lengths[path] :]


def _inside(path: str, places: Mapping[str, _Value]) -> dict[str, _Value]:
    return {inner: value for inner, value in places.items() if inner.startswith(f"{path}/")}


def _is_over_samples(
    numbers: Mapping[str, Leaf], lists: Mapping[str, list[Any] | deque[Any]], given: Given, kept: Container[str]
) -> bool:
    """Return whether something in a new object counts samples or adds up over them, or may do so."""
    samples = given.samples
    if samples < 2 or any(path in kept for path in (*numbers, *lists)):
        return True
    if any(len(items) == samples or _is_of_samples(items[-1], samples) for items in lists.values() if items):
        return True
    if not all(_is_single(leaf.value) for leaf in numbers.values()):
        return True
    plain = [leaf.value.item() if hasattr(leaf.value, "item") else leaf.value for leaf in numbers.values()]
    if all(isinstance(number, int) for number in plain) and not any(lists.values()):
        return True  # such as a table of counts
    losses = [loss for loss in given.losses([]) if not getattr(loss, "shape", ())]
    return any(grows_by_samples(number, samples, losses) for number in plain)


def _move(before: Any, now: Any) -> Any:
    """Return how far a value has moved; what stays has not moved, even where it is infinity."""
    if not isinstance(now, ARRAYS):
        return 0.0 if now == before else now - before
    same = (now == before) | ((now != now) & (before != before))
    if bool(same.all()):
        return 0.0
    if isinstance(now, Tensor):
        return torch.where(same, torch.zeros_like(now), now - before)
    with np.errstate(invalid="ignore"):
        return np.where(same, 0, now - before)


def _finite_or(value: Any, live: Any) -> Any:
    """Return `value`, or what is there now where it is no number, as after infinity has moved."""
    if isinstance(value, Tensor):
        return torch.where(torch.isfinite(value), value, live)
    return np.where(np.isfinite(value), value, live)


def have_moved(moves: Mapping[str, Any]) -> set[str]:
    """Return paths of what has moved, and of all that was appended to a list."""
    return {p for p, move in moves.items() if isinstance(move, ARRAYS) or move != 0 or f"{_last('')}/" in f"{p}/"}


def _mean(moves: Sequence[tuple[float, Any]]) -> Any:
    """Return the mean by weight. An element of an array has it over the passes that have moved it."""
    whole = sum(weight for weight, _ in moves)
    if not any(isinstance(move, ARRAYS) and move.ndim for _, move in moves):
        return sum(move * (weight / whole) for weight, move in moves)
    total = sum(move * weight for weight, move in moves)
    by = sum((move != 0) * weight for weight, move in moves)
    return total / (by + (by == 0))


def _of_row(
    last: str,
    row: Mapping[str, Any],
    passes: Sequence[tuple[float, Mapping[str, Any]]],
    mean: Mapping[str, Any],
    counts: RowCounts | None,
) -> dict[str, Any]:
    """Return a row's numbers for a whole batch: the mean of fractions, the sum of counts. `last`: its place."""
    found = {}
    for inner in row:
        path = last + inner
        of_passes = [(samples, moves[path]) for samples, moves in passes if path in moves]
        if len(of_passes) < len(passes):
            continue
        if not all(is_whole(value) for _, value in of_passes):
            if path in mean:
                found[inner] = mean[path]
        elif counts is not None and (total := counts.total(path, of_passes)) is not None:
            found[inner] = total
    return found


def _as_of_now(leaves: Mapping[str, Leaf]) -> dict[str, Leaf]:
    frames = {id(leaf.place.frame): leaf.place.frame for leaf in leaves.values() if leaf.place is not None}
    for frame in frames.values():
        getattr(frame, "f_locals", None)  # its mapping is as of now
    found = {}
    for path, leaf in leaves.items():
        try:
            value = leaf.now
        except (KeyError, IndexError):
            continue
        found[path] = leaf._replace(value=value)
    return found


def _kept(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return value.copy() if isinstance(value, np.ndarray) else value


def _begun(value: Any) -> Any:
    """Return what a number that replaces `value` has moved from, such as an average that is none at first."""
    return 0.0 if value is None else value


def _alike(a: Any, b: Any) -> bool:
    if type(b) in (int, float) and _has_fraction(a) and _is_single(a):  # a sum that begins as `0`
        return True
    return type(a) is type(b) and getattr(a, "shape", ()) == getattr(b, "shape", ())


def _has_fraction(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.is_floating_point() and not value.requires_grad
    return value.dtype.kind == "f" if isinstance(value, np.ndarray) else isinstance(value, FRACTIONS)


def _is_single(value: Any) -> bool:
    """Return whether it is a number by itself, which a tensor or array of no dimension is as well."""
    return not getattr(value, "shape", ())


def _is_of_samples(item: Any, samples: int) -> bool:
    """Return whether it has one entry for each sample of a pass."""
    if isinstance(item, ARRAYS):
        return item.ndim > 0 and len(item) == samples
    return (
        isinstance(item, Sized) and len(item) == samples and not isinstance(item, str | bytes) and not is_row(item)
    )


def _equal(a: Any, b: Any) -> bool:
    same = a == b
    return bool(same.all()) if isinstance(same, ARRAYS) else bool(same)


def _among(value: Any, settled: Container[float]) -> bool:
    return not isinstance(value, ARRAYS) and float(value) in settled


def _last(path: str) -> str:
    return f"{path}/-1"
