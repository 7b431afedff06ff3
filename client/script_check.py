"""What can be seen of a training script before it is run: whether it calls `coadapt.prepare`, and what it reports.

Only the script and the modules of its working directory that it imports are read, never run. What cannot be seen,
as modules that are imported by a name made up while it runs, is no complaint.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..core.doors import Door
from ..core.job import JobSpec

MOST_FILES = 200
MOST_BYTES = 4 * 2**20  # of all files together
_OR_AS_IT_IS = "or say elastic: false to run it as it is"
# What a user may do with a script that is to stay as it is.
OTHER_DOORS = (
    "it runs unchanged at a fixed size by `elastic: false` in a job file, or by `coadapt run -- python {script}`",
    "if it saves on SIGTERM and goes on from there, `sizes: [1, 2, 4]` changes its size, too",
    "docs/guide/doors.md tells which of these doors is yours",
)
# Modules and functions by which a script runs code that its imports do not show.
_HIDDEN = frozenset({"importlib", "runpy", "pkgutil", "hydra", "__import__", "exec", "eval"})


def mistaken(spec: JobSpec) -> str | None:
    """Return one sentence on what seems amiss with the script of a located job; None: nothing."""
    if spec.door is not Door.NATIVE or "PYTHONPATH" in spec.env:
        return None
    folder = Path(spec.working_dir)
    script = folder / spec.script
    found = _look(script, [script.parent, folder])
    if found is None or found.hidden:
        return None
    return _unreported(spec, found) if found.prepares else _unprepared(spec, found, folder)


def prepares(script: Path) -> bool:
    """Return whether a script, or a module that it imports from its folder, is seen to call coadapt.prepare."""
    found = _look(script, [script.parent])
    return found is not None and found.prepares


def _unreported(spec: JobSpec, found: _Seen) -> str | None:
    """Say so where the target is no metric that the script reports."""
    target = spec.training.target
    if target is None or found.reports_others or target.metric in found.reported:
        return None
    reports = f"reports {', '.join(sorted(found.reported))}" if found.reported else "never calls coadapt.report"
    return f"training.target: {spec.script} {reports}, and {target.metric} is needed"


def _unprepared(spec: JobSpec, found: _Seen, folder: Path) -> str:
    if not found.coadapt:
        modules = f"{spec.script} and the modules of {folder} that it imports never import coadapt"
        what = modules if found.files > 1 else f"{spec.script} never imports coadapt"
    else:
        what = f"{spec.script} imports coadapt and never calls coadapt.prepare"
    return f"script: {what}; give its model, optimizer and loader to coadapt.prepare, {_OR_AS_IT_IS}"


def other_doors(problem: str, script: str) -> tuple[str, ...]:
    """Return what else may be done where a script does not call coadapt.prepare; nothing for other problems."""
    unprepared = (
        "to coadapt.prepare, or say elastic: false" in problem or "never called coadapt.prepare" in problem
    )
    return tuple(line.format(script=script) for line in OTHER_DOORS) if unprepared else ()


def unprepared(script: Path) -> bool:
    """Return whether all that a script runs can be seen, and nothing of it calls coadapt.prepare."""
    found = _look(script, [script.parent])
    return found is not None and not found.hidden and not found.prepares


@dataclass
class _Seen:
    coadapt: bool = False  # imported somewhere
    prepares: bool = False
    hidden: bool = False  # runs code that cannot be seen
    reported: set[str] = field(default_factory=set)  # names of metrics
    reports_others: bool = False  # metrics whose names cannot be seen
    files: int = 0
    imports: list[tuple[str, int]] = field(default_factory=list)  # dotted name, level


def _look(script: Path, roots: list[Path]) -> _Seen | None:
    """Return what script and local modules have in common; None where there is more than is read."""
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
        seen.reported |= one.reported
        seen.reports_others |= one.reports_others
        seen.hidden |= one.hidden
        for name, level in one.imports:
            for module in _local(name, level, path, roots):
                if module.resolve() not in known:
                    known.add(module.resolve())
                    waiting.append(module)
    return seen


def _read(text: bytes) -> _Seen:
    """Read one file by itself. One that does not parse says nothing: it may never be imported."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Seen(hidden=True)
    seen = _Seen()
    modules = set[str]()  # names under which coadapt goes here
    reporters = set[str]()  # and its `report`
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                seen.imports.append((alias.name, 0))
                if alias.name.partition(".")[0] == "coadapt":
                    seen.coadapt = True
                    _note_integration(alias.name, seen)
                    modules.add(alias.asname or "coadapt")
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            seen.imports += [(f"{base}.{alias.name}".strip("."), node.level) for alias in node.names]
            if not node.level and base.partition(".")[0] == "coadapt":
                seen.coadapt = True
                _note_integration(base, seen)
                seen.prepares |= any(alias.name in ("prepare", "*") for alias in node.names)
                reporters |= {alias.asname or "report" for alias in node.names if alias.name in ("report", "*")}
    _note_reports(tree, modules | {"coadapt"}, reporters, seen)
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


def _note_integration(module: str, seen: _Seen) -> None:
    """Note that an integration prepares what the script trains, and reports what its framework logs."""
    if f"{module}.".startswith("coadapt.integrations."):
        seen.prepares = seen.reports_others = True


def _note_reports(tree: ast.AST, modules: set[str], reporters: set[str], seen: _Seen) -> None:
    """Note the names of metrics in calls of `report`; another use of it may report whatever."""

    def reports(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr == "report" and getattr(node.value, "id", None) in modules
        return isinstance(node, ast.Name) and node.id in reporters

    called = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and reports(node.func):
            called.add(id(node.func))
            seen.reported |= {keyword.arg for keyword in node.keywords if keyword.arg} - {"combine"}
            seen.reports_others |= any(keyword.arg is None for keyword in node.keywords)
    seen.reports_others |= any(reports(node) and id(node) not in called for node in ast.walk(tree))


def _local(name: str, level: int, importer: Path, roots: list[Path]) -> Iterator[Path]:
    """Yield files that `import name` may run, below the folders where the script finds modules."""
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
