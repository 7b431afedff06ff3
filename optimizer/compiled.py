"""Compiles the optimizer's kernels by numba, once per install, and keeps them in its cache.

numba links a kernel into every kernel that calls it, and optimises both again. So Python calls one kernel after
another, and kernels do not call kernels. Numpy does what takes numba seconds to compile: sorting, assigning
slices, and arithmetic of whole arrays. No kernel counts places of an array from its end.
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
    """Compile the function on its first call. Division by zero gives what it gives in numpy."""
    return _compiled(function)


def step(function: _Function) -> _Function:
    """Make the function a part of each kernel that calls it. What is called for every row must be a step.

    A real call hands over every array of every tuple, in seven words each, which takes longer than most steps do.
    A step makes and returns no arrays and calls only steps, as references to arrays are not counted in it.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: _Function, **options: Any) -> _Function:
    # Nobody calls kernels from C. numba's own annotations leave some of these options out.
    options |= {"no_cfunc_wrapper": True}
    compiled: Any = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    if hasattr(compiled, "_cache"):  # there is none if numba is told to compile nothing
        # To see whether its cache is fresh, numba looks only at the function's own file. Steps may be in others.
        file = compiled._cache._cache_file
        file._source_stamp = file._source_stamp, _sources(Path(inspect.getfile(function)).parent)
    made: _Function = compiled
    return made


@cache
def _sources(folder: Path) -> str:
    """Return a digest of all files from which kernels of a folder may be compiled."""
    digest = hashlib.sha256()
    for path in [Path(__file__), *sorted(folder.glob("*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def constant(value: int) -> int:
    """Return a constant that is an ordinary int64 to kernels. numba gives each literal a type of its own."""
    taken: Any = np.int64(value)  # mypy does not take it for an int
    return taken
