"""Fits of small models: their matrices are so small that more threads than one only wait for each other."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Run linear algebra of this process on the thread that asks for it, while this is open."""
    found: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return found


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
