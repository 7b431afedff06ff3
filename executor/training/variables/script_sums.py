"""Sums that a script keeps over its samples or batches, and what they would be if it ran by itself.

Each replica adds up over its own part of the data. When replicas come and go, and when a state is saved, their
sums become what one process would have. Those over samples are added, and those over batches averaged. Replicas
that go on share them again.
How sums grow shows which is which. Sums over samples grow by the samples of a part, by a count of some of them,
or by its loss times its samples. Others grow by 1, by the samples of the whole batch, or by the loss.
One process alone cannot tell a part from its batch. What it has taken for a sum over samples is looked at again
in the first parts.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from .script_frames import ARRAYS, MOST_ITEMS, MOST_LEAVES, NUMBERS, WHOLE, Reach, is_entry_of, reach
from .script_rows import is_row

# Stands beside "values": the attributes of an object of that class.
ATTRIBUTES = "__coadapt_attributes__"
# Parts of a loop that are looked at, in the first passes.
LOOKS = 8
FIRST_LOOKS = 6  # parts of a loop that are looked at before these, since the first ones tell little
LOOPS = 4  # loops of a pass, such as one for training and one to evaluate
PASSES = 3
LOOKS_AGAIN = 3  # parts that are looked at after batches have come to be divided otherwise
TOLERANCE = 1e-3
_NEVER = -1  # stands in the place of how many times a count has grown by the same


@dataclass(frozen=True)
class Given:
    """What the script was given: `samples` of a batch of `batch`. `sizes`: elements of its tensors.

    `losses(counts)`: what losses, and whatever else was computed of the samples, add up to over them. Where they
    are means, it is over so many items. Numbers and arrays.
    """

    samples: int
    batch: int
    losses: Callable[[Sequence[int]], Sequence[Any]] = lambda counts: ()
    sizes: Callable[[], Set[int]] = set

    @property
    def is_part(self) -> bool:
        return self.samples < self.batch


@dataclass
class Known:
    """Paths of variables, by what they are.

    over_samples: sums over samples, and lists with an entry for each or for some. others: seen to be none of
    these.
    rows: of these, tensors and arrays with such entries, as `torch.cat` puts them together.
    moving: whatever moves with each part. counters: whole numbers that grow by 1.
    reckoned: quotients of two others, by name, in the same object.
    alike: how many entries of lists and rows all replicas have in common now; it is in no checkpoint.
    """

    over_samples: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    moving: set[str] = field(default_factory=set)
    counters: set[str] = field(default_factory=set)
    reckoned: dict[str, tuple[str, str]] = field(default_factory=dict)
    rows: set[str] = field(default_factory=set)
    alike: dict[str, int] = field(default_factory=dict)

    def also_at(self, alias: str, first: str) -> None:
        """Know what is at the path `first` to be at `alias`, too."""
        for paths in (self.over_samples, self.moving, self.rows):
            paths |= {
                alias + path[len(first) :] for path in paths if path == first or path.startswith(f"{first}/")
            }

    def update(self, other: Known) -> None:
        self.others |= other.others
        self.over_samples = (self.over_samples | other.over_samples) - self.others
        self.moving |= other.moving
        self.counters |= other.counters
        self.reckoned |= other.reckoned
        self.rows |= other.rows

    def as_plain(self) -> dict[str, Any]:
        """Return it as it goes into checkpoints."""
        return {
            "over_samples": sorted(self.over_samples),
            "others": sorted(self.others),
            "moving": sorted(self.moving),
            "counters": sorted(self.counters),
            "reckoned": {path: list(of) for path, of in self.reckoned.items()},
            "rows": sorted(self.rows),
        }

    @classmethod
    def of_plain(cls, told: Mapping[str, Any]) -> Known:
        return cls(
            set(told["over_samples"]),
            set(told["others"]),
            set(told["moving"]),
            set(told["counters"]),
            {path: (above, below) for path, (above, below) in told["reckoned"].items()},
            set(told.get("rows", ())),
        )

    @property
    def kept(self) -> set[str]:
        """What further passes of a batch add to, or compute from what they add to."""
        return self.over_samples | self.reckoned.keys()


class SampleSums:
    """Finds out what a script's variables are, by looking at how they grow."""

    def __init__(self) -> None:
        self.known = Known()
        self._before: dict[str, Any] = {}
        self._lengths: dict[str, int] = {}
        self._mappings: set[str] = set()
        self._of_batches: dict[str, tuple[int, int]] = {}  # counts that may be of batches: growth, how many times
        self._doubted: set[str] = set()  # of these, what was taken for sums over samples
        self._added: dict[str, set[int]] = {}  # by how many entries lists and arrays have grown
        self._alike: dict[str, tuple[Any, Any]] = {}  # what all replicas had alike: lists, or None, and entries
        self._looks = 0
        self._loops = 0
        self._passes = 0
        self._late = False
        self._has_counted = False  # whether counters were looked at
        # Growths by 1 in passes that are undone. Counters are rightly undone; counts of some samples are not.
        self._undecided: dict[str, int] = {}
        self._looks_again = 0
        self._revoked: set[str] = set()
        self._no_quotients: set[str] = set()
        self._copies: dict[str, bool] = {}  # whole numbers whose growths have all made them equal to a counter

    @property
    def looks(self) -> bool:
        return self._looks_again > 0 or (self._passes <= PASSES and self._looks < LOOKS)

    def begin_pass(self) -> None:
        self._passes += 1
        self._looks = self._loops = 0
        self._undecided = {}

    def begin_loop(self) -> None:
        """Begin a loop over the data, of which a pass may have several."""
        self._loops += 1
        if self._loops <= LOOPS:
            self._looks = -FIRST_LOOKS

    def look_again(self) -> None:
        """Look again, because batches are divided otherwise from now on."""
        self._looks_again = LOOKS_AGAIN

    def before_part(self, late: bool) -> None:
        """Begin a part, which the script is given next. `late`: it sees numbers of batches as not due yet."""
        self._late = late
        if self.looks:
            found = reach((*NUMBERS, *ARRAYS))
            self._before = {path: _copied(leaf.value) for path, leaf in found.leaves.items()}
            self._lengths = {path: len(items) for path, items in found.lists.items()}
            self._mappings = found.mappings

    def after_part(self, given: Given) -> None:
        """Take in how variables have grown, when the script is done with its part of a batch."""
        self._unsure: dict[str, int] = {}
        if not self._before:
            return
        before, self._before = self._before, {}
        samples = given.samples
        self._looks += 1
        self._looks_again = max(0, self._looks_again - 1)
        found, known = reach((*NUMBERS, *ARRAYS)), self.known
        before |= {p: 0 for p in found.leaves.keys() - before.keys() if is_entry_of(p, self._mappings)}
        self._lengths |= {
            p: 0 for p in found.lists.keys() - self._lengths.keys() if is_entry_of(p, self._mappings)
        }
        grown = {
            path: growth
            for path, leaf in found.leaves.items()
            if path in before and (growth := _growth(before[path], leaf.value)) is not None
        }
        known.moving |= grown.keys()
        self._note_counters(grown)
        counts = {growth for growth in grown.values() if isinstance(growth, int) and growth > 1} - {samples}
        has_fractions = any(not isinstance(growth, int) for growth in grown.values())
        sizes = given.sizes() if given.is_part or counts else set()
        odd = {growth for growth in counts if growth % samples} - sizes
        added = given.losses(sorted(counts)) if has_fractions or odd else ()
        odd -= {int(one) for one in added if isinstance(one, float) and one.is_integer()}
        copies = self._copies_of_counters(grown, found, before)
        for path, growth in grown.items():
            by_samples = _by_samples(growth, samples, added)
            if by_samples and isinstance(growth, int):
                by_samples = self._judged(path, growth, given, sizes, odd)
            if by_samples and path in copies:
                by_samples = None
            if by_samples is not True and self._beside_count(path, growth, grown, found, samples):
                by_samples = True
            self._note(path, by_samples)
        self._unsure = {
            path: growth
            for path, growth in grown.items()
            if isinstance(growth, int) and (growth == 1 < samples or path in self._of_batches or path in copies)
        }
        self._note_reckoned(grown, found, before)
        self._note_lists(found, samples)
        self._note_rows(found, before, samples)
        for alias, first in found.aliases.items():
            known.also_at(alias, first)

    def _copies_of_counters(self, grown: Mapping[str, Any], found: Reach, before: Mapping[str, Any]) -> set[str]:
        """Return paths of whole numbers that equalled a counter whenever they grew, as in `last_log = step`."""
        counters = (self.known.counters - self.known.over_samples) & found.leaves.keys() & before.keys()
        values = {int(value) for path in counters for value in (before[path], found.leaves[path].value)}
        for path, growth in grown.items():
            if isinstance(growth, int) and growth > 1:
                is_copy = int(found.leaves[path].value) in values
                self._copies[path] = is_copy and self._copies.get(path, path not in self.known.over_samples)
        return {path for path in grown if self._copies.get(path)}

    def _judged(self, path: str, growth: int, given: Given, sizes: Set[int], odd: Set[int]) -> bool | None:
        """Return whether a count is over samples. One of batches grows by the same in parts as in whole batches.

        `odd`: growths that come of nothing that is known of the samples.
        """
        if not given.is_part:
            return self._is_odd_in_whole(path, growth, odd)
        if is_of_batches(growth, given.samples, given.batch, sizes):
            times = self._grows_alike(path, growth)
            return True if times < 0 else False if times >= LOOKS_AGAIN else None
        if growth in odd:
            return self._is_odd(path, growth)
        before, times = self._of_batches.get(path, (0, _NEVER))
        if before == growth and times > 0:  # it equals what is known of the samples by chance
            return True if path in self.known.over_samples else None
        self._of_batches[path] = growth, _NEVER
        return True

    def _is_odd_in_whole(self, path: str, growth: int, odd: Set[int]) -> bool | None:
        """Return the same where whole batches were given, after some looks."""
        if self._grows_alike(path, growth) >= LOOKS_AGAIN and (growth in odd or path in self._doubted):
            self._doubt(path)
            return None
        self._doubted.discard(path)
        return True

    def _is_odd(self, path: str, growth: int) -> bool | None:
        """Return the same for a growth that might be of samples, were it not the same again and again."""
        known, times = self.known, self._of_batches.get(path, (growth, 0))[1]
        if path in known.over_samples and times + LOOKS_AGAIN < LOOKS:
            self._of_batches[path] = growth, _NEVER  # too few looks are left
        times = self._grows_alike(path, growth)
        if 0 <= times < LOOKS:
            self._doubt(path)
            return None
        if path in self._doubted:
            self._doubted.discard(path)
            known.over_samples.add(path)
        return times < 0

    def _doubt(self, path: str) -> None:
        """Take it for one of batches until it is known."""
        if path in self.known.over_samples:
            self._doubted.add(path)
            self.known.over_samples.discard(path)

    def _grows_alike(self, path: str, growth: int) -> int:
        """Return how many times a count has grown by the same; below 0 where it once did not."""
        before, times = self._of_batches.get(path, (growth, 0))
        times = times + 1 if before == growth and times >= 0 else _NEVER
        self._of_batches[path] = growth, times
        return times

    def put_back(self, paths: set[str]) -> None:
        """Note that these are as they were before the last part."""
        for path in (self._unsure.keys() & paths) - self.known.over_samples - self.known.others:
            self._undecided[path] = self._undecided.get(path, 0) + self._unsure[path]

    def take_revoked(self) -> set[str]:
        """Return what was taken for sums over samples, and is none."""
        revoked, self._revoked = self._revoked, set()
        return revoked

    def take_decided(self) -> dict[str, int]:
        """Return what was put back of counts, by path, before they were known to be over samples."""
        decided = {path: lost for path, lost in self._undecided.items() if path in self.known.over_samples}
        for path in decided:
            del self._undecided[path]
        return decided

    def _note(self, path: str, by_samples: bool | None) -> None:
        if by_samples and path not in self.known.others:
            self.known.over_samples.add(path)
        elif by_samples is False:
            if path in self.known.over_samples:
                self._revoked.add(path)
            self.known.over_samples.discard(path)
            self.known.others.add(path)

    def _note_counters(self, grown: Mapping[str, Any]) -> None:
        if self._late:
            return
        ones = {path for path, growth in grown.items() if isinstance(growth, int) and growth == 1}
        self.known.counters = self.known.counters & ones if self._has_counted else ones
        self._has_counted = True

    def _note_lists(self, found: Reach, samples: int) -> None:
        """Note lists that get an entry for each sample or for some, or one array of entries for each part."""
        for path, items in found.lists.items():
            more = len(items) - self._lengths.get(path, len(items))
            of_part = samples > 1 and more == 1 and _is_of_samples(items[-1], samples)
            if self._is_by_samples(path, more, samples) or of_part:
                self.known.over_samples.add(path)

    def _note_rows(self, found: Reach, before: Mapping[str, Any], samples: int) -> None:
        """Note tensors and arrays that others took the place of, with more entries behind the same ones."""
        for path, leaf in found.leaves.items():
            if path not in before or not isinstance(leaf.value, ARRAYS) or not leaf.value.ndim:
                continue
            more = len(leaf.value) - _length(before[path])
            if more > 0 and _begins_with(leaf.value, before[path]) and self._is_by_samples(path, more, samples):
                self.known.rows.add(path)
                self.known.over_samples.add(path)

    def _is_by_samples(self, path: str, more: int, samples: int) -> bool:
        """Return whether there are entries for each sample, or for some, so that their number varies."""
        if samples < 2 or more < 2:
            return False
        self._added.setdefault(path, set()).add(more)
        return more == samples or len(self._added[path]) > 1

    def are_alike(self) -> None:
        """Note that all replicas have the same now, but for their shares of what is over samples."""
        found, over = reach(ARRAYS), self.known.over_samples
        lists = {path: (items, list(items)) for path, items in found.lists.items() if path not in over}
        arrays = {
            path: (None, _copied(leaf.value))
            for path, leaf in found.leaves.items()
            if path not in over and leaf.value.ndim
        }
        self._alike = lists | arrays

    def still_alike(self) -> dict[str, int]:
        """Return how many entries of lists and arrays are those that all replicas had, by path."""
        found = reach(ARRAYS)
        now = found.lists | {path: leaf.value for path, leaf in found.leaves.items()}
        return {
            path: len(entries)
            for path, (items, entries) in self._alike.items()
            if path in now and (items is None or now[path] is items) and _begins_with(now[path], entries)
        }

    def _beside_count(self, path: str, growth: Any, grown: Mapping[str, Any], found: Reach, samples: int) -> bool:
        """Return whether an object keeps it beside a count of its samples, as a meter does."""
        if found.leaves[path].place is not None or not isinstance(growth, float):
            return False
        beside = _beside(path, grown, found)
        if not any(isinstance(more, int) and more == samples > 1 for more in beside.values()):
            return False
        if any(isinstance(more, int) and more == 1 for more in beside.values()):
            return False
        return not self._is_reckoned(path, beside, found)

    def _is_reckoned(self, path: str, beside: Mapping[str, Any], found: Reach) -> bool:
        """Return whether it is no sum: a quotient of two sums, or the last value."""
        return self._quotient(path, beside, found) is not None or self._is_last_value(path, beside, found)

    def _is_last_value(self, path: str, beside: Mapping[str, Any], found: Reach) -> bool:
        """Return whether some other number grew by this one times a count, as in `sum += val * n`."""
        value = found.leaves[path].value
        counts = [more for more in beside.values() if isinstance(more, int) and more > 1]
        sums = [more for name, more in beside.items() if name != path and isinstance(more, float)]
        return any(_close(float(value) * count, more) for count in counts for more in sums)

    def _quotient(self, path: str, beside: Mapping[str, Any], found: Reach) -> tuple[str, str] | None:
        value = found.leaves[path].value
        for first in beside:
            for second, more in beside.items():
                divisor = found.leaves[second].value
                if (
                    path in (first, second)
                    or first == second
                    or not isinstance(more, int)
                    or not _nonzero(divisor)
                ):
                    continue
                if _close(float(found.leaves[first].value) / float(divisor), float(value)):
                    return first, second
        return None

    def _note_reckoned(self, grown: Mapping[str, Any], found: Reach, before: Mapping[str, Any]) -> None:
        for path, growth in grown.items():
            if not isinstance(growth, float) or path in self.known.over_samples or path in self._no_quotients:
                continue
            # A sum stays what it is with a part that adds nothing to it.
            sums = {
                name: 0
                for name in self.known.over_samples
                if name not in grown and name in found.leaves and _is_single(found.leaves[name].value)
            }
            of = self._quotient(path, _beside(path, {**sums, **grown}, found), found)
            if of is None:
                self.known.reckoned.pop(path, None)
                self._no_quotients.add(path)
            elif set(of) <= self.known.over_samples and _nonzero(before.get(of[1])):
                # With the first part of a sum each mean of it is such a quotient.
                self.known.reckoned[path] = (_name(of[0]), _name(of[1]))


def _beside(path: str, grown: Mapping[str, Any], found: Reach) -> dict[str, Any]:
    """Return how the single numbers in the same object, or among the same variables, have grown."""
    owner = found.leaves[path].owner
    return {
        name: more
        for name, more in grown.items()
        if not isinstance(more, np.ndarray) and found.leaves[name].owner is owner
    }


def _growth(before: Any, now: Any) -> Any:
    """Return how a value has grown: a whole number, float or array; None where it has not, or is another."""
    if type(before) in (int, float) and isinstance(now, ARRAYS) and not now.shape:  # a sum that begins as `0`
        now = now.item()
    if type(now) is float and type(before) is int:
        before = float(before)
    if type(before) is not type(now) or getattr(before, "shape", ()) != getattr(now, "shape", ()):
        return None
    if isinstance(now, ARRAYS):
        if now.ndim == 0 or now.size == 1 if isinstance(now, np.ndarray) else now.numel() == 1:
            before, now = before.item(), now.item()
        else:
            old, new = _as_array(before), _as_array(now)
            with np.errstate(invalid="ignore"):
                grown = np.where((new == old) | (np.isnan(new) & np.isnan(old)), 0.0, new - old)
            return grown if np.any(grown) else None
    if isinstance(now, bool) or now == before or now != now:
        return None
    return int(now - before) if isinstance(now, WHOLE) else float(now - before)


def _by_samples(growth: Any, samples: int, losses: Sequence[Any]) -> bool | None:
    if not isinstance(growth, np.ndarray):
        return grows_by_samples(growth, samples, [loss for loss in losses if not isinstance(loss, np.ndarray)])
    if samples < 2:
        return None
    if np.all(growth >= 0) and np.all(growth == np.round(growth)):
        return bool(growth.sum() > 1)
    if any(_close_arrays(loss, growth) for loss in losses if isinstance(loss, np.ndarray)):
        return True
    singles = [loss for loss in losses if not isinstance(loss, np.ndarray)]
    return growth.size <= MOST_LEAVES and all(grows_by_samples(float(g), samples, singles) for g in growth.flat)


def grows_by_samples(growth: float, samples: int, losses: Sequence[float]) -> bool | None:
    """Return whether a sum that grew by `growth` with a part of `samples` is over samples; None: not clear.

    Whole numbers that grow by more than 1 count samples or items of them. So do fractions, up to the samples.
    `losses`: what sums of a loss over the part's samples or items grow by.
    """
    if samples < 2 or not math.isfinite(growth):
        return None
    if isinstance(growth, int):
        return True if growth > 1 else None if growth == 1 else False
    if float(growth).is_integer() and 1 <= growth <= samples:
        return True if growth > 1 else None
    known = [loss for loss in losses if math.isfinite(loss)]
    return any(_close(loss, growth) for loss in known) if known else None


def is_of_batches(growth: Any, samples: int, batch: int, sizes: Set[int]) -> bool:
    """Return whether a count grew by something of the whole batch, such as its samples, where a part was given.

    `sizes`: elements of the part's tensors. A count of those, such as one of tokens, is one over samples.
    """
    if not isinstance(growth, int) or growth == samples:
        return False
    return growth == batch or (growth not in sizes and any(growth * samples == size * batch for size in sizes))


def whole_numbers(value: Any, paths: Container[str], path: str = "") -> dict[str, int]:
    """Return whole numbers in captured variables, by path; of some paths only."""
    if isinstance(value, dict):
        is_object = ATTRIBUTES in value
        found: dict[str, int] = {}
        for key, item in value.items():
            found |= whole_numbers(item, paths, path if is_object else f"{path}/{key}")
        return found
    return {path: int(value)} if path in paths and isinstance(value, WHOLE) else {}


def as_alone(
    everyone: Sequence[Any], weights: Sequence[float], known: Known, scale: float = 1.0, path: str = ""
) -> Any:
    """Return what replicas' variables would be in one process.

    `weights`: samples of each replica. `scale`: replicas that there were, divided by those that are here.
    Whole numbers that differ are counts, and become known as sums over samples.
    """
    first = everyone[0]
    kind = type(first)
    if any(type(other) is not kind for other in everyone):
        return first
    if isinstance(first, ARRAYS) and first.ndim and _fit(everyone):
        if path in known.alike and _is_of_some(everyone, known.alike[path]):
            known.rows.add(path)
            known.over_samples.add(path)
        if path in known.rows:
            return _joined(everyone, known.alike.get(path, 0))
    if kind in NUMBERS or isinstance(first, ARRAYS):
        return _number_alone(everyone, weights, known, scale, path)
    if isinstance(first, dict):
        if any(other.get(ATTRIBUTES) != first.get(ATTRIBUTES) for other in everyone):
            return first
        if ATTRIBUTES in first:
            values = variables_alone([other["values"] for other in everyone], weights, known, scale, path)
            return {**first, "values": values}
        if any(other.keys() != first.keys() for other in everyone) and all(map(counts_by_key, everyone)):
            return _counts_together(everyone, known, path)
        return variables_alone(everyone, weights, known, scale, path) if kind is dict else first
    if kind is list:
        alike = known.alike.get(path, 0)
        if _is_of_some(everyone, alike):
            known.over_samples.add(path)
        if path in known.over_samples:
            return _joined(everyone, alike)
        if len(first) > MOST_ITEMS:
            return _mean_of_lists(everyone, weights)
    if kind in (list, tuple) and all(len(other) == len(first) for other in everyone):
        return kind(
            as_alone([other[i] for other in everyone], weights, known, scale, f"{path}/{i}")
            for i in range(len(first))
        )
    return max(everyone, key=len) if kind is list else first


def variables_alone(
    everyone: Sequence[Mapping[Any, Any]], weights: Sequence[float], known: Known, scale: float, path: str
) -> dict[Any, Any]:
    """Return the same of values by name. What only some replicas have is as it would be for these alone."""
    combined = {}
    for key in dict.fromkeys(key for other in everyone for key in other):
        having = [i for i, other in enumerate(everyone) if key in other]
        values, theirs = [everyone[i][key] for i in having], [weights[i] for i in having]
        combined[key] = as_alone(
            values, theirs if any(theirs) else [1.0] * len(theirs), known, scale, f"{path}/{key}"
        )
    return _reckoned_again(combined, known, path)


def _is_of_some(everyone: Sequence[Any], alike: int) -> bool:
    """Return whether several replicas have added different numbers of entries, as for some of the samples."""
    lengths = list(map(_length, everyone))
    if len(set(lengths)) == 1 or sum(length > alike for length in lengths) < 2:
        return False
    return not any(
        isinstance(item, dict) and ATTRIBUTES in item
        for items in everyone
        if isinstance(items, list)
        for item in items
    )


def _mean_of_lists(everyone: Sequence[list[Any]], weights: Sequence[float]) -> list[Any]:
    """Return the mean of lists of many numbers, if they are alike in length and hold fractions."""
    first = everyone[0]
    if any(len(other) != len(first) for other in everyone) or set(map(type, first)) != {float}:
        return max(everyone, key=len)
    if all(other == first for other in everyone):
        return first
    mean: list[Any] = np.average(np.array(everyone, dtype=np.float64), axis=0, weights=weights).tolist()
    return mean


def _fit(everyone: Sequence[Any]) -> bool:
    """Return whether the rows of arrays are alike in shape."""
    return len({one.shape[1:] for one in everyone if _length(one)}) == 1


def _joined(everyone: Sequence[Any], alike: int) -> Any:
    """Return the entries of all replicas; of entries that are alike, one replica's."""
    first, *others = everyone
    parts = [first, *(other[alike:] for other in others)]
    if isinstance(first, list):
        return [item for part in parts for item in part]
    parts = [part for part in parts if _length(part)]
    return torch.cat(parts) if isinstance(first, torch.Tensor) else np.concatenate(parts)


def _reckoned_again(values: dict[Any, Any], known: Known, path: str) -> dict[Any, Any]:
    for key in values:
        above, below = known.reckoned.get(f"{path}/{key}", ("", ""))
        if above in values and below in values and _nonzero(values[below]):
            values[key] = _like(values[key], values[above] / values[below])
    return values


def counts_by_key(value: Mapping[Any, Any]) -> bool:
    return all(type(count) is int for count in value.values())


def _counts_together(everyone: Sequence[dict[Any, int]], known: Known, path: str) -> dict[Any, int]:
    """Return counts by key, where replicas have met different keys."""
    total = type(everyone[0])()
    for counts in everyone:
        for key, count in counts.items():
            total[key] = total.get(key, 0) + count
            known.over_samples.add(f"{path}/{key}")
    return total


def _number_alone(everyone: Sequence[Any], weights: Sequence[float], known: Known, scale: float, path: str) -> Any:
    first = everyone[0]
    if any(getattr(other, "shape", ()) != getattr(first, "shape", ()) for other in everyone):
        return first
    alike = all(_equal(first, other) for other in everyone)
    if not alike and _is_whole(first):
        known.over_samples.add(path)
    if path in known.over_samples:
        total = sum(everyone[1:], first)
        return total if scale == 1.0 else _like(first, total * scale)
    if alike or getattr(first, "dtype", None) == torch.bool:
        return first
    whole = math.fsum(weights)
    return _like(first, sum(value * (weight / whole) for value, weight in zip(everyone, weights, strict=True)))


def shared(value: Any, known: Known, rank: int, replicas: int, path: str = "") -> Any:
    """Return a replica's share of variables as one process has them."""
    if replicas == 1:
        return value
    kind = type(value)
    if path in known.rows and isinstance(value, ARRAYS):
        return value[rank::replicas]
    if kind in NUMBERS or isinstance(value, ARRAYS):
        if path not in known.over_samples:
            return value
        return _like(value, _share(value, rank, replicas))
    if isinstance(value, dict):
        is_object = ATTRIBUTES in value
        items = {
            key: shared(item, known, rank, replicas, path if is_object else f"{path}/{key}")
            for key, item in value.items()
        }
        return items if kind is dict else kind(items)
    if kind is list and path in known.over_samples:
        return _entries_of(value, rank, replicas)
    if kind in (list, tuple) and len(value) <= MOST_ITEMS:
        return kind(shared(item, known, rank, replicas, f"{path}/{i}") for i, item in enumerate(value))
    return value


def _entries_of(items: list[Any], rank: int, replicas: int) -> list[Any]:
    """Return a rank's share of a list with an entry for each sample, or with arrays of such entries."""
    if not all(isinstance(item, ARRAYS) and item.ndim for item in items):
        return items[rank::replicas]
    begins = itertools.accumulate(map(len, items), initial=0)
    return [item[(rank - begin) % replicas :: replicas] for item, begin in zip(items, begins, strict=False)]


def _share(value: Any, rank: int, replicas: int) -> Any:
    """Return a rank's share; those of whole numbers in an array add up to the share of their sum."""
    if not _is_whole(value):
        return value / replicas
    if not isinstance(value, ARRAYS):
        return value // replicas + (value % replicas > rank)
    counts = value.numpy() if isinstance(value, torch.Tensor) else value
    until = np.cumsum(counts.reshape(-1), dtype=np.int64)
    before = until - counts.reshape(-1)
    # Of the numbers from `before` to `until`, those that a rank would be dealt.
    dealt = (until + replicas - 1 - rank) // replicas - (before + replicas - 1 - rank) // replicas
    return dealt.reshape(counts.shape)


def _is_whole(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() and value.dtype is not torch.bool
    if isinstance(value, np.ndarray | np.generic):
        return np.issubdtype(value.dtype, np.integer)
    return isinstance(value, int) and not isinstance(value, bool)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and bool(torch.equal(a, b.to(a.device)))
    if isinstance(a, np.ndarray | np.generic):
        return bool(np.array_equal(a, b, equal_nan=np.issubdtype(a.dtype, np.floating)))
    return bool(a == b or (a != a and b != b))


def _like(first: Any, value: Any) -> Any:
    """Return `value` in the type of `first`."""
    if isinstance(first, torch.Tensor):
        return torch.as_tensor(value, dtype=first.dtype, device=first.device)
    if isinstance(first, np.ndarray | np.generic):
        return np.asarray(value, dtype=first.dtype)[()]
    return type(first)(round(value)) if isinstance(first, int) else value


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return value.copy() if isinstance(value, np.ndarray) else value


def _as_array(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.float().numpy() if value.is_floating_point() else value.long().numpy()
    return value.astype(np.float64)


def _length(value: Any) -> int:
    """Return the entries of a list, or the rows of an array; 0 for all else."""
    if isinstance(value, ARRAYS):
        return len(value) if value.ndim else 0
    return len(value) if isinstance(value, list | deque) else 0


def _begins_with(now: Any, entries: Any) -> bool:
    """Return whether a list or an array has these entries before all others."""
    if (isinstance(now, ARRAYS) and type(now) is not type(entries)) or _length(now) < len(entries):
        return False
    if not isinstance(now, ARRAYS):
        return all(a is b for a, b in zip(now, entries, strict=False))
    return not len(entries) or (now.dtype == entries.dtype and _equal(entries, now[: len(entries)]))


def _is_of_samples(item: Any, samples: int) -> bool:
    if isinstance(item, ARRAYS):
        return item.ndim > 0 and len(item) == samples
    return (
        isinstance(item, Sized) and len(item) == samples and not isinstance(item, str | bytes) and not is_row(item)
    )


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE * abs(a)


def _close_arrays(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= TOLERANCE * np.abs(a)))


def _is_single(value: Any) -> bool:
    return isinstance(value, (*NUMBERS, torch.Tensor)) and getattr(value, "ndim", 0) == 0


def _nonzero(value: Any) -> bool:
    return _is_single(value) and float(value) != 0


def _name(path: str) -> str:
    return path.rpartition("/")[2]
