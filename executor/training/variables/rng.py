"""The random generators of a process as plain state, and streams of draws apart from the script's own."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def capture_rng() -> dict[str, Any]:
    """Return states of Python's, numpy's and torch's global generators, and of every GPU's once CUDA is in use."""
    return {**_capture_cpu(), "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []}


def restore_rng(state: Mapping[str, Any]) -> None:
    """Put the generators where `capture_rng` found them; GPUs that are not here are left out."""
    _restore_cpu(state)
    if state["cuda"] and torch.cuda.is_available():
        for device in range(min(len(state["cuda"]), torch.cuda.device_count())):
            torch.cuda.set_rng_state(state["cuda"][device].cpu(), device)


class RandomState:
    """A stream of draws of its own from the global CPU generators, between those of the script."""

    def __init__(self, seed: int) -> None:
        before = _capture_cpu()
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 (the generator that scripts use)
        torch.default_generator.manual_seed(seed % 2**63)
        self._state = _capture_cpu()
        _restore_cpu(before)

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Draw from this state inside, and go on from there the next time."""
        outside = _capture_cpu()
        _restore_cpu(self._state)
        try:
            yield
        finally:
            self._state = _capture_cpu()
            _restore_cpu(outside)


def _capture_cpu() -> dict[str, Any]:
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002
        "torch": torch.get_rng_state(),
    }


def _restore_cpu(state: Mapping[str, Any]) -> None:
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(dict(state["numpy"]))  # noqa: NPY002
    torch.set_rng_state(state["torch"].cpu())
