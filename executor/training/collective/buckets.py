"""Puts gradients that travel to the other replicas together in one piece of memory.

A few words travel at the end of the last piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

BUCKET_BYTES = 25 << 20
FIRST_BUCKET_BYTES = 1 << 20  # smaller, so that it is on its way early
# Words at the end of the last bucket, which are summed over replicas with it.
EXTRA, MISSING, WEIGHT, NORM, STALE, FIRST_GUARD = range(6)
GUARDS = 4
WORDS = FIRST_GUARD + GUARDS


@dataclass
class Bucket:
    """Parameters whose gradients travel together: by number, and each one's place in `flat`."""

    numbers: list[int]
    flat: Tensor
    views: list[Tensor]
    gradients: Tensor  # `flat` without words
    holders: int = 1  # processes of a replica that hold these same parts of parameters
    waiting: int = 0  # gradients still to come
    work: Any = None
    scale: Tensor | None = None


class Layout:
    """The buckets of a set of parameters, last parameters first, since backward is likely to reach them first."""

    def __init__(
        self,
        numbers: Iterable[int],
        parameters: Sequence[Tensor],
        device: torch.device,
        holders: Sequence[int] | None = None,
    ) -> None:
        """Lay parameters out. `holders`: how many processes of a replica hold each of them; by default one."""
        self.numbers = sorted(numbers, reverse=True)
        self.bucket_of: dict[int, int] = {}
        self.buckets: list[Bucket] = []
        self.overlaps = True  # whether buckets may leave while backward runs
        for place, members in enumerate(_bundles(self.numbers, parameters, holders)):
            self.buckets.append(_bucket(members, parameters))
            self.buckets[-1].holders = holders[members[0]] if holders is not None else 1
            self.bucket_of.update(dict.fromkeys(members, place))
        last = self.buckets[-1].flat if self.buckets else None
        if last is None or last.dtype is not torch.float32 or last.device != device:
            empty = torch.zeros(WORDS, dtype=torch.float32, device=device)
            self.buckets.append(Bucket([], empty, [], empty[:0]))
        self.words = self.buckets[-1].flat[-WORDS:]
        for bucket in self.buckets[:-1]:
            bucket.flat = bucket.gradients

    def begin(self) -> None:
        for bucket in self.buckets:
            bucket.waiting, bucket.work, bucket.scale = len(bucket.numbers), None, None

    @property
    def devices(self) -> set[torch.device]:
        return {bucket.flat.device for bucket in self.buckets}


def fill_words(words: Tensor, values: Sequence[Any]) -> None:
    """Write numbers and 0-d tensors into `words`, without waiting for a GPU that some may be on."""
    if any(isinstance(value, Tensor) and value.is_cuda for value in values):
        for place, value in enumerate(values):
            words[place] = value
    else:
        words.copy_(torch.tensor([float(value) for value in values]))


def _bucket(members: list[int], parameters: Sequence[Tensor]) -> Bucket:
    sizes = [parameters[i].numel() for i in members]
    first = parameters[members[0]]
    flat = torch.zeros(sum(sizes) + WORDS, dtype=first.dtype, device=first.device)
    gradients = flat[:-WORDS]
    views = [view.view(parameters[i].shape) for view, i in zip(gradients.split(sizes), members, strict=True)]
    return Bucket(members, flat, views, gradients)


def _bundles(
    numbers: Sequence[int], parameters: Sequence[Tensor], holders: Sequence[int] | None
) -> Iterator[list[int]]:
    """Yield numbers of parameters of one device and type together, up to a bucket's size."""
    kinds: dict[tuple[torch.device, torch.dtype, int], list[int]] = {}
    for i in numbers:
        held = holders[i] if holders is not None else 1
        kinds.setdefault((parameters[i].device, parameters[i].dtype, held), []).append(i)
    for alike in kinds.values():
        bundle: list[int] = []
        size, limit = 0, FIRST_BUCKET_BYTES
        for i in alike:
            bundle.append(i)
            size += parameters[i].numel() * parameters[i].element_size()
            if size >= limit:
                yield bundle
                bundle, size, limit = [], 0, BUCKET_BYTES
        if bundle:
            yield bundle
