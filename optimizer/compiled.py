"""How the optimizer's kernels are compiled: once per install, and as little of it as is used.

numba links every kernel that another one calls into it and optimises both again, so what is compiled for each
counts many times. Of what it makes by default two things are of no use here: an entry for C callers, which unpacks
every array anew, and an exception for every division by zero. What else costs most, seconds of it, is kept out of
the kernels' bodies: one array assigned to another in slices (whose error message brings in numba's strings),
arithmetic of whole arrays, numpy's sorts, and arguments of several types where one does (a constant of Python is a
type of its own, one of numpy is an int64).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """The function compiled on its first call; of division by zero comes what numpy makes of it."""
    return _compiled(function)


def step(function: _Function) -> _Function:
    """A kernel that makes no arrays, returns none and calls steps alone, as what is called for every row must be.

    numba counts references to the arrays that a function takes, one atomic step after another: 0.25 µs a call
    where it is given tuples of many, which is more than most such functions take. Here it does not, so that an
    array that is returned would be gone.
    """
    return _compiled(function, _nrt=False)


def _compiled(function: _Function, **options: Any) -> _Function:
    # numba's own annotations leave these options out.
    options |= {"no_cfunc_wrapper": True}
    compiled: _Function = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    return compiled


def constant(value: int) -> int:
    """A constant that kernels take as any other int64."""
    taken: Any = np.int64(value)  # to mypy not an int, though it does all that one does
    return taken
