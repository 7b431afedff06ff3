"""Which samples meet in which step, and on which replica: the same however many replicas there are.

An epoch's order is drawn once, alike on all ranks. A step is a slice of it; the slice is dealt out to the
passes and replicas of the step. So a job may be resized between any two steps and still see every sample
of an epoch once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from .protocol import BatchPlan
from .rng import RandomState

# Seeds of a second loop over the loader within one epoch lie far from those of the next epochs.
_LOOP_STRIDE = 1_000_003


@dataclass(frozen=True)
class Split:
    """How the samples of one optimizer step are divided over replicas and passes."""

    replicas: int
    local_bsz: int
    passes: int
    batch_size: int

    @classmethod
    def of(cls, plan: BatchPlan, replicas: int) -> Split:
        passes = plan.accumulation + 1
        return cls(replicas, plan.local_bsz, passes, plan.batch_size or replicas * plan.local_bsz * passes)

    def passes_for(self, samples: int) -> int:
        """Passes that a step of so many samples takes: fewer for the rest of an epoch."""
        if samples >= self.batch_size:
            return self.passes
        return max(1, min(self.passes, -(-samples // (self.replicas * self.local_bsz))))

    def sizes(self, samples: int, rank: int) -> list[int]:
        """Samples of a rank in each pass of a step of `samples`; they differ by at most one over all parts."""
        passes = self.passes_for(samples)
        parts = self.replicas * passes
        each, more = divmod(samples, parts)
        return [each + (part < more) for part in range(rank, parts, self.replicas)]

    def filled_parts(self, samples: int) -> int:
        """Parts of the step that hold at least one sample."""
        return min(samples, self.replicas * self.passes_for(samples))


@dataclass(frozen=True)
class Step:
    """One optimizer step as one rank sees it. `sizes` are the samples of its passes; 0 means padding."""

    offset: int
    samples: int
    sizes: tuple[int, ...]


def deal(samples: Any, split: Split, rank: int) -> list[Any]:
    """The rank's parts of one step's samples, one per pass.

    Part k of n takes samples k, k + n, k + 2n, …: with one pass just what `DistributedSampler` gives each rank.
    A part without samples is padded with the first one, whose gradient then has weight zero.
    """
    passes = split.passes_for(len(samples))
    parts = split.replicas * passes
    return [
        samples[part::parts] if part < len(samples) else samples[:1] for part in range(rank, parts, split.replicas)
    ]


def steps_of(total: int, offset: int, split: Split, rank: int) -> Iterator[Step]:
    """The steps from sample `offset` to the end of an epoch of `total` samples."""
    while offset < total:
        samples = min(split.batch_size, total - offset)
        yield Step(offset, samples, tuple(split.sizes(samples, rank)))
        offset += samples


class Micro(Protocol):
    """Steps of a pass over the data, and the micro-batches of this rank, in the same order."""

    def next_step(self) -> Step | None: ...

    def next_batch(self) -> Any: ...


class Source(Protocol):
    size: int | None

    def begin(self, epoch: int, loop: int, offset: int, split: Split, rank: int) -> Micro: ...


class IndexedSource:
    """A map-style dataset: micro-batches are lists of indices handed to a `DataLoader` like the user's."""

    def __init__(self, loader: DataLoader[Any], epoch_seed: Callable[[int], int], initial_batch_size: int) -> None:
        self._loader = loader
        self._epoch_seed = epoch_seed
        self._keep_multiple_of = initial_batch_size if loader.drop_last else 1
        self._order: tuple[tuple[int, int], np.ndarray] | None = None
        self._indices = _Indices()
        self._generator = torch.Generator()
        self._inner: DataLoader[Any] = DataLoader(
            loader.dataset, batch_sampler=self._indices, generator=self._generator, **_settings(loader)
        )
        self.size: int | None = sample_count(loader)

    def begin(self, epoch: int, loop: int, offset: int, split: Split, rank: int) -> Micro:
        order = self._order_of(epoch, loop)
        self._indices.lists = lambda: _index_lists(order, offset, split, rank)
        # The inner loader seeds its workers from here, so the user's random numbers stay untouched.
        self._generator.manual_seed(hash((self._epoch_seed(epoch), loop, offset, rank)) & (2**63 - 1))
        return _IndexedMicro(steps_of(len(order), offset, split, rank), self._inner)

    def _order_of(self, epoch: int, loop: int) -> np.ndarray:
        if self._order is None or self._order[0] != (epoch, loop):
            order = epoch_order(self._loader, self._epoch_seed(epoch) + loop * _LOOP_STRIDE)
            self._order = (epoch, loop), order[: len(order) - len(order) % self._keep_multiple_of]
        return self._order[1]


class StreamSource:
    """An `IterableDataset`. Every replica reads the whole stream and trains on its part of each step.

    The stream must be the same on every replica and in every run of an epoch. Each replica reads all of it,
    and a resumed epoch reads past what it has seen.
    """

    def __init__(self, loader: DataLoader[Any], epoch_seed: Callable[[int], int], initial_batch_size: int) -> None:
        if loader.batch_size is None:
            raise ValueError("batch_size: None; give the DataLoader a batch_size")
        self._loader = loader
        self._keep_multiple_of = initial_batch_size if loader.drop_last else 1
        self._epoch_seed = epoch_seed
        self._generator = torch.Generator()
        settings = _settings(loader)
        settings["collate_fn"] = _as_list
        settings["pin_memory"] = False
        self._inner: DataLoader[Any] = DataLoader(
            loader.dataset, batch_size=loader.batch_size, generator=self._generator, **settings
        )
        self.size: int | None = sample_count(loader)

    def begin(self, epoch: int, loop: int, offset: int, split: Split, rank: int) -> Micro:
        seed = self._epoch_seed(epoch) + loop * _LOOP_STRIDE
        self._generator.manual_seed(seed)
        samples = self._samples(seed)
        for _ in itertools.islice(samples, offset):
            pass
        collate = self._loader.collate_fn
        if self._loader.pin_memory and torch.cuda.is_available():
            return _StreamMicro(
                samples, offset, split, rank, self._keep_multiple_of, lambda part: _pin(collate(part))
            )
        return _StreamMicro(samples, offset, split, rank, self._keep_multiple_of, collate)

    def _samples(self, seed: int) -> Iterator[Any]:
        # Read in the training process itself, the stream must not draw from the training's random numbers,
        # which differ from rank to rank.
        own = RandomState(seed)
        with own.borrowed():
            chunks = iter(self._inner)
        while True:
            with own.borrowed():
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield from chunk


def source_of(loader: DataLoader[Any], epoch_seed: Callable[[int], int], initial_batch_size: int) -> Source:
    """With `drop_last` an epoch ends at a whole number of initial batches, however large batches have become."""
    if isinstance(loader.dataset, IterableDataset):
        return StreamSource(loader, epoch_seed, initial_batch_size)
    return IndexedSource(loader, epoch_seed, initial_batch_size)


def epoch_order(loader: DataLoader[Any], seed: int) -> np.ndarray:
    """The order of an epoch's samples as the loader's own sampler gives it under `seed`; int64.

    Plain shuffling gives what `DistributedSampler` gives for the same seed and epoch, and so the order of
    a plain DDP script.
    """
    sampler: Any = loader.sampler
    count = len(loader.dataset)  # type: ignore[arg-type]
    if isinstance(sampler, SequentialSampler):
        return np.arange(count)
    if isinstance(sampler, DistributedSampler):
        return _permutation(count, seed) if sampler.shuffle else np.arange(count)
    if type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == count:
        return _permutation(count, seed)
    with RandomState(seed).borrowed():
        own = getattr(sampler, "generator", None)
        if isinstance(own, torch.Generator):
            own.manual_seed(seed)
        return np.fromiter(sampler, dtype=np.int64)


def sample_count(loader: DataLoader[Any]) -> int | None:
    """Samples of one epoch; None for a stream of unknown length."""
    if isinstance(loader.dataset, IterableDataset):
        return len(loader.dataset) if isinstance(loader.dataset, Sized) else None
    if isinstance(loader.sampler, DistributedSampler):
        return len(loader.dataset)  # type: ignore[arg-type]
    return len(loader.sampler) if isinstance(loader.sampler, Sized) else len(loader.dataset)  # type: ignore[arg-type]


class _Indices:
    """A batch sampler whose lists are replaced before each pass; the loader and its workers live on."""

    def __init__(self) -> None:
        self.lists: Callable[[], Iterator[list[int]]] = lambda: iter(())

    def __iter__(self) -> Iterator[list[int]]:
        return self.lists()


class _IndexedMicro:
    def __init__(self, steps: Iterator[Step], loader: Iterable[Any]) -> None:
        self._steps = steps
        self._loader = loader
        self._batches: Iterator[Any] | None = None

    def next_step(self) -> Step | None:
        return next(self._steps, None)

    def next_batch(self) -> Any:
        if self._batches is None:
            self._batches = iter(self._loader)
        return next(self._batches)


class _StreamMicro:
    def __init__(
        self,
        samples: Iterator[Any],
        offset: int,
        split: Split,
        rank: int,
        keep_multiple_of: int,
        collate: Callable[[list[Any]], Any],
    ) -> None:
        self._samples = samples
        self._offset = offset
        self._split = split
        self._rank = rank
        self._keep_multiple_of = keep_multiple_of
        self._collate = collate
        self._parts: Iterator[list[Any]] = iter(())

    def next_step(self) -> Step | None:
        samples = list(itertools.islice(self._samples, self._split.batch_size))
        if len(samples) < self._split.batch_size:  # the end of the stream
            end = self._offset + len(samples)
            samples = samples[: max(0, len(samples) - end % self._keep_multiple_of)]
        if not samples:
            return None
        step = Step(self._offset, len(samples), tuple(self._split.sizes(len(samples), self._rank)))
        self._offset += len(samples)
        self._parts = iter(deal(samples, self._split, self._rank))
        return step

    def next_batch(self) -> Any:
        return self._collate(next(self._parts))


def _index_lists(order: np.ndarray, offset: int, split: Split, rank: int) -> Iterator[list[int]]:
    for step in steps_of(len(order), offset, split, rank):
        for part in deal(order[step.offset : step.offset + step.samples], split, rank):
            yield part.tolist()


def _permutation(count: int, seed: int) -> np.ndarray:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed)).numpy()


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


def _as_list(samples: list[Any]) -> list[Any]:
    return samples


def _pin(batch: Any) -> Any:
    return torch.utils.data._utils.pin_memory.pin_memory(batch)
