"""The batches of a script and this replica's parts of them: the same however many replicas there are.

An order is drawn once, alike on all ranks, and cut into the script's own batches. Each batch is dealt out to the
passes and replicas of the moment (`units.Split`). So a job may be resized between any two batches and still see
every sample of an epoch once.
"""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from . import script_random
from .alone import seen_alone
from .group import Group
from .orders import LOOP_STRIDE, Order, Orders, sample_count
from .rng import RandomState
from .training_state import broadcast_state
from .units import Part, Split

EpochSeed = Callable[[int], int]


@dataclass(frozen=True)
class Place:
    """Where a loop over the data is: batches and samples that are done."""

    epoch: int
    loop: int
    batch: int
    offset: int


@dataclass(frozen=True)
class Unit:
    """One batch of the script as one rank sees it: `samples` over all ranks, and this rank's part of each pass.

    `fetch` gives the parts' data, one after the other; batches are fetched in the order in which they were
    announced.
    """

    samples: int
    parts: tuple[Part, ...]
    fetch: Callable[[], Any]


class Reader:
    """The batches of one loop; the next one can be looked at before it is taken."""

    def __init__(self, units: Iterator[Unit]) -> None:
        self._units = units
        self._next: list[Unit | None] = []

    def peek(self) -> Unit | None:
        """The next batch; None at the end of the data."""
        if not self._next:
            self._next.append(next(self._units, None))
        return self._next[0]

    def take(self) -> Unit | None:
        unit = self.peek()
        self._next.clear()
        return unit


class Source(Protocol):
    """What the training data is read from."""

    size: int | None  # samples of a loop; None: not known
    fusable: bool  # whether larger batches can be made of the script's

    def begin(self, place: Place, split: Split, rank: int, group: Group | None) -> Reader:
        """Read on from `place`; every rank of the group calls this together."""

    def done_with(self) -> None:
        """The oldest batch that was announced has been trained on."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def source_of(loader: Any, epoch_seed: EpochSeed, script_batch: int) -> Source:
    """The source of a `DataLoader`, or of what `coadapt.batches` made."""
    if isinstance(loader, Batches):
        return DrawnSource(loader, epoch_seed)
    if isinstance(loader.dataset, IterableDataset):
        return StreamSource(loader, epoch_seed)
    return IndexedSource(loader, epoch_seed, script_batch)


# --- map-style data ---------------------------------------------------------------------------------------


class IndexedSource:
    """Map-style data: parts are lists of indices handed to a `DataLoader` like the script's.

    A loader without `batch_size` gives batches as the data set makes them: each is read by all and sliced.
    """

    def __init__(self, loader: DataLoader[Any], epoch_seed: EpochSeed, script_batch: int) -> None:
        self._loader = loader
        self._epoch_seed = epoch_seed
        self._orders = Orders(loader)
        self._keep_multiple_of = script_batch if loader.drop_last else 1
        self._ready_made = loader.batch_size is None and not self._orders.batched
        self.fusable = loader.batch_size is not None
        self._lists = _Lists()
        self._generator = torch.Generator()
        batching: dict[str, Any] = (
            {"batch_size": None, "sampler": self._lists} if self._ready_made else {"batch_sampler": self._lists}
        )
        self._inner: DataLoader[Any] = DataLoader(
            loader.dataset, **batching, generator=self._generator, **_settings(loader)
        )
        self.size: int | None = sample_count(loader)

    def begin(self, place: Place, split: Split, rank: int, group: Group | None) -> Reader:
        by_item = self._orders.batched or self._ready_made
        start = place.batch if by_item else place.offset
        seed = self._epoch_seed(place.epoch)
        order = self._orders.of(place.epoch, place.loop, seed, start, group)
        if order.differs:
            raise OrderDiffers(type(self._loader.sampler).__name__)
        # The inner loader seeds its workers from here, so the user's random numbers stay untouched.
        self._generator.manual_seed(hash((seed, place.loop, start, rank)) & (2**63 - 1))
        cut: Callable[[], Iterator[tuple[int, Any]]] = lambda: (  # noqa: E731
            self._items(order, start, group) if by_item else self._cut(order, start, split, group)
        )
        if self._ready_made:
            self._lists.lists = lambda: (items for _, items in cut())
            return Reader(_slices(iter_later(self._inner), split, rank))
        self._lists.lists = lambda: (
            _as_list(part.of(items)) for samples, items in cut() for part in split.parts(samples, rank)
        )
        data = iter_later(self._inner)
        return Reader(Unit(samples, tuple(split.parts(samples, rank)), lambda: next(data)) for samples, _ in cut())

    def done_with(self) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return self._orders.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._orders.load_state_dict(state)

    def _cut(self, order: Order, offset: int, split: Split, group: Group | None) -> Iterator[tuple[int, Any]]:
        """(samples, their indices) of each batch from `offset` on."""
        while True:
            self._orders.ensure(order, offset + split.unit, group)
            samples = min(split.unit, order.drawn - offset)
            if samples < split.unit:
                samples -= (offset + samples) % self._keep_multiple_of
            if samples <= 0:
                return
            order.pass_by(offset)
            yield samples, order.slice(offset, offset + samples)
            offset += samples

    def _items(self, order: Order, start: int, group: Group | None) -> Iterator[tuple[int, Any]]:
        """The same where each item of the order is a batch."""
        for place in itertools.count(start):
            self._orders.ensure(order, place + 1, group)
            items = order.slice(place, place + 1)
            if not len(items):
                return
            batch = items[0]
            yield (len(batch) if isinstance(batch, Sized) else 1), batch


class OrderDiffers(Exception):
    """A sampler gave another order after a restart than before it; `args[0]` is its name."""


class _Lists:
    """A sampler whose lists are replaced before each pass over the data; the loader and its workers live on."""

    def __init__(self) -> None:
        self.lists: Callable[[], Iterator[Any]] = lambda: iter(())

    def __iter__(self) -> Iterator[Any]:
        return self.lists()


# --- streams ----------------------------------------------------------------------------------------------


class StreamSource:
    """An `IterableDataset`. Every replica reads the whole stream and trains on its part of each batch.

    While it is read, a replica looks alone, so that a data set that splits by rank gives everything to each.
    A resumed epoch reads past what it has seen.
    """

    def __init__(self, loader: DataLoader[Any], epoch_seed: EpochSeed) -> None:
        self._loader = loader
        self._epoch_seed = epoch_seed
        self._generator = torch.Generator()
        settings = _settings(loader)
        self._ready_made = loader.batch_size is None
        self.fusable = not self._ready_made
        if not self._ready_made:
            settings |= {"collate_fn": _as_they_are, "pin_memory": False, "drop_last": loader.drop_last}
        self._inner: DataLoader[Any] = DataLoader(
            loader.dataset, batch_size=loader.batch_size, generator=self._generator, **settings
        )
        sized = isinstance(loader.dataset, Sized) and not self._ready_made
        self.size: int | None = len(loader.dataset) if sized else None  # type: ignore[arg-type]

    def begin(self, place: Place, split: Split, rank: int, group: Group | None) -> Reader:
        seed = self._epoch_seed(place.epoch) + place.loop * LOOP_STRIDE
        self._generator.manual_seed(seed)
        batches = self._batches(RandomState(seed))
        if self._ready_made:
            return Reader(_slices(itertools.islice(batches, place.batch, None), split, rank))
        collate = self._loader.collate_fn
        pins = self._loader.pin_memory and torch.cuda.is_available()
        finish = (lambda part: _pin(collate(part))) if pins else collate
        rest = past(batches, place.offset)
        if split.unit > (self._loader.batch_size or 1):
            rest = _joined(rest, split.unit)
        return Reader(_units(rest, len, lambda batch, part, _: finish(part.of(batch)), split, rank))

    def done_with(self) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass

    def _batches(self, own: RandomState) -> Iterator[Any]:
        # Read in the training process itself, the stream must not draw from the training's random numbers,
        # which differ from rank to rank.
        with own.borrowed(), seen_alone():
            chunks = iter(self._inner)
        while True:
            with own.borrowed(), seen_alone():
                chunk = next(chunks, _END)
            if chunk is _END:
                return
            yield chunk


_END = object()


def past(batches: Iterator[list[Any]], samples: int) -> Iterator[list[Any]]:
    """The batches of a stream after so many samples."""
    for batch in batches:
        if samples < len(batch):
            yield batch[samples:] if samples else batch
        samples = max(samples - len(batch), 0)


def _joined(batches: Iterator[list[Any]], size: int) -> Iterator[list[Any]]:
    """Larger batches of `size` samples; the last one may be smaller."""
    rest: list[Any] = []
    for batch in batches:
        rest += batch
        while len(rest) >= size:
            yield rest[:size]
            rest = rest[size:]
    if rest:
        yield rest


# --- batches without a DataLoader -------------------------------------------------------------------------


class Batches:
    """What `coadapt.batches` returns: batches drawn by a function, or given by an iterable.

    Iterated before `prepare`, or when a script runs by itself, it gives the batches as they are. Raises TypeError
    for what draws nothing.
    """

    drop_last = False

    def __init__(self, draw: Callable[[], Any] | Iterable[Any], batch_size: int | None = None) -> None:
        if not callable(draw) and not isinstance(draw, Iterable):
            raise TypeError(
                f"batches: a {type(draw).__name__} draws nothing; a function without arguments that returns a "
                "batch, or an iterable of indices or batches is accepted"
            )
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batches: batch_size {batch_size} is less than 1")
        self.draw = draw
        self.given_size = batch_size
        self._drawn: Iterator[Any] | None = None

    @property
    def batch_size(self) -> int:
        """Samples of a batch: as given, or those of the first one."""
        if self.given_size is not None:
            return self.given_size
        first = self.first
        return 1 if first is None else length_of(first)

    @functools.cached_property
    def first(self) -> Any:
        """The first batch, drawn ahead under the random numbers of a first draw; None where there is none."""
        if callable(self.draw):
            with RandomState(draw_seed(0, 0)).borrowed(), seen_alone():
                return self.draw()
        batches = self.whole()
        first = next(batches, None)
        if self.draw is iter(self.draw) and first is not None:  # an iterator, which gives each item once
            self.draw = itertools.chain([first], batches)
        return first

    def __len__(self) -> int:
        if isinstance(self.draw, Sized) and not callable(self.draw):
            count = len(self.draw)
            return count if self.given_size is None else -(-count // self.given_size)
        raise TypeError("batches that a function draws have no end, and so no length")

    @property
    def endless(self) -> bool:
        return callable(self.draw)

    def __iter__(self) -> Iterator[Any]:
        return self.whole()

    def __next__(self) -> Any:
        if self._drawn is None:
            self._drawn = iter(self)
        try:
            return next(self._drawn)
        except StopIteration:
            self._drawn = None
            raise

    def whole(self) -> Iterator[Any]:
        """Whole batches: the function's, or the iterable's, indices put together by `batch_size`."""
        if callable(self.draw):
            draw = self.draw
            return (draw() for _ in itertools.count())
        items = iter(self.draw)
        first = next(items, _END)
        if first is _END:
            return iter(())
        items = itertools.chain([first], items)
        if not isinstance(first, int | np.integer):
            return items
        if self.given_size is None:
            raise ValueError("batches: the sampler gives single indices; say batch_size, how many make a batch")
        return _grouped(items, self.given_size)


def _grouped(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while group := list(itertools.islice(items, size)):
        yield group


class DrawnSource:
    """A source of `Batches`: every replica draws the whole batch and takes its part.

    A function draws under random numbers of that draw, the same on all ranks. An iterable, and a function that
    keeps numbers or a generator of its own, is asked by one replica, which tells the others.
    """

    def __init__(self, batches: Batches, epoch_seed: EpochSeed) -> None:
        self._batches = batches
        self._epoch_seed = epoch_seed
        self._keeper = getattr(batches.draw, "__self__", batches.draw)
        self.fusable = False
        self._told = not batches.endless
        self._draws = 0  # by this process
        self._before: list[dict[str, Any]] = []  # state before each draw that is not done with
        sized = isinstance(batches.draw, Sized) and batches.given_size is not None
        self.size: int | None = len(batches.draw) if sized else None  # type: ignore[arg-type]

    def begin(self, place: Place, split: Split, rank: int, group: Group | None) -> Reader:
        self.load_state_dict(self.state_dict())  # batches drawn ahead are drawn again
        if group is not None and group.world_size > 1:
            self._share_state(group)
        return Reader(_slices(self._drawn(place, group), split, rank))

    def state_dict(self) -> dict[str, Any]:
        return self._before[0] if self._before else self._state()

    def _state(self) -> dict[str, Any]:
        return {"draws": self._draws, "told": self._told, "own": script_random.capture(self._keeper)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._before = []
        if state:
            self._draws, self._told = int(state["draws"]), bool(state["told"])
            script_random.restore(self._keeper, state["own"])

    def done_with(self) -> None:
        """A batch has been trained on: the oldest draw will not be needed again."""
        self._before = self._before[1:]

    def _share_state(self, group: Group) -> None:
        """Let everyone go on from where the one that drew most has come."""
        draws = group.gather_ints([self._draws])
        source = max(range(group.world_size), key=lambda rank: (draws[rank], -rank))
        state = broadcast_state(group, self.state_dict() if group.rank == source else None, source)
        if group.rank != source:
            self.load_state_dict(state)

    def _drawn(self, place: Place, group: Group | None) -> Iterator[Any]:
        whole = self._endless(place) if self._batches.endless else self._from_iterable(place)
        while True:
            if not self._told or group is None or group.world_size == 1:
                batch = next(whole, _END)
            elif group.rank == 0:
                batch = next(whole, _END)
                broadcast_state(group, {"batches": [] if batch is _END else [batch]}, 0)
            else:
                told = broadcast_state(group, None, 0)["batches"]
                batch = told[0] if told else _END
            if batch is _END:
                return
            yield batch

    def _endless(self, place: Place) -> Iterator[Any]:
        draw: Any = self._batches.draw
        seed = self._epoch_seed(place.epoch) + place.loop * LOOP_STRIDE
        for number in itertools.count(place.batch):
            before = b"" if self._told else self._kept()
            self._before.append(self._state())
            ahead = self._batches.__dict__.pop("first", None)
            if ahead is not None and self._draws == 0 and place == Place(0, 0, 0, 0):
                batch = ahead
            else:
                with RandomState(draw_seed(seed, number)).borrowed(), seen_alone():
                    batch = draw()
            self._draws += 1
            self._told = self._told or before != self._kept()
            yield batch

    def _kept(self) -> bytes:
        return pickle.dumps(script_random.capture(self._keeper))

    def _from_iterable(self, place: Place) -> Iterator[Any]:
        own = RandomState(self._epoch_seed(place.epoch) + place.loop * LOOP_STRIDE)
        with own.borrowed(), seen_alone():
            batches = self._batches.whole()
        for number in itertools.count():
            with own.borrowed(), seen_alone():
                batch = next(batches, _END)
            if batch is _END:
                return
            self._draws += 1
            if number >= place.batch:
                yield batch


def draw_seed(seed: int, number: int) -> int:
    """Of the random numbers of one draw of a function."""
    return hash((seed, number)) % 2**63


def _slices(batches: Iterator[Any], split: Split, rank: int) -> Iterator[Unit]:
    """Ready-made batches, read whole, of which each rank gets its part."""
    return _units(batches, length_of, sliced, split, rank)


def _units(
    batches: Iterator[Any],
    length: Callable[[Any], int],
    take: Callable[[Any, Part, int], Any],
    split: Split,
    rank: int,
) -> Iterator[Unit]:
    for batch in batches:
        samples = length(batch)
        parts = split.parts(samples, rank)
        taken = (take(batch, part, samples) for part in parts)
        yield Unit(samples, tuple(parts), lambda taken=taken: next(taken))  # type: ignore[misc]


def length_of(batch: Any) -> int:
    """Samples of a ready-made batch: the first size of its first tensor or array, else its length.

    Raises ValueError for what has none.
    """
    for leaf in _leaves(batch):
        if isinstance(leaf, torch.Tensor | np.ndarray) and leaf.ndim:
            return len(leaf)
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes) and len(batch):
        return len(batch)
    raise ValueError(f"batch: a {type(batch).__name__} without a tensor or array has no number of samples")


def sliced(batch: Any, part: Part, samples: int) -> Any:
    """The part of a ready-made batch: of each tensor, array and list that is as long as the batch."""
    if part.count == 1:
        return batch
    if isinstance(batch, Mapping):
        items = {key: sliced(value, part, samples) for key, value in batch.items()}
        return type(batch)(**items) if hasattr(batch, "keys") and type(batch) is not dict else items
    if isinstance(batch, torch.Tensor | np.ndarray):
        if not batch.ndim or len(batch) != samples:
            return batch
        return part.of(batch).contiguous() if isinstance(batch, torch.Tensor) else part.of(batch).copy()
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(sliced(value, part, samples) for value in batch))
    if isinstance(batch, list | tuple):
        if len(batch) == samples and not any(isinstance(leaf, torch.Tensor | np.ndarray) for leaf in batch):
            return part.of(batch)
        return type(batch)(sliced(value, part, samples) for value in batch)
    return batch


def _leaves(batch: Any) -> Iterator[Any]:
    if isinstance(batch, Mapping):
        for value in batch.values():
            yield from _leaves(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from _leaves(value)
    else:
        yield batch


# --- small parts ------------------------------------------------------------------------------------------


def iter_later(loader: Iterable[Any]) -> Iterator[Any]:
    """Its items; started when the first is asked for."""
    yield from loader


def _settings(loader: DataLoader[Any]) -> dict[str, Any]:
    """How the user's loader fetches, without what it fetches."""
    settings: dict[str, Any] = {
        "num_workers": loader.num_workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout,
        "worker_init_fn": loader.worker_init_fn,
    }
    if loader.num_workers:
        settings |= {
            "multiprocessing_context": loader.multiprocessing_context,
            "prefetch_factor": loader.prefetch_factor,
            "persistent_workers": loader.persistent_workers,
        }
    return settings


def _as_list(indices: Any) -> list[Any]:
    return indices.tolist() if isinstance(indices, np.ndarray) else list(indices)


def _as_they_are(samples: list[Any]) -> list[Any]:
    return samples


def _pin(batch: Any) -> Any:
    return torch.utils.data._utils.pin_memory.pin_memory(batch)
