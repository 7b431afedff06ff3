"""What a group of trials says that cannot be trained as one."""

from __future__ import annotations


class CannotFuse(RuntimeError):
    """Trials cannot be trained as one; one sentence that says which operation and why. They run apart instead."""
