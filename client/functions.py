"""A function of a notebook as a job: its source becomes a script, so nothing is pickled.

>>> import coadapt
>>> def train(lr):
...     import torch
...     ...
>>> job = coadapt.submit(train, lr=0.1, job={"resources": {"max_gpus": 4}})      # doctest: +SKIP
"""

from __future__ import annotations

import ast
import builtins
import inspect
import symtable
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core.errors import FunctionError, PackageError
from . import jobfile
from .beside import free_name, gather, left_behind
from .client import Client, connect
from .script_check import prepares


def submit(
    function: Callable[..., Any],
    *args: Any,
    files: Sequence[str | Path] = (),
    job: Mapping[str, Any] | None = None,
    client: Client | None = None,
    **kwargs: Any,
) -> str:
    """Submit a call of a function, and return the job's id.

    The function's source becomes a script, with what it uses of the notebook: modules that were imported, other
    functions and classes, and plain values. A function that calls coadapt.prepare makes an elastic job; any other
    runs unchanged at a fixed size.

    Args:
        args, kwargs: what the function is called with, plain values.
        files: files and folders beside the notebook that travel along, so that it can import and read them.
        job: further fields of a job file, such as resources and pip; with working_dir, all of that folder travels.
        client: by default of the running cluster.

    Raises: FunctionError for a function or an argument that makes no script, and for files that are not there; as
        `Client.submit` does.
    """
    _check_own_names(function)
    text = script_of(function, args, kwargs)
    with tempfile.TemporaryDirectory(prefix="coadapt-submit-") as made:
        folder, further = Path(made), dict(job or {})
        gather(folder, files, further.pop("working_dir", None))
        for path in left_behind(text, folder):
            _warn(f"{function.__name__} imports {path}, which does not travel; files=[{path!r}] sends it")
        name = function.__name__.strip("_") or "function"
        script = folder / free_name(folder, name)
        script.write_text(text)
        fields: dict[str, Any] = {"name": name, **further}
        fields |= {"script": script.name, "working_dir": made}
        if "sizes" not in fields and not prepares(script):
            fields.setdefault("elastic", False)
        spec = jobfile.from_mapping(fields, "submit")
        try:
            return (client or connect()).submit(spec, tell=_warn)
        except PackageError as error:
            raise FunctionError(str(error).replace(f"working_dir: {made} has", "files: they have")) from None


def _check_own_names(function: Callable[..., Any]) -> None:
    """Refuse a function with an argument that `submit` would take itself."""
    own = {"files", "job", "client"}
    taken = own & set(inspect.signature(function).parameters) if inspect.isfunction(function) else set()
    for name in sorted(taken):
        raise FunctionError(f"submit: {function.__name__} has an argument {name}, as submit itself; rename it")


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def script_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return a script that calls a function. Raises: FunctionError."""
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        raise FunctionError(f"submit: {_called(function)} is no function with a name, defined by def")
    if function.__code__.co_freevars:
        names = ", ".join(function.__code__.co_freevars)
        raise FunctionError(f"submit: {function.__name__} uses {names} of the function around it; pass it instead")
    given = [(f"argument {at + 1}", value) for at, value in enumerate(args)] + list(kwargs.items())
    for name, value in given:
        if not _is_plain(value):
            raise FunctionError(
                f"submit: {name} is {_called(value)}; a function is called with numbers, text, None, and lists, "
                "tuples and dictionaries of them"
            )
    parts: dict[str, str] = {}
    source = _source(function)
    _collect(source, function.__globals__, parts, {function.__name__}, function.__name__)
    shown = [repr(value) for value in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
    lines = [
        f'"""{function.__name__} as `coadapt.submit` found it."""',
        "",
        "from __future__ import annotations",
        "",
        *parts.values(),
        "",
        source,
        "",
        'if __name__ == "__main__":',
        f"    {function.__name__}({', '.join(shown)})",
    ]
    return "\n".join(lines) + "\n"


def _collect(source: str, known: Mapping[str, Any], parts: dict[str, str], seen: set[str], of: str) -> None:
    """Add what a piece of source uses of the names around it, each before what uses it."""
    for name in sorted(free_names(source) - seen):
        if name not in known:
            if hasattr(builtins, name):
                continue
            raise FunctionError(f"submit: {of} uses {name}, which is not defined here")
        seen.add(name)
        value = known[name]
        home = getattr(value, "__module__", None)
        if isinstance(value, ModuleType):
            parts[name] = f"import {value.__name__} as {name}"
        elif inspect.isfunction(value) or inspect.isclass(value):
            if home == "__main__" or home == known.get("__name__"):
                text = _source(value)
                _collect(text, known, parts, seen, name)
                parts[name] = f"\n\n{text}"
            else:
                parts[name] = f"from {home} import {value.__name__} as {name}"
        elif _is_plain(value):
            parts[name] = f"{name} = {value!r}"
        elif getattr(sys.modules.get(str(home)), name, None) is value:
            parts[name] = f"from {home} import {name}"
        else:
            raise FunctionError(
                f"submit: {of} uses {name}, which is {_called(value)}; make it inside the function"
            )


def free_names(source: str) -> set[str]:
    """Return the names that a piece of source uses and does not define."""

    def tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
        yield table
        for child in table.get_children():
            yield from tables(child)

    top = symtable.symtable(source, "function", "exec")
    own = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    used = {
        symbol.get_name()
        for table in tables(top)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (table is top or symbol.is_global())
    }
    return used - own


def _source(value: Any) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(value)).rstrip()
        ast.parse(text)
    except (OSError, TypeError, SyntaxError):
        raise FunctionError(f"submit: the source of {_called(value)} cannot be found") from None
    return text


def _is_plain(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


def _called(value: Any) -> str:
    name = getattr(value, "__name__", None)
    return str(name) if name is not None else f"a {type(value).__name__}"
