"""Places in arrays as compiled kernels take them: counted from the start, never from the end.

numba asks of every index of a signed type whether it is negative, and then counts from the end as Python does.
That is a sixth of the time of loops that read a number here and there. Kernels never count so; yet their numbers
must be signed, as differences are. So the question is dropped where an array is read or written.
NUMBA_BOUNDSCHECK=1 asks it again, with an error for a place that an array does not have.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import NoPythonSupportedFeatureValidation
from numba.core.typing import signature


@register_pass(mutates_CFG=False, analysis_only=False)
class _FromTheStart(FunctionPass):
    """Signed indices of arrays are handed over as unsigned ones, which are not looked at."""

    _name = "from_the_start"

    def __init__(self) -> None:  # numba's is abstract
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        changed = {}
        for one, typed in state.calltypes.items():
            is_read = isinstance(one, ir.Expr) and one.op == "getitem"
            if (is_read or isinstance(one, ir.SetItem)) and isinstance(typed.args[0], types.Array):
                array, index, *rest = typed.args
                changed[one] = signature(typed.return_type, array, _unsigned(index), *rest)
        state.calltypes.update(changed)
        return bool(changed)


def _unsigned(index: Any) -> Any:
    """Of numba's types, where they are of whole numbers; else as it is."""
    is_tuple = isinstance(index, types.BaseTuple)
    kinds = list(index) if is_tuple else [index]
    if not all(isinstance(kind, types.Integer) for kind in kinds):
        return index
    return types.UniTuple(types.uintp, len(kinds)) if is_tuple else types.uintp


class FromTheStart(CompilerBase):
    """numba's compiler, for functions that never count from an array's end."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_FromTheStart, NoPythonSupportedFeatureValidation)
        passes.finalize()
        return [passes]
