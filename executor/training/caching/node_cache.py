"""The cache of this process's job on its node: opened when the first sample is read, and anew after a fork."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ...protocol import messages
from . import folders
from .shared_cache import DIGEST_BYTES, SharedCache


class NodeCache:
    """What `SharedCache` offers, in whatever process it is asked.

    Args:
        folder: of the job on this node.
        budget: bytes for samples at first.
        tell: is given a sentence for the job's log.
    """

    def __init__(self, folder: Path, budget: int, tell: Callable[[str], None] = print) -> None:
        self.folder, self._first_budget, self._tell = folder, budget, tell
        self._open: SharedCache | None = None
        self._pid = self._user = -1
        self._told = False

    @classmethod
    def of_environment(cls) -> NodeCache | None:
        """Return the cache of the job that this process is of; None: it is of none, or nobody knows its memory."""
        job, budget = os.environ.get(messages.JOB_ID), os.environ.get(messages.CACHE_BYTES)
        if not job or budget is None:
            return None
        life, node = int(os.environ.get(messages.JOB_LIFE) or 0), os.environ.get(messages.NODE_ID, "")
        return cls(folders.folder_of(job, life, node), int(budget))

    @property
    def shared(self) -> SharedCache:
        if self._open is None or self._pid != os.getpid():
            if self._user < 0:  # a forked process goes on using it as long as it lives
                folders.remove_unused(self.folder.parent)
                self._user = folders.use(self.folder)
            self._open, self._pid = SharedCache(self.folder, self._first_budget), os.getpid()
        return self._open

    def hold(self) -> None:
        """Keep what loader workers of this process put there, also while none of them lives."""
        _ = self.shared

    def resize(self, budget: int) -> None:
        """Have another budget, in bytes."""
        self._first_budget, self._told = budget, False
        self.shared.resize(budget)

    def put(self, digest: bytes, sample: bytes, charge: int = 0) -> bool:
        """Keep a sample if there is room; return whether it is there."""
        shared = self.shared
        if not self._told and not shared.count:
            try:
                check_budget(shared.budget, max(len(sample) + DIGEST_BYTES, charge))
            except ValueError as refused:
                self._told = True
                self._tell(str(refused))
                return False
        return shared.put(digest, sample, charge)

    def __reduce__(self) -> tuple[type[NodeCache], tuple[Path, int]]:
        return NodeCache, (self.folder, self._first_budget)


def check_budget(budget: int, sample: int) -> None:
    """Raise ValueError, one sentence, for a budget below one sample; both are bytes."""
    if budget < sample:
        raise ValueError(
            f"cached: the budget of {budget} bytes is below one sample of {sample} bytes, so nothing is cached; "
            "memory_gib_per_gpu gives the job more"
        )


_here: NodeCache | None = None


def here() -> NodeCache | None:
    """Return the cache that all cached reads of this process share; None where there is none."""
    global _here
    if _here is None:
        _here = NodeCache.of_environment()
    return _here
