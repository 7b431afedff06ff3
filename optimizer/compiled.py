"""How the optimizer's kernels are compiled: once per install, and as little of it as is used.

numba links every kernel that another one calls into it and optimises both again, so what is compiled for each
counts many times. Of what it makes by default two things are of no use here: an entry for C callers, which unpacks
every array anew, and an exception for every division by zero. What else costs most, seconds of it, is kept out of
the kernels' bodies: one array assigned to another in slices (whose error message brings in numba's strings),
arithmetic of whole arrays, numpy's sorts, and arguments of several types where one does (a constant of Python is a
type of its own, one of numpy is an int64). None counts places of an array from its end (`indexing.py`).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from . import indexing

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """The function compiled on its first call; of division by zero comes what numpy makes of it."""
    return _compiled(function)


def step(function: _Function) -> _Function:
    """A kernel that makes no arrays, returns none and calls steps alone, as what is called for every row must be.

    It becomes part of what calls it: a call hands over every array of every tuple it is given, in seven words
    each, and that takes longer than most such functions do. Nor does numba count references to those arrays
    (0.25 µs a call), so that one that is returned would be gone.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: _Function, **options: Any) -> _Function:
    # numba's own annotations leave these options out.
    options |= {"no_cfunc_wrapper": True, "pipeline_class": indexing.FromTheStart}
    compiled: Any = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    if hasattr(compiled, "_cache"):  # not where numba is told to compile nothing
        # numba takes what is on disk for fresh while the function's own file is as it was; steps are of others.
        file = compiled._cache._cache_file
        file._source_stamp = file._source_stamp, _sources(Path(inspect.getfile(function)).parent)
    made: _Function = compiled
    return made


@cache
def _sources(folder: Path) -> str:
    """Of what kernels of a folder may be made."""
    digest = hashlib.sha256()
    for path in [Path(__file__), Path(indexing.__file__), *sorted(folder.glob("*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _prefetch(_: Any, array: Any, place: Any) -> Any:
    """What numba makes of `prefetch`."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kind = signature.args[0]
        one = context.make_array(kind)(context, builder, given[0])
        places = [given[1]] + [context.get_constant(types.intp, 0)] * (kind.ndim - 1)
        at = cgutils.get_item_pointer(context, builder, kind, one, places, wraparound=False)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, word, word, word]), "llvm.prefetch"
        )
        read, keep, data = word(0), word(3), word(1)
        builder.call(function, [builder.bitcast(at, byte), read, keep, data])
        return context.get_dummy_value()

    return types.void(array, place), code


# Begins to read what array[place] begins with into the caches, and goes on; the place may be behind the end.
prefetch: Any = (lambda array, place: None) if getattr(config, "DISABLE_JIT", 0) else intrinsic(_prefetch)


def constant(value: int) -> int:
    """A constant that kernels take as any other int64."""
    taken: Any = np.int64(value)  # to mypy not an int, though it does all that one does
    return taken
