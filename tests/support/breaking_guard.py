"""A guard that aborts its group, as an executor does, while replicas combine gradients."""

from __future__ import annotations

from collections.abc import Sequence

from coadapt.executor.training.collective.group import Group


class BreakingGuard:
    """Breaks `group` when gradients are combined once more after `times` times."""

    def __init__(self, group: Group, times: int = 0) -> None:
        self._group, self._left = group, times

    def words(self) -> Sequence[int]:
        """Return words that are the same on all replicas."""
        if not self._left:
            self._group.fail()
        self._left -= 1
        return [0, 0, 0, 0]

    def differs(self, word: int) -> str:
        """Return that no word differs."""
        return f"word {word}"
