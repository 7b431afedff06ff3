"""How the optimizer's kernels are compiled: by numba, once per install, and kept in its cache.

numba links every kernel that another one calls into it and optimises both again. Kernels are therefore loops that
Python calls one after another, and not kernels of kernels. What takes numba seconds to compile is left to numpy:
sorting, assigning slices, arithmetic of whole arrays. None counts places of an array from its end.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile the function on its first call; division by zero gives what numpy makes of it."""
    return _compiled(function)


def step(function: _Function) -> _Function:
    """Make the function a part of each kernel that calls it, as what is called for every row must be.

    A call hands over every array of every tuple, in seven words each, which takes longer than most such functions
    do. A step must make no arrays, return none and call steps alone, as nobody counts references to arrays in it.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: _Function, **options: Any) -> _Function:
    # numba's own annotations leave some of these options out. A wrapper for callers in C is of no use here.
    options |= {"no_cfunc_wrapper": True}
    compiled: Any = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    if hasattr(compiled, "_cache"):  # not where numba is told to compile nothing
        # numba looks at the function's own file alone to see whether its cache is fresh; steps are of others.
        file = compiled._cache._cache_file
        file._source_stamp = file._source_stamp, _sources(Path(inspect.getfile(function)).parent)
    made: _Function = compiled
    return made


@cache
def _sources(folder: Path) -> str:
    """Return a digest of all that kernels of a folder may be made of."""
    digest = hashlib.sha256()
    for path in [Path(__file__), *sorted(folder.glob("*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def constant(value: int) -> int:
    """Return a constant that kernels take as any other int64; numba gives each literal a type of its own."""
    taken: Any = np.int64(value)  # to mypy not an int, though it does all that one does
    return taken
