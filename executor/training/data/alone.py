"""Lets a managed process look alone for a moment, so that a data set does not read only its rank's share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

_RANK_WORDS = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
_depth = 0


def looks_alone() -> bool:
    return _depth > 0


@contextmanager
def seen_alone() -> Iterator[None]:
    """Be rank 0 of one process inside: in the environment, to torch.distributed and to `coadapt.rank()`.

    Worker processes of a loader that start inside keep that environment.
    """
    global _depth
    _depth += 1
    before = {word: os.environ.get(word) for word in _RANK_WORDS}
    os.environ.update({word: value for word, value in _RANK_WORDS.items() if before[word] is not None})
    try:
        yield
    finally:
        _depth -= 1
        os.environ.update({word: value for word, value in before.items() if value is not None})


def install() -> None:
    """Let torch.distributed answer as `seen_alone` asks. A managed process calls this once."""
    for name, value in (("get_rank", 0), ("get_world_size", 1)):
        real = getattr(dist, name)
        if not hasattr(real, "_coadapt"):
            setattr(dist, name, _answering(real, value))


def _answering(real: Callable[..., int], value: int) -> Callable[..., int]:
    def answer(*args: Any, **kwargs: Any) -> int:
        return value if looks_alone() else real(*args, **kwargs)

    answer._coadapt = True  # type: ignore[attr-defined]
    answer.__doc__ = real.__doc__
    return answer
