"""Amounts in sentences for people."""

from __future__ import annotations


def n_gpus(count: int) -> str:
    """Return "1 GPU", "4 GPUs" and so on."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
