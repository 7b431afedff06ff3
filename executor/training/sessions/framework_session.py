"""The session of a script outside of a job, where a framework prepares its models and its processes itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist

from ..losses.loss_kind import as_weight
from .metrics import combine
from .session import check_count


class FrameworkSession:
    """Count epochs and steps, and nothing else."""

    objects: tuple[Any, ...] = ()

    @property
    def rank(self) -> int:
        return int(os.environ.get("RANK", "0"))

    @property
    def world_size(self) -> int:
        return int(os.environ.get("WORLD_SIZE", "1"))

    def epochs(self, count: int) -> Iterator[int]:
        check_count("epochs", count)
        yield from range(count)

    def steps(self, count: int) -> Iterator[int]:
        check_count("steps", count)
        yield from range(count)

    def report(self, metrics: dict[str, Any], how: dict[str, str]) -> None:
        pass

    def combine(self, value: Any, how: str) -> Any:
        everyone = [value]
        if dist.is_initialized():
            everyone = [None] * dist.get_world_size()
            dist.all_gather_object(everyone, value)
        return combine(everyone, [1.0] * len(everyone), how)

    def weigh(self, weight: Any) -> None:
        as_weight(weight)
