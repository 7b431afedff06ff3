"""Batches of a script's `DataLoader`, which are the same however many replicas there are.

An order is drawn once, alike on all ranks, and cut into the script's own batches. Each batch is dealt out to the
passes and replicas of the moment (`units.Split`).
So a job may be resized between any two batches and still see every sample of an epoch once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from ..collective.group import Group
from ..variables.rng import RandomState
from .alone import seen_alone
from .batches import EpochSeed, Place, Reader, Source, Unit, slices, units
from .changing_loader import ChangingLoader
from .drawn import Batches, drawn_source
from .input_pace import input_pace
from .orders import LOOP_STRIDE, Order, Orders, sample_count
from .seeded import draws, seeded
from .units import Split

MOST_IN_BATCH = 1 << 24


def source_of(loader: Any, epoch_seed: EpochSeed, script_batch: int) -> Source:
    """Return the source of a `DataLoader`, or of what `coadapt.batches` made."""
    if isinstance(loader, Batches):
        return drawn_source(loader, epoch_seed)
    if isinstance(loader.dataset, IterableDataset):
        return StreamSource(loader, epoch_seed)
    return IndexedSource(loader, epoch_seed, script_batch)


# --- map-style data ---------------------------------------------------------------------------------------


class IndexedSource:
    """Map-style data: parts are lists of indices that are handed to a `DataLoader` like the script's.

    A loader without `batch_size` gives batches as the data set makes them. Each replica reads and slices all of
    these.
    """

    def __init__(self, loader: DataLoader[Any], epoch_seed: EpochSeed, script_batch: int) -> None:
        self._loader = loader
        self._epoch_seed = epoch_seed
        self._orders = Orders(loader)
        self._keep_multiple_of = script_batch if loader.drop_last else 1
        self._ready_made = loader.batch_size is None and not self._orders.batched
        self.fusable = loader.batch_size is not None
        self._generator = torch.Generator()
        self._inner = ChangingLoader(self._reading, loader.num_workers, loader.multiprocessing_context)
        self.size: int | None = sample_count(loader)

    def begin(self, place: Place, split: Split, rank: int, group: Group | None) -> Reader:
        by_item = self._orders.batched or self._ready_made
        start = place.batch if by_item else place.offset
        seed = self._epoch_seed(place.epoch)
        order = self._orders.of(place.epoch, place.loop, seed, start, group)
        if order.differs:
            raise OrderDiffers(type(self._loader.sampler).__name__)
        seed = hash((seed, place.loop)) & (2**63 - 1)  # of the draws of samples in loader workers
        # The inner loader draws its workers' seeds from here, so the user's random numbers stay untouched.
        self._generator.manual_seed(hash((seed, start, rank % split.replicas)) & (2**63 - 1))

        def cut() -> Iterator[tuple[int, Any, range]]:
            return self._items(order, start, group) if by_item else self._cut(order, start, split, group)

        drawn = self._drawn_by(seed)
        if self._ready_made:
            return Reader(
                slices(self._inner.read(drawn([items], places)[0] for _, items, places in cut()), split, rank)
            )
        data = self._inner.read(
            drawn(part.of(items), part.of(places))
            for samples, items, places in cut()
            for part in split.parts(samples, rank)
        )
        return Reader(
            Unit(samples, tuple(split.parts(samples, rank)), lambda: next(data)) for samples, _, _ in cut()
        )

    def have_workers(self, workers: int) -> bool:
        """Read with so many loader workers from now on, where the script's has some; return whether that is new.

        Every rank calls this together, as workers are given what is drawn ahead.
        """
        return self._orders.is_settled and self._inner.change(workers)

    @property
    def workers(self) -> int:
        return self._inner.workers

    def _reading(self, lists: Iterable[Any], workers: int, context: Any) -> DataLoader[Any]:
        """Return a loader like the script's that reads these lists; `context`: of its processes, if another."""
        loader, settings = self._loader, {**_settings(self._loader), "num_workers": workers}
        batching: dict[str, Any] = (
            {"batch_size": None, "sampler": lists} if self._ready_made else {"batch_sampler": lists}
        )
        if context is not None:
            settings["multiprocessing_context"] = context
        data: Any = loader.dataset
        if workers:
            data = seeded(data, input_pace(workers, len(data)))
        return DataLoader(data, **batching, generator=self._generator, **settings)

    def _drawn_by(self, seed: int) -> Callable[[Any, Any], list[Any]]:
        """Return what makes a list for the loader of indices and their places in the epoch."""
        if not self._inner.workers:  # samples are read in this process, and draw from its random numbers
            return lambda items, places: _as_list(items)
        return lambda items, places: draws(_as_list(items), places, seed)

    def done_with(self) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return self._orders.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._orders.load_state_dict(state)

    def _cut(
        self, order: Order, offset: int, split: Split, group: Group | None
    ) -> Iterator[tuple[int, Any, range]]:
        """Yield (samples, their indices, their places in the epoch) of each batch from `offset` on."""
        while True:
            self._orders.ensure(order, offset + split.unit, group)
            samples = min(split.unit, order.drawn - offset)
            if samples < split.unit:
                samples -= (offset + samples) % self._keep_multiple_of
            if samples <= 0:
                return
            order.pass_by(offset)
            yield samples, order.slice(offset, offset + samples), range(offset, offset + samples)
            offset += samples

    def _items(self, order: Order, start: int, group: Group | None) -> Iterator[tuple[int, Any, range]]:
        """Yield the same where each item of the order is a batch, of at most `MOST_IN_BATCH` places."""
        for place in itertools.count(start):
            self._orders.ensure(order, place + 1, group)
            items = order.slice(place, place + 1)
            if not len(items):
                return
            batch = items[0]
            samples = len(batch) if isinstance(batch, Sized) else 1
            first = place * MOST_IN_BATCH
            yield samples, batch, range(first, first + (1 if self._ready_made else samples))


class OrderDiffers(Exception):
    """Raised where a sampler gave another order after a restart than before; `args[0]` is its name."""


# --- streams ----------------------------------------------------------------------------------------------


class StreamSource:
    """An `IterableDataset`. Every replica reads the whole stream and trains on its part of each batch.

    While it is read, a replica looks alone, so a data set that splits by rank gives everything to each. A
    resumed epoch reads past what it has seen.
    """

    def __init__(self, loader: DataLoader[Any], epoch_seed: EpochSeed) -> None:
        self._loader = loader
        self._epoch_seed = epoch_seed
        self._generator = torch.Generator()
        settings = _settings(loader)
        self._ready_made = loader.batch_size is None
        self.fusable = not self._ready_made
        self.workers = 0
        if not self._ready_made:
            settings |= {"collate_fn": _as_they_are, "pin_memory": False, "drop_last": loader.drop_last}
        self._inner: DataLoader[Any] = DataLoader(
            loader.dataset, batch_size=loader.batch_size, generator=self._generator, **settings
        )
        data = loader.dataset
        self.size: int | None = len(data) if isinstance(data, Sized) and not self._ready_made else None

    def begin(self, place: Place, split: Split, rank: int, group: Group | None) -> Reader:
        seed = self._epoch_seed(place.epoch) + place.loop * LOOP_STRIDE
        self._generator.manual_seed(seed)
        batches = self._batches(RandomState(seed))
        if self._ready_made:
            return Reader(slices(itertools.islice(batches, place.batch, None), split, rank))
        collate = self._loader.collate_fn
        pins = self._loader.pin_memory and torch.cuda.is_available()
        finish = (lambda part: _pin(collate(part))) if pins else collate
        rest = past(batches, place.offset)
        if split.unit > (self._loader.batch_size or 1):
            rest = _joined(rest, split.unit)
        return Reader(units(rest, len, lambda batch, part, _: finish(part.of(batch)), split, rank))

    def have_workers(self, workers: int) -> bool:
        """Return False: each worker of a stream reads its own part, so that their number decides the order."""
        return False

    def done_with(self) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass

    def _batches(self, own: RandomState) -> Iterator[Any]:
        # A stream that is read in the training process must not draw from the training's random numbers, which
        # differ from rank to rank.
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
    """Yield the batches of a stream after so many samples."""
    for batch in batches:
        if samples < len(batch):
            yield batch[samples:] if samples else batch
        samples = max(samples - len(batch), 0)


def _joined(batches: Iterator[list[Any]], size: int) -> Iterator[list[Any]]:
    """Yield larger batches of `size` samples; the last one may be smaller."""
    rest: list[Any] = []
    for batch in batches:
        rest += batch
        while len(rest) >= size:
            yield rest[:size]
            rest = rest[size:]
    if rest:
        yield rest


# --- small parts ------------------------------------------------------------------------------------------


def iter_later(loader: Iterable[Any]) -> Iterator[Any]:
    """Yield the loader's items. It starts when the first is asked for."""
    yield from loader


def _settings(loader: DataLoader[Any]) -> dict[str, Any]:
    """Return how the user's loader fetches, without what it fetches."""
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
