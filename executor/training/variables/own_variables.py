"""The script's own variables in a job whose replicas come and go.

They travel to newcomers and into checkpoints as one process would have them (`script_sums.as_alone`). Replicas
take their share of sums over samples.
Where a batch takes several passes, or has to be done again, variables end up as if it had been given once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.utils.data import DataLoader

from ..collective.group import Group
from .script_frames import ARRAYS, FRACTIONS, MODULE, NUMBERS, WHOLE, are_trained, put, reach, script_objects
from .script_rows import RowCounts, is_row, numbers_of
from .script_state import ScriptState
from .script_sums import Given, Known, SampleSums, shared, variables_alone, whole_numbers
from .script_undo import ANY_SIZE, Undo, Weights, have_moved
from .undue import Late
from .whole_values import NormFollowers

Frames = Sequence[dict[str, Any]]
PERCENT = 100
ROUND_OFF = 1e-6


class OwnVariables:
    """The script's variables in this process."""

    def __init__(
        self,
        models: Sequence[nn.Module] = (),
        things: Mapping[str, Any] | None = None,
        ordering: Set[int] = frozenset(),
        reading: Set[int] = frozenset(),
    ) -> None:
        """Know the script's variables. `ordering`, `reading`: ids of random generators, as `Prepared` has them."""
        are_trained([*models, *(thing for thing in (things or {}).values() if isinstance(thing, nn.Module))])
        self._reading = reading
        self._script = ScriptState(models, things or {}, ordering)
        self._sums = SampleSums()
        self._weights = Weights(models)
        self._as_one: Frames | None = None  # what one process would have now, once that was found out
        self._pass_begun: Frames = ()  # variables when the running pass began
        # variables of the process that this one goes on for, until they are put in place
        self._taken: dict[str, Any] = {}
        self._undo: Undo | None = None  # variables before the running batch
        self._undo_first: Undo | None = None  # variables before the first batch of the running step
        self._undo_step: Undo | None = None  # variables before the running step of a loop in steps
        self._undo_copy: Undo | None = None  # variables before a part that another replica computes as well
        self._lent: dict[str, int] = {}  # by path: what others added to a count over samples
        self._owed: dict[str, int] = {}  # the same for a count that is not over samples
        self._several = False
        self._means_at_end: list[_Mean] = []
        self._at_end: dict[str, float] = {}  # single numbers, when the last loop ended
        self._early: set[str] = set()  # paths of what has ever moved before the last pass of a batch
        self._moves: list[tuple[float, dict[str, Any]]] = []
        self._followers = NormFollowers()
        self._row_counts = RowCounts()

    # --- travelling -----------------------------------------------------------------------------------------

    @property
    def known_as_one(self) -> bool:
        return self._as_one is not None

    def state(self, in_pass: bool, pass_samples: int) -> dict[str, Any]:
        """Return what another process needs to go on. `in_pass`: a pass over the data is under way."""
        if self._taken:  # the script has not come to its place
            return {**self._taken, "known": self._sums.known.as_plain()}
        return {
            "now": list(self._capture() if self._as_one is None else self._as_one),
            "pass": list(self._pass_begun),
            "in_pass": in_pass,
            "samples": pass_samples,
            "known": self._sums.known.as_plain(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on for the process that `state` is of, as soon as the script has come to its place."""
        self._taken = state
        self._sums.known.update(Known.of_plain(state["known"]))

    def _capture(self) -> Frames:
        return self._script.capture() if self._script.baseline else ()

    def look_as_one(
        self, group: Group | None, weight: float, here: bool = True, replicas: int | None = None
    ) -> None:
        """Find out what one process would have; every rank of the group calls this.

        `group` None: all others were lost. `weight`: samples that this replica was given since all were alike.
        `here`: it has been training. `replicas`: how many there were, where some were lost.
        """
        known = self._sums.known
        known.alike = self._sums.still_alike()
        mine = [list(self._capture()), weight, known, self._taken] if here else None
        told_by_all: list[Any] = group.gather_objects(mine) if group else [mine]
        everyone = [told for told in told_by_all if told is not None]
        for _, _, theirs, _ in everyone:
            known.update(theirs)
        if taken := next((taken for *_, taken in everyone if taken), None):
            self._as_one = taken["now"]  # nobody goes on before all have come to its place
            return
        known.alike = _common([theirs.alike for _, _, theirs, _ in everyone])
        captured = _of_all([told[0] for told in everyone])
        if len({tuple(frame["function"] for frame in frames) for frames in captured}) != 1:
            captured = captured[:1]  # they are at different places
        weights = [told[1] for told in everyone][: len(captured)]
        weights = weights if sum(weights) > 0 else [1.0] * len(captured)
        scale = (replicas or len(captured)) / len(captured)
        self._as_one = [
            {
                **places[0],
                "variables": variables_alone(
                    [place["variables"] for place in places], weights, known, scale, _path(places[0])
                ),
            }
            for places in zip(*captured, strict=True)
        ]

    def take_share(self, rank: int, replicas: int) -> None:
        """Take this rank's share of the sums that are now known as one process would have them."""
        frames, self._as_one = self._as_one, None
        known = self._sums.known

        def moves(path: str, value: Any) -> bool:
            """Keep what belongs to one replica alone, such as a clock."""
            inside = f"{path}/"
            return _has_lists(value) or any(
                one == path or one.startswith(inside) for one in (*known.over_samples, *known.moving)
            )

        if frames:
            shares = self._shares(frames, rank, replicas)
            self._script.apply(shares, moves)
            self._lend(frames, shares)

    def forget_as_one(self) -> None:
        self._as_one = None

    def _shares(self, frames: Frames, rank: int, replicas: int) -> list[dict[str, Any]]:
        known = self._sums.known
        return [
            {**frame, "variables": shared(frame["variables"], known, rank, replicas, _path(frame))}
            for frame in frames
        ]

    def _lend(self, frames: Frames, shares: Frames) -> None:
        """Remember what others added, in case that it was no sum over samples."""
        known = self._sums.known.over_samples
        self._lent = {}
        for frame, share in zip(frames, shares, strict=True):
            mine = whole_numbers(share["variables"], known, _path(share))
            every = whole_numbers(frame["variables"], known, _path(frame))
            self._lent |= {path: value - mine[path] for path, value in every.items() if path in mine}
        self._sums.are_alike()
        self._sums.look_again()

    # --- putting in place -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the loop: the script has set itself up, and from here on its variables travel."""
        if not self._script.baseline:
            theirs = _generators_of_loaders()
            self._reading |= theirs
            self._script.ordering |= theirs
            self._script.begin()
            self._sums.are_alike()

    def begin_pass(self, rank: int, replicas: int) -> bool:
        """Begin a pass over the data. Returns whether it goes on in the midst of one."""
        taken = self._taken
        self._sums.begin_pass()
        in_pass = bool(taken) and taken["in_pass"]
        if in_pass:
            self._script.apply(taken["pass"])
        elif taken:
            shares = self._shares(taken["now"], rank, replicas)
            self._script.apply(shares)
            self._lend(taken["now"], shares)
            self._taken = {}
        self._pass_begun = self._capture()
        return in_pass

    def begin_loop(self) -> None:
        """Begin a loop over the data, of which a pass may have several."""
        self._sums.begin_loop()

    def arrive(self, rank: int, replicas: int) -> int | None:
        """Come to where the others are. Returns this rank's samples so far where a pass is under way."""
        taken, self._taken = self._taken, {}
        if not taken:
            return None
        shares = self._shares(taken["now"], rank, replicas)
        self._script.apply(shares)
        self._lend(taken["now"], shares)
        return share_of(taken["samples"], rank, replicas)

    def counts_samples(self, value: int) -> bool:
        """Return whether sums over samples, and no other whole numbers of the script, have this value now."""
        alike = {path for path, leaf in reach(WHOLE).leaves.items() if leaf.value == value > 1}
        return bool(alike) and alike <= self._sums.known.over_samples

    def part_of(self, value: float, samples: int, own: int, combined: Set[float] = frozenset()) -> float | None:
        """Return what a share of this replica's samples is subtracted from to give a value: 0, 1 or 100.

        The share is a sum over its `own` samples divided by `samples`, the number of all; it may be in percents,
        as for 100.
        None: no share gives the value. Sums that are `combined` already are those of all replicas.
        """
        found = reach((*NUMBERS, *ARRAYS)).leaves
        values = (found[path].value for path in self._sums.known.over_samples if path in found)
        sums = [float(one) for one in values if math.prod(getattr(one, "shape", ())) == 1]
        sums = [one for one in sums if one and one != own and one not in combined]  # `own` may be half of all
        percents = [PERCENT * one for one in sums]
        ways = ((0.0, [*sums, *percents]), (1.0, sums), (float(PERCENT), percents))
        for whole, parts in ways:
            share = (whole - value if whole else value) * samples
            if any(_close(share, one) for one in parts):
                return whole
        return None

    def loop_ended(self) -> None:
        """Keep the variables now: the function that a loop is in may return next what it makes of its sums."""
        self._at_end, self._means_at_end = self._singles(), _means_of_lists()

    def mean_over(self, value: float, size: int | None = None) -> float | None:
        """Return the count that a sum over samples is divided by to be this value, or its percents.

        The result is None if no such sum is seen.

        size: what `len` of the data set says to the script; None if that is not its share of the samples.
        """
        sizes = set() if size is None else {float(size)}
        for singles in (self._singles(), self._at_end):
            sums = {v for path, v in singles.items() if path in self._sums.known.over_samples}
            counts = {count for count in sums | sizes if count > 1 and count.is_integer()}
            wholes = {count for count in counts for one in sums if one and _is_quotient(value, one, count)}
            if len(wholes) == 1:
                return wholes.pop()
        for means in (_means_of_lists(), self._means_at_end):
            of_some = {m.over for m in means if m.path in self._sums.known.over_samples and _close(value, m.mean)}
            if len(of_some) == 1:
                return of_some.pop()
        return None

    def is_mean_of_batches(self, value: float, batches: int) -> bool:
        """Return whether a value is a mean over this pass's batches, or of a list.

        It may be a sum over batches divided by their number or by a counter.
        """
        known = self._sums.known
        if any(_close(value, m.mean) for m in (*_means_of_lists(), *self._means_at_end)):
            return True
        for singles in (self._singles(), self._at_end):
            sums = {v for path, v in singles.items() if path not in known.over_samples}
            counts = {float(batches), *(v for path, v in singles.items() if path in known.counters)}
            if any(_is_quotient(value, one, count) for count in counts if count > 1 for one in sums if one):
                return True
        return False

    def _singles(self) -> dict[str, float]:
        """Return single numbers that move with the batches, by path."""
        found = {p: leaf.value for p, leaf in reach((*NUMBERS, *ARRAYS)).leaves.items()}
        moving = {path: found[path] for path in self._sums.known.moving if path in found}
        return {p: float(v) for p, v in moving.items() if math.prod(getattr(v, "shape", ())) == 1}

    def rows(self, samples: int) -> list[tuple[str, Tensor, int]]:
        """Return tensors with a row for each sample of the data set: path, tensor and version."""
        leaves = reach((Tensor,), ANY_SIZE).leaves.items()
        found = [(path, leaf.value) for path, leaf in leaves if leaf.value.ndim and len(leaf.value) == samples]
        return [(path, tensor, tensor._version) for path, tensor in found]

    # --- batches --------------------------------------------------------------------------------------------

    @property
    def too_large(self) -> set[str]:
        """Names of variables that are too large to travel."""
        return self._script.too_large

    @property
    def looks(self) -> bool:
        """Whether the losses of parts are looked at."""
        return self._sums.looks

    def begin_batch(self, may_repeat: bool, several: bool, first: bool = True) -> None:
        """Begin a batch, the `first` of a step or not.

        `may_repeat`: it may be given more than once. `several`: it is given in several passes.
        """
        if several and not self._several:
            self._sums.look_again()
        self._several = several
        before = self._undo
        self._undo = Undo(self._weights, several, before, self._reading) if may_repeat or several else None
        if first:
            self._undo_first = self._undo
        self._moves = []
        self._followers.begin_batch()

    def begin_part(self, last: bool, is_copy: bool, trained: Callable[[], bool] = lambda: True) -> None:
        """Begin a part. `is_copy`: other replicas compute it, and it counts there. `trained()` as for `Late`."""
        self._sums.before_part(late=not last)
        self._undo_copy = Undo() if is_copy else None
        if not last and self._undo is not None:
            self._undo.late(self._sums.known.counters, lambda count: Late(count, trained))

    def end_part(
        self,
        given: Given,
        last: bool,
        of_all: Callable[[], list[float]] = list,
        last_alone: bool = False,
    ) -> None:
        """End a part. Before a further one, what goes by batches is put back to what it was before the first.

        `of_all()` and `last_alone` as for `Undo.average`.
        """
        samples = given.samples
        self._sums.after_part(given)
        self._pay_back(last)
        if lost := self._sums.take_decided():
            leaves = reach((*NUMBERS, *ARRAYS)).leaves
            put({path: leaves[path].value + more for path, more in lost.items() if path in leaves}, leaves)
        kept = self._sums.known.kept
        if self._undo_copy is not None:
            self._undo_copy.restore_only(kept)
        if self._undo is None or (last and not self._moves):
            return
        if not self._moves or self._undo.makes_anew:
            self._undo.take_in_new(given, kept)
        moves = self._undo.moves(kept)
        self._moves.append((float(samples), moves))
        self._followers.pass_done()
        if last:
            follows = self._followers.follows
            self._undo.average(self._moves, self._early, of_all, last_alone, follows, self._row_counts)
        else:
            self._early |= have_moved(moves)
            self._sums.put_back(self._undo.repeat(kept, samples))

    def _pay_back(self, last: bool) -> None:
        """Give counts that are not over samples what others took of them, after the last pass of a batch."""
        self._owed |= {p: self._lent.pop(p) for p in self._sums.take_revoked() if p in self._lent}
        if last and self._owed:
            leaves = reach(WHOLE).leaves
            put({path: leaves[path].value + more for path, more in self._owed.items() if path in leaves}, leaves)
            self._owed = {}

    def begin_step(self) -> None:
        """Begin a step of a loop in steps, which may have to be done again."""
        self._undo_step = Undo()

    def undo_step(self) -> None:
        if self._undo_step is not None:
            self._undo_step.restore()

    def undo_batches(self) -> None:
        """Put variables back, because all batches of the running step have to be done again."""
        if self._undo_first is not None:
            self._undo_first.restore()
        self._undo = self._undo_first = None


def _generators_of_loaders() -> set[int]:
    """Return ids of generators that loaders in the script's variables draw from.

    They travel with the loaders (`side_loaders`).
    """
    drawn_by: list[Any] = [thing for loader in script_objects(DataLoader) for thing in (loader, loader.sampler)]
    return {id(thing.generator) for thing in drawn_by if getattr(thing, "generator", None) is not None}


def _has_lists(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, dict) and any(map(_has_lists, value.values())))


def _of_all(captured: Sequence[Frames]) -> list[Frames]:
    """Return what all replicas know, without the modules that some of them have not imported."""
    common = set.intersection(*({_path(frame) for frame in frames} for frames in captured))
    return [[f for f in frames if f["function"] != MODULE or _path(f) in common] for frames in captured]


def _common(everyone: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return what all say alike."""
    return dict(set.intersection(*(set(told.items()) for told in everyone))) if everyone else {}


def _path(frame: dict[str, Any]) -> str:
    return f"{frame['file']}/{frame['function']}"


def share_of(samples: int, rank: int, replicas: int) -> int:
    return samples // replicas + (rank < samples % replicas)


class _Mean(NamedTuple):
    """The mean of a list of numbers, by the list's path."""

    path: str
    mean: float
    over: float


def _means_of_lists() -> list[_Mean]:
    """Return means of lists that hold a number, or a row of numbers, for each batch or each sample."""
    found = []
    for path, items in reach(()).lists.items():
        for column in _columns(items):
            numbers = [float(item) for item in column if isinstance(item, FRACTIONS) or _is_number(item)]
            if len(numbers) == len(items) > 1:
                found.append(_Mean(path, math.fsum(numbers) / len(numbers), float(len(numbers))))
    return found


def _columns(items: Sequence[Any]) -> list[Sequence[Any]]:
    """Return the items themselves or, where these are rows, what is in them by place."""
    if not items or not is_row(items[0]):
        return [items]
    rows = [numbers_of(item) for item in items]
    return [[row[place] for row in rows if place in row] for place in rows[0]]


def _is_number(item: Any) -> bool:
    return isinstance(item, Tensor) and item.numel() == 1 and item.is_floating_point()


def _is_quotient(value: float, above: float, below: float) -> bool:
    return above != below and (_close(value * below, above) or _close(value * below, above * PERCENT))


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=ROUND_OFF)
