"""The random number generators of a process as plain state."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def capture_rng() -> dict[str, Any]:
    """States of Python's, numpy's and torch's global generators, and of every GPU's once CUDA is in use."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 (the generator scripts use)
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
    }


def restore_rng(state: Mapping[str, Any]) -> None:
    """Put the generators where `capture_rng` found them; GPUs that are not here are left out."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(dict(state["numpy"]))  # noqa: NPY002
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] and torch.cuda.is_available():
        for device in range(min(len(state["cuda"]), torch.cuda.device_count())):
            torch.cuda.set_rng_state(state["cuda"][device].cpu(), device)
