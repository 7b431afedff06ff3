"""The order in which a loop over the data takes its samples, drawn from the script's own sampler.

Orders of torch's plain samplers are a function of seed and epoch. Any other sampler is asked once: one replica
draws and tells the others, so no sampler has to give the same twice.
What decides a sampler's next draw is kept from the start of each loop on. A process that starts again in the
midst of the loop needs it.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler

from ..collective.broadcast import broadcast_state
from ..collective.group import Group
from ..variables import script_random
from ..variables.rng import RandomState

# Indices that are drawn at a time from a sampler that does not say how many it has.
CHUNK = 1 << 14
# The checksum of so many first items stands for an order.
HEAD = 256
# Seeds of a second loop over the loader within one epoch lie far from those of the next epochs.
LOOP_STRIDE = 1_000_003


class SamplerError(ValueError):
    """Raised for a sampler that gives what no loader could use; one sentence for the script's owner."""


class Order:
    """Items of one loop, which are drawn ahead as far as needed and forgotten when passed.

    An item is the index of a sample, or a list of indices where the script batches by a `batch_sampler`.
    `draws` None: another replica draws, or there is nothing more to come.
    """

    def __init__(self, items: Any, draws: Iterator[Any] | None, ended: bool, passed: int = 0) -> None:
        self._items: Any = items
        self._draws = draws
        self.ended = ended
        self.passed = passed  # items no longer kept
        self.differs = False  # whether a process that started again was given another order than the one before

    @property
    def drawn(self) -> int:
        """The number of items drawn so far."""
        return self.passed + len(self._items)

    @property
    def serves(self) -> bool:
        """Whether the other replicas can be told from here."""
        return self.ended or self._draws is not None

    def slice(self, start: int, stop: int) -> Any:
        """Return items `start` to `stop`, which were drawn before; fewer at the end of the loop."""
        return self._items[max(start - self.passed, 0) : max(stop - self.passed, 0)]

    def pass_by(self, item: int) -> None:
        """Forget items before `item`, which are not needed any more."""
        if not self.ended and item - self.passed > CHUNK:
            self._items, self.passed = self._items[item - self.passed :], item

    def draw(self, count: int) -> list[Any]:
        """Return up to `count` further items; fewer at the end."""
        assert self._draws is not None
        return list(itertools.islice(self._draws, count))

    def extend(self, items: Sequence[Any], ended: bool) -> None:
        if len(items):
            self._items = items if not len(self._items) else _joined(self._items, items)
        self.ended = ended

    def head(self) -> int:
        """Return the checksum of the first items of an order that was just begun, to compare it with another."""
        first = [item.tolist() if hasattr(item, "tolist") else item for item in self.slice(0, HEAD)]
        return zlib.crc32(repr(first).encode())


class Orders:
    """Gives the `Order` of each loop over a loader's map-style data."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self.batched = loader.batch_size is None and loader.batch_sampler is not None
        self._sampler: Any = loader.batch_sampler if self.batched else loader.sampler
        self._key: tuple[int, int] | None = None
        self._order: Order | None = None
        self._start: dict[str, Any] = {}  # state of the sampler when the loop of `_key` began, and after its draws
        self._behind = False  # whether the sampler of this process has not made the last draws

    def of(self, epoch: int, loop: int, seed: int, start: int, group: Group | None) -> Order:
        """Return the order of a loop, drawn at least up to item `start`; all ranks of the group call this."""
        seed += loop * LOOP_STRIDE
        known = self._order if self._key == (epoch, loop) else None
        if (plain := None if self.batched else plain_order(self._loader, seed)) is not None:
            order = known or Order(plain, None, ended=True)
        elif group is None or group.world_size == 1:
            order = known if known is not None and known.serves else self._begun(epoch, loop, seed, start)
        else:
            order = self._told(epoch, loop, seed, start, group, known)
        self._key, self._order = (epoch, loop), order
        return order

    def ensure(self, order: Order, stop: int, group: Group | None) -> None:
        """Draw until `stop` items are there or the sampler has no more; every rank calls this together."""
        while not order.ended and order.drawn < stop:
            count = max(CHUNK, stop - order.drawn)
            if group is None or group.world_size == 1:
                with self._random.borrowed():
                    drawn = _tidy(order.draw(count), self._sampler)
            else:
                drawn = self._shared(order, count, group)
            order.extend(drawn, ended=len(drawn) < count)

    @property
    def is_settled(self) -> bool:
        """Whether the running loop's order is all drawn, so that replicas may look ahead as far as they like."""
        return self._order is None or self._order.ended

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the sampler when the running loop began; empty for a plain one."""
        if self._key is None or not self._start:
            return {}
        return {"key": list(self._key), "start": self._start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._start = dict(state.get("start", {}))
        self._behind = True
        key = state.get("key")
        self._key, self._order = (None if key is None else (int(key[0]), int(key[1]))), None

    # --- a sampler of the script's own ----------------------------------------------------------------------

    def _begun(self, epoch: int, loop: int, seed: int, start: int) -> Order:
        """Ask the sampler, from its state when this loop began."""
        generator, things = self._loader.generator, self._drawn_from
        again = self._key == (epoch, loop) and bool(self._start)
        # Another process drew so far, or this one did before it started again: go on from there.
        behind = self._start.get("own", ()) if again else self._moved_on() if self._behind else ()
        for thing, state in zip(things, behind, strict=False):
            script_random.restore(thing, state)
        self._behind = False
        if not again:
            self._start = {"own": [script_random.capture(thing) for thing in things]}
        self._random = RandomState(seed)
        with self._random.borrowed():
            # A DataLoader draws this, too, for the seeds of workers that it starts.
            if generator is not None and not (self._loader.persistent_workers and (epoch or loop)):
                torch.empty((), dtype=torch.int64).random_(generator=generator)
            draws = iter(self._sampler)
        order = Order([], draws, ended=False)
        finite = isinstance(self._sampler, Sized)
        wanted = max(start, len(self._sampler) + 1 if finite else 0)
        self.ensure(order, max(wanted, HEAD), None)
        order.differs = again and order.head() != self._start["head"]
        self._start["head"] = order.head()
        if order.ended:
            self._start["after"] = [script_random.capture(thing) for thing in things]
        return order

    def _moved_on(self) -> list[dict[str, Any]]:
        """Return what drawing has changed in the last loop. The script sets the rest, such as an epoch."""
        before, after = self._start.get("own", ()), self._start.get("after", ())
        return [
            {path: state for path, state in new.items() if "plain" not in state or old.get(path) != state}
            for old, new in zip(before, after, strict=False)
        ]

    @property
    def _drawn_from(self) -> list[Any]:
        """What holds the generators that decide an order."""
        return [_Generator(self._loader.generator), self._sampler, getattr(self._sampler, "sampler", None)]

    def _told(self, epoch: int, loop: int, seed: int, start: int, group: Group, known: Order | None) -> Order:
        """Return the order of the replica that has begun to draw it, else of rank 0."""
        serves = group.gather_ints([known is not None and known.serves])
        self._source = next((rank for rank, (can,) in enumerate(serves) if can), 0)
        if group.rank == self._source:
            order = known if known is not None and known.serves else self._begun(epoch, loop, seed, start)
            self.ensure(order, start, None)
            rest = {
                "items": order.slice(start, order.drawn),
                "passed": max(start, order.passed),
                "ended": order.ended,
            }
            broadcast_state(group, rest | {"start": self._start}, self._source)
            return order
        rest = broadcast_state(group, None, self._source)
        self._start, self._behind = rest["start"], True
        return Order(rest["items"], None, rest["ended"], rest["passed"])

    def _shared(self, order: Order, count: int, group: Group) -> Sequence[Any]:
        if group.rank != self._source:
            return broadcast_state(group, None, self._source)["items"]
        with self._random.borrowed():
            drawn = _tidy(order.draw(count), self._sampler)
        broadcast_state(group, {"items": drawn}, self._source)
        return drawn


@dataclass
class _Generator:
    """A loader's generator, where `script_random` finds it."""

    generator: torch.Generator | None


def plain_order(loader: DataLoader[Any], seed: int) -> np.ndarray | None:
    """Return the order of torch's own samplers under `seed`, int64; None for any other.

    Shuffling gives what `DistributedSampler` gives for the same seed, and so the order of a plain DDP script.
    """
    sampler: Any = loader.sampler
    count = len(loader.dataset)  # type: ignore[arg-type]
    if type(sampler) is SequentialSampler:
        return np.arange(count)
    if type(sampler) is DistributedSampler:
        return _permutation(count, sampler.seed + sampler.epoch) if sampler.shuffle else np.arange(count)
    if type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == count:
        return _permutation(count, seed) if sampler.generator is None else None
    return None


def sample_count(loader: DataLoader[Any]) -> int | None:
    """Return the samples of one loop over map-style data; None where the sampler does not say."""
    if isinstance(loader.sampler, DistributedSampler):
        return len(loader.dataset)  # type: ignore[arg-type]
    if loader.batch_size is None and loader.batch_sampler is not None:
        return None
    return len(loader.sampler) if isinstance(loader.sampler, Sized) else None


def _permutation(count: int, seed: int) -> np.ndarray:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed)).numpy()


def _tidy(items: list[Any], sampler: Any) -> Any:
    """Return indices as int64 where they are whole numbers, and keys of another kind as they are."""
    if not items:
        return items
    if all(isinstance(item, torch.Tensor) and not item.ndim for item in items):
        return np.array([int(item) for item in items], dtype=np.int64)
    if isinstance(items[0], Iterable) and not isinstance(items[0], str | bytes | tuple):
        if (empty := next((i for i, item in enumerate(items) if not len(item)), None)) is not None:
            raise SamplerError(
                f"{type(sampler).__name__}: batch {empty} is empty; a batch needs at least one index"
            )
        return items
    if all(isinstance(item, int | np.integer) for item in items):
        return np.array(items, dtype=np.int64)
    if any(isinstance(item, float) for item in items):
        raise SamplerError(
            f"{type(sampler).__name__}: gave the index {next(i for i in items if isinstance(i, float))!r}; "
            "whole numbers or keys of the dataset are needed"
        )
    return items


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.concatenate([first, second])
    return [*first, *second]
