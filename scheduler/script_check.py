"""What can be seen of a training script before it is run: whether it calls `coadapt.prepare` at all.

Only the script and the modules of its working directory that it imports are read, never run. What cannot be seen,
as modules that are imported by a name made up while it runs, is no complaint.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .job import JobSpec

MOST_FILES = 200
MOST_BYTES = 4 * 2**20  # of all files together
# Modules and functions by which a script runs code that its imports do not show.
_HIDDEN = frozenset({"importlib", "runpy", "pkgutil", "hydra", "__import__", "exec", "eval"})


def unprepared(spec: JobSpec) -> str | None:
    """One sentence where the script of a located job never calls `coadapt.prepare`; None where it may."""
    if "PYTHONPATH" in spec.env:
        return None
    folder = Path(spec.working_dir)
    script = folder / spec.script
    found = _look(script, [script.parent, folder])
    if found is None or found.prepares or found.hidden:
        return None
    if not found.coadapt:
        modules = f"{spec.script} and the modules of {folder} that it imports never import coadapt"
        what = modules if found.files > 1 else f"{spec.script} never imports coadapt"
    else:
        what = f"{spec.script} imports coadapt and never calls coadapt.prepare"
    return f"script: {what}; give its model, optimizer and loader to coadapt.prepare"


@dataclass
class _Seen:
    coadapt: bool = False  # imported somewhere
    prepares: bool = False
    hidden: bool = False  # runs code that cannot be seen
    files: int = 0
    imports: list[tuple[str, int]] = field(default_factory=list)  # dotted name, level


def _look(script: Path, roots: list[Path]) -> _Seen | None:
    """What script and local modules have in common; None where there is more than is read."""
    seen, size = _Seen(), 0
    waiting, known = [script], {script.resolve()}
    while waiting:
        path = waiting.pop()
        try:
            text = path.read_bytes()
        except OSError:
            continue
        size += len(text)
        seen.files += 1
        if seen.files > MOST_FILES or size > MOST_BYTES:
            return None
        one = _read(text)
        seen.coadapt |= one.coadapt
        seen.prepares |= one.prepares
        seen.hidden |= one.hidden
        for name, level in one.imports:
            for module in _local(name, level, path, roots):
                if module.resolve() not in known:
                    known.add(module.resolve())
                    waiting.append(module)
    return seen


def _read(text: bytes) -> _Seen:
    """One file by itself. One that does not parse says nothing: it may never be imported."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Seen(hidden=True)
    seen = _Seen()
    modules = set[str]()  # names under which coadapt goes here
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                seen.imports.append((alias.name, 0))
                if alias.name.partition(".")[0] == "coadapt":
                    seen.coadapt = True
                    modules.add(alias.asname or "coadapt")
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            seen.imports += [(f"{base}.{alias.name}".strip("."), node.level) for alias in node.names]
            if not node.level and base.partition(".")[0] == "coadapt":
                seen.coadapt = True
                seen.prepares |= any(alias.name in ("prepare", "*") for alias in node.names)
    seen.hidden = any(name.partition(".")[0] in _HIDDEN for name, level in seen.imports if not level)
    bases = set[int]()  # where a name of coadapt stands before a dot
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            base_name = getattr(node.value, "id", getattr(node.value, "attr", None))
            if base_name in modules or base_name == "coadapt":
                bases.add(id(node.value))
                seen.prepares |= node.attr == "prepare"
            seen.hidden |= base_name == "sys" and node.attr == "path"
        elif isinstance(node, ast.Name):
            seen.hidden |= node.id in _HIDDEN or (node.id in modules and id(node) not in bases)
    return seen


def _local(name: str, level: int, importer: Path, roots: list[Path]) -> Iterator[Path]:
    """Files that `import name` may run, below the folders where the script finds modules."""
    parts = name.split(".") if name else []
    if level:
        above = importer.parents[min(level, len(importer.parents)) - 1]
        folders = [above]
    else:
        folders = roots
    for folder in folders:
        for count in range(len(parts) + 1):
            place = folder.joinpath(*parts[:count])
            for path in (place.with_suffix(".py") if count else None, place / "__init__.py"):
                if path is not None and (count or level) and path.is_file():
                    yield path
