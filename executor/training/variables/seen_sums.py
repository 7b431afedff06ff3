"""Sums and means that a script computes of the samples it was given: losses, errors, hits.

Where a script adds such a value to one of its variables, the kind of the value tells what the variable is.
Functions of torch are watched while the script works on a part, and only while there is something to find out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from ..losses.loss_terms import Look
from .script_frames import MOST_ELEMENTS

MOST_SEEN = 256  # the most values of one part
_MEANS = (Tensor.mean, torch.mean, Tensor.nanmean, torch.nanmean)
_SUMS = (Tensor.sum, torch.sum, Tensor.nansum, torch.nansum, Tensor.count_nonzero, torch.count_nonzero)
_compiles = False


def compiled() -> None:
    """Watch no more, because the script compiles: what is watched would be compiled anew."""
    global _compiles
    _compiles = True


class SeenSums:
    """The sums and means of the running part."""

    def __init__(self) -> None:
        self._mode: _Mode | None = None
        self._entered: list[_Mode] = []  # and not left yet

    def begin(self, samples: int) -> None:
        """Watch a part of so many samples."""
        self.end()
        if samples > 1 and not _compiles:
            self._mode = _Mode(samples)
            self._mode.__enter__()
            self._entered.append(self._mode)

    def end(self) -> None:
        """End the part; what was seen is kept until the next one.

        Where the script has entered a mode of torch since, and not left it, ours is left later.
        """
        if self._mode is not None:
            self._mode.watches = False
        stack = _get_current_function_mode_stack()
        while self._entered and stack and stack[-1] is self._entered[-1]:
            self._entered.pop().__exit__(None, None, None)
            stack.pop()

    def drop(self) -> None:
        """Forget what was seen."""
        self.end()
        self._mode = None

    def over(self, counts: Sequence[int]) -> list[Any]:
        """Return what each would add to a sum over samples: a number or an array.

        `counts`: of items that a mean may be of.
        """
        if self._mode is None:
            return []
        found: list[Any] = []
        for value, is_mean in self._mode.seen:
            plain = value.float().cpu().double()
            own = plain.item() if plain.numel() == 1 else plain.numpy()
            found += [own * count for count in counts] if is_mean else [own]
        return found


class _Mode(TorchFunctionMode):
    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples = samples
        self.watches = True
        self.seen: list[tuple[Tensor, bool]] = []  # values, and whether each is a mean

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self.watches and len(self.seen) < MOST_SEEN and isinstance(result, Tensor):
            is_mean = _reduction_of(func, args, kwargs)
            if is_mean is not None and self._is_over_samples(args, kwargs, result):
                self.seen.append((result.detach(), is_mean))
        return result

    def _is_over_samples(self, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> bool:
        """Return whether it was reduced along the samples, as their number tells."""
        given = args[0] if args else kwargs.get("input")
        if not isinstance(given, Tensor) or not given.ndim or given.shape[0] % self.samples or not len(given):
            return False
        if result.numel() > MOST_ELEMENTS or result.is_complex() or (result.ndim and result.shape == given.shape):
            return False
        if result.ndim and len(result) == len(given) and not _over_first(args, kwargs):
            return False
        return result.grad_fn is None or not Look(self.samples, self.samples).is_constant(result.grad_fn)


def _over_first(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    dims = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return dims is None or 0 in (dims if isinstance(dims, list | tuple) else [dims])


def _reduction_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | None:
    """Return whether a function takes a mean, or a sum (False); None for any other."""
    if func in _MEANS:
        return True
    if func in _SUMS:
        return False
    place = _place_of_reduction(func)
    if place is None:
        return None
    reduction = kwargs.get("reduction", args[place] if len(args) > place else "mean")
    return {"mean": True, "sum": False}.get(reduction)


@functools.cache
def _place_of_reduction(func: Callable[..., Any]) -> int | None:
    """Return the place of the argument `reduction` of a loss function of torch."""
    if getattr(func, "__module__", None) != "torch.nn.functional":
        return None
    names = list(inspect.signature(func).parameters)
    return names.index("reduction") if "reduction" in names else None
