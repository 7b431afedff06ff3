"""The session of a training script: what stands behind the objects that `coadapt.prepare` returns.

The environment chooses one of three ways to run (docs/architecture.md, "The training process"):

* alone (`python train.py`): everything is handed back as it is;
* `torchrun train.py` (`torchrun_session.py`): the script's processes form one group for good;
* managed (`managed_session.py`): a worker actor started this process and tells it whom to train with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from ..losses.loss_kind import as_weight
from ..state.prepared import Prepared
from .metrics import combine


class Session(Protocol):
    """What the script's API needs of each way to run."""

    @property
    def objects(self) -> tuple[Any, ...]: ...

    @property
    def rank(self) -> int: ...

    @property
    def world_size(self) -> int: ...

    def epochs(self, count: int) -> Iterator[int]: ...

    def steps(self, count: int) -> Iterator[int]: ...

    def report(self, metrics: dict[str, Any], how: dict[str, str]) -> None: ...

    def combine(self, value: Any, how: str) -> Any: ...

    def weigh(self, weight: Any) -> None: ...


class AloneSession:
    """`python train.py`: nothing is changed."""

    rank = 0
    world_size = 1

    def __init__(self, prepared: Prepared) -> None:
        self.objects = tuple(prepared.objects)

    def epochs(self, count: int) -> Iterator[int]:
        check_count("epochs", count)
        yield from range(count)

    def steps(self, count: int) -> Iterator[int]:
        check_count("steps", count)
        yield from range(count)

    def report(self, metrics: dict[str, Any], how: dict[str, str]) -> None:
        pass

    def combine(self, value: Any, how: str) -> Any:
        return combine([value], [1.0], how)

    def weigh(self, weight: Any) -> None:
        as_weight(weight)


def check_count(name: str, count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"{name}: {count!r} is no whole number")
    if count < 1:
        raise ValueError(f"{name}: {count}; at least 1 is needed")
