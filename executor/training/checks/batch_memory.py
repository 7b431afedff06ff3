"""Buffers that hold something of each batch, such as a queue of keys or a codebook of means.

A replica that is given a part of a batch would put only that part into them. Two kinds are no such buffers.
Running statistics of normalisation layers are averaged instead (`beside.py`), and what is not persistent is a
cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torch import Tensor, nn

Mark = Sequence[tuple[Tensor, int]]


class BatchMemory:
    """The buffers of the models that are trained which may be of the kind."""

    def __init__(self, models: Iterable[nn.Module]) -> None:
        self._places = [place for model in models for place in _candidates(model)]

    def __bool__(self) -> bool:
        return bool(self._places)

    def mark(self) -> Mark:
        """Return what they are now, without a copy."""
        buffers = [module._buffers[name] for module, name in self._places]
        return [(buffer, buffer._version) for buffer in buffers if buffer is not None]

    def changed(self, mark: Mark) -> str:
        """Return the name of one that has been written to or replaced since; "" where none has."""
        for (module, name), (before, version) in zip(self._places, mark, strict=False):
            now = module._buffers.get(name)
            if now is not before or before._version != version:
                return f"{type(module).__name__}.{name}"
        return ""

    def put_back(self, mark: Mark) -> None:
        """Put the same tensors back, whose values somebody else restores."""
        for (module, name), (before, _) in zip(self._places, mark, strict=False):
            module._buffers[name] = before


class Buffers:
    """Finds which tensors are the buffers of these models; a layer may replace its own."""

    def __init__(self, models: Iterable[nn.Module]) -> None:
        self._kept = [(layer, dict(layer._buffers)) for model in models for layer in model.modules()]

    def restore(self) -> None:
        for layer, buffers in self._kept:
            layer._buffers.update(buffers)


def statistics_of(models: Iterable[nn.Module]) -> list[tuple[str, Tensor]]:
    """Return buffers that a script may fill with statistics of a batch, by name.

    These are single numbers and running statistics. Those of torch's own layers are left out.
    """
    return [
        (f"{type(module).__name__}.{name}", buffer)
        for model in models
        for module in model.modules()
        if not type(module).__module__.startswith("torch.")
        for name, buffer in module._buffers.items()
        if buffer is not None and buffer.is_floating_point() and name not in module._non_persistent_buffers_set
        if buffer.numel() == 1 or name.startswith("running_")
    ]


def _candidates(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase):
            continue
        for name, buffer in module._buffers.items():
            cached = name in module._non_persistent_buffers_set
            if buffer is not None and buffer.numel() > 1 and not cached and not _is_statistic(module, name):
                yield module, name


def _is_statistic(module: nn.Module, name: str) -> bool:
    """Return whether it is averaged, or made of the weights alone as by either `spectral_norm` of torch."""
    of_weights = type(module).__name__ == "_SpectralNorm" or hasattr(module, f"{name[:-2]}_orig")
    return name.startswith("running_") or of_weights
