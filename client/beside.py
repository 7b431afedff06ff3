"""What travels with a function of a notebook: the files and folders that are named, and which it imports.

A folder of links stands for them. Packing follows links, so nothing is copied twice.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..core.errors import FunctionError


def gather(folder: Path, files: Sequence[str | Path], whole: str | Path | None) -> None:
    """Put links to what shall travel into an empty folder.

    What lies below the current folder keeps its place in it; anything else comes to the top.

    Args:
        whole: a folder, all of which travels.

    Raises: FunctionError for what is not there, and for two things in one place.
    """
    if isinstance(files, str | Path):
        raise FunctionError(f"files: {str(files)!r} is one path; give a list, as [{str(files)!r}]")
    if whole is not None:
        root = Path(whole).expanduser().resolve()
        if not root.is_dir():
            raise FunctionError(f"working_dir: {whole} is not a folder")
        for path in sorted(root.iterdir()):
            (folder / path.name).symlink_to(path)
    here = Path.cwd().resolve()
    for given in sorted(files, key=lambda one: len(Path(one).parts)):  # a folder before what is in it
        path = Path(os.path.abspath(Path(given).expanduser()))
        if not path.exists():
            raise FunctionError(f"files: {given} does not exist in {here}")
        if path == here or path in here.parents:
            raise FunctionError(f"files: {given} is the current folder or around it; give working_dir, in job")
        _link(path, folder, path.relative_to(here) if path.is_relative_to(here) else Path(path.name), given)


def _link(path: Path, folder: Path, place: Path, given: str | Path) -> None:
    target = folder / place
    if target.exists():
        if target.samefile(path):
            return
        raise FunctionError(f"files: {given} and another one would both be {place} beside the function")
    for parent in reversed(target.relative_to(folder).parents[:-1]):
        if (folder / parent).is_symlink():
            raise FunctionError(f"files: {given} lies in {parent}, which is given as another folder")
        (folder / parent).mkdir(exist_ok=True)
    target.symlink_to(path)


def free_name(folder: Path, name: str) -> str:
    """Return a name for the script that no file beside it has, and no module that it may import."""
    names = (f"{name}.py", *(f"{name}_job{number or ''}.py" for number in range(1000)))
    taken = {path.name for path in folder.iterdir()}
    return next(one for one in names if one not in taken and one.removesuffix(".py") not in taken)


def left_behind(script: str, folder: Path) -> list[str]:
    """Return files and folders of the current folder that a script imports as modules and that do not travel."""
    modules = [(f"{name}.py", f"{name}.py") for name in imported(script)]
    packages = [(name, f"{name}/__init__.py") for name in imported(script)]
    return sorted(
        place for place, file in (*modules, *packages) if Path(file).is_file() and not (folder / place).exists()
    )


def imported(script: str) -> set[str]:
    """Return the top names of all modules that a script imports, also within functions."""
    nodes: Iterable[ast.AST] = ast.walk(ast.parse(script))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
