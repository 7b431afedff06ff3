"""What a mechanism is asked for: jobs that are to get GPUs, with CPUs and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...estimators.sensitivity.choices import Choices

Places = tuple[tuple[int, int], ...]  # (position of a node, GPUs there), by position


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """A job that is to get its GPUs on the nodes of one type.

    unit: GPUs of a replica; on each node the job has a multiple of it.
    before: what it holds now. pinned: its GPUs stay where they are.
    """

    job: str
    gpus: int
    choices: Choices
    unit: int = 1
    before: Places = ()
    pinned: bool = False


def largest_first(needs: Iterable[Need], size: Callable[[Need], tuple[float, ...]]) -> list[Need]:
    """Return needs by size, largest first, then in their order.

    A job whose user gave more than its share comes last, as everybody else is promised a share. One that runs
    comes first, as it has its place.
    """

    def key(need: Need) -> tuple[float, ...]:
        wider = need.choices.is_wider
        return (-1.0 if wider and need.before else float(wider), *(-one for one in size(need)))

    return sorted(needs, key=key)
