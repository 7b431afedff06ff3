"""Whether this process compiles the kernels that search for batches.

Compiled ones value thousands of configurations at once. A process that values one now and then does without: the
compiler alone would take it 30 MiB. Both are the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

Kernel = TypeVar("Kernel", bound=Callable[..., object])
_compiles = True


def do_without() -> None:
    """Have kernels run as plain Python; call it before anything of `goodput` is imported."""
    global _compiles
    _compiles = False


def kernel(function: Kernel) -> Kernel:
    """Return the function compiled, from a cache where it was compiled before, or as it is."""
    if not _compiles:
        return function
    from numba import njit

    return cast(Kernel, njit(cache=True, nogil=True, error_model="numpy")(function))
