"""How much memory a GPU has, by the names under which clusters list GPU types. Public data sheets."""

from __future__ import annotations

MEMORY_GIB = {
    "a10": 24.0,
    "a100": 40.0,
    "a100-80g": 80.0,
    "h100": 80.0,
    "h200": 141.0,
    "k80": 12.0,
    "l4": 24.0,
    "p100": 16.0,
    "quad": 24.0,
    "rtx": 24.0,
    "t4": 16.0,
    "v100": 16.0,
}


def gpu_memory_gib(gpu_type: str) -> float | None:
    """Return the memory of a GPU of a type, GiB; None: the type is not known."""
    return MEMORY_GIB.get(gpu_type)
