"""How much memory of its GPU a process needs, with what CUDA itself takes."""

from __future__ import annotations

import torch

GIB = 2**30


def memory_gib(device: torch.device) -> tuple[float, float]:
    """Return the most memory that was in use since the last call, and what the GPU has, GiB; 0, 0: no GPU."""
    if device.type != "cuda":
        return 0.0, 0.0
    free, whole = torch.cuda.mem_get_info(device)
    beside = whole - free - torch.cuda.memory_reserved(device)  # the context, and whatever else runs there
    most = torch.cuda.max_memory_reserved(device) + beside
    torch.cuda.reset_peak_memory_stats(device)
    return most / GIB, whole / GIB
