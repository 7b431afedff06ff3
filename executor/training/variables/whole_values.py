"""Values of a whole batch that a script reads in its last pass: norms of combined gradients, and learning rates.

Whatever else differs from pass to pass is taken for something of the pass's samples.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad

KEPT = 8
ROUND_OFF = 1e-12
ROUND_OFF_OF_TENSORS = 1e-6
FAR = 1000  # times the round-off: moves that differ by so much tell something
_norms: deque[Tensor] = deque(maxlen=KEPT)
_norms_of_pass: deque[Tensor] = deque(maxlen=KEPT)


def watch_norms() -> None:
    """Note what torch's functions for norms of gradients return. Called once, before the script is imported."""
    for module in (torch.nn.utils, clip_grad):
        for name in ("clip_grad_norm_", "get_total_norm"):
            if hasattr(module, name):
                setattr(module, name, _noting(getattr(module, name)))


def _noting(real: Any) -> Any:
    @functools.wraps(real)
    def noting(*args: Any, **kwargs: Any) -> Any:
        norm = real(*args, **kwargs)
        if isinstance(norm, Tensor):
            _norms.append(norm.detach())
            _norms_of_pass.append(norm.detach())
        return norm

    return noting


def norms() -> list[float]:
    """Return the last norms that were computed."""
    return [float(norm) for norm in _norms]


def take_norms() -> list[Tensor]:
    """Return those that were computed since this was asked for last."""
    taken = list(_norms_of_pass)
    _norms_of_pass.clear()
    return taken


class NormFollowers:
    """Finds out which numbers a script computes from norms: moving averages of them, and sums.

    In each pass of a batch an average goes the same share of its way to the pass's norm. A sum grows by the same
    multiple of the norm. A number that once did otherwise is none of these.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._others: set[str] = set()
        self._taken: list[list[Tensor]] = []

    def begin_batch(self) -> None:
        self._taken = []
        take_norms()

    def pass_done(self) -> None:
        self._taken.append(take_norms())

    def follows(self, path: str, before: Any, moves: Sequence[Any]) -> bool:
        """Return whether what is at `path`, and was `before`, has moved by norms in each pass of the batch."""
        if not any(self._taken) or path in self._others or not _are_single((before, *moves)):
            return False
        error = (
            ROUND_OFF if all(isinstance(one, float | int) for one in (before, *moves)) else ROUND_OFF_OF_TENSORS
        )
        moved = [(float(move), taken) for move, taken in zip(moves, self._taken, strict=True) if move != 0]
        seen = _go_by_norms(float(before), moved, error)
        if seen is not None:
            (self._known if seen else self._others).add(path)
        return path in self._known and path not in self._others


def _are_single(values: Sequence[Any]) -> bool:
    return not any(getattr(value, "shape", ()) for value in values)


def _go_by_norms(before: float, moved: Sequence[tuple[float, Sequence[Tensor]]], error: float) -> bool | None:
    """Return whether moves go by one of the norms of their passes; None where these do not tell."""
    if len(moved) < 2 or len({len(taken) for _, taken in moved}) > 1:
        return None
    moves, of_passes = zip(*moved, strict=True)
    norms_of = [[float(norm) for norm in each] for each in zip(*of_passes, strict=True)]
    numbers = [before, *moves, *(norm for each in norms_of for norm in each)]
    if not norms_of or not all(map(math.isfinite, numbers)):
        return None
    error *= max(map(abs, numbers))
    if max(moves) - min(moves) < FAR * error:
        return None
    return any(
        _are_in_proportion(moves, [norm - start for norm in each], error)
        for each in norms_of
        for start in (before, 0.0)
    )


def _are_in_proportion(moves: Sequence[float], ways: Sequence[float], error: float) -> bool:
    longest = max(range(len(ways)), key=lambda i: abs(ways[i]))
    if not ways[longest]:
        return False
    share = moves[longest] / ways[longest]
    return all(abs(move - share * way) <= error for move, way in zip(moves, ways, strict=True))


def rates_of(optimizers: Sequence[torch.optim.Optimizer], schedulers: Sequence[Any]) -> list[float]:
    """Return learning rates as the script can read them."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    told = [rate for scheduler in schedulers for rate in getattr(scheduler, "_last_lr", ())]
    return [float(rate) for rate in (*(group["lr"] for group in groups if "lr" in group), *told)]
