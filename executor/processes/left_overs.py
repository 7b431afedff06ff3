"""What processes of jobs have left in this machine's memory."""

from __future__ import annotations

from contextlib import suppress

from ..training.caching import folders


def remove_left_overs() -> None:
    """Remove caches of samples that no process uses any more, as after a crash."""
    with suppress(OSError):
        for home in folders.homes():
            folders.remove_unused(home)
