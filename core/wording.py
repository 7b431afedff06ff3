"""Amounts, pools and errors in sentences for people."""

from __future__ import annotations


def n_gpus(count: int) -> str:
    """Return "1 GPU", "4 GPUs" and so on."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def pool_called(pool: str) -> str:
    """Return "pool lab", or what jobs and nodes of no pool are called."""
    return f"pool {pool}" if pool else "what belongs to no pool"


def in_words(error: Exception) -> str:
    """Return a ValueError's own sentence, and of any other error its kind, too."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
