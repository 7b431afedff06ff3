"""Amounts, pools and errors in sentences for people."""

from __future__ import annotations


def n_gpus(count: int) -> str:
    """Return "1 GPU", "4 GPUs" and so on."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def amount(gpus: int, gpu_type: str, share: float = 1.0) -> str:
    """Return GPUs of a type as "2xt4", "0.5xt4" where one is shared, and "0.5 of 2xt4" where several are."""
    if share >= 1:
        return f"{gpus}x{gpu_type}"
    return f"{share:g}x{gpu_type}" if gpus == 1 else f"{share:g} of {gpus}x{gpu_type}"


def pool_called(pool: str) -> str:
    """Return "pool lab", or what jobs and nodes of no pool are called."""
    return f"pool {pool}" if pool else "what belongs to no pool"


def in_words(error: Exception) -> str:
    """Return a ValueError's own sentence, and of any other error its kind, too."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def span(seconds: float) -> str:
    """Return a span of time as "0.4 s", "30 s", "10 min" or "2.5 h"."""
    if 0 < seconds < 0.05:
        return "under 0.1 s"
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f}".removesuffix(".0") + " s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f}".removesuffix(".0") + " h"
