"""Promises of the repository: rooms are complete, import only what they may, and form no circle."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
NOT_SHIPPED = {"tests", "benchmarks", "examples", "docs", "build"}

# What the code of a folder may import, besides itself. A folder that is not named follows the one above it.
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "estimators": {"core"},
    "optimizer": set(),
    "optimizer/allocation": {"optimizer"},
    "optimizer/copter": {"optimizer", "optimizer/allocation"},
    "policies": {"core", "estimators", "optimizer"},
    "executor/protocol": {"core"},
    "executor/training": {"core", "estimators", "executor/protocol"},
    "executor/files": {"core"},
    "executor/processes": {"core", "executor/protocol", "executor/training"},
    "executor/rehearsal": {"core", "executor/protocol", "executor/training", "executor/processes"},
    "executor": {"core", "estimators", "executor/protocol", "executor/files", "executor/processes"},
    "scheduler": {"core", "estimators", "optimizer", "policies", "executor"},
    "simulator": {"core", "estimators", "optimizer", "policies"},
    "client": {"core"},
    "deploy": {"core", "client", "policies", "scheduler", "executor"},
    "cli": {"core", "client", "deploy", "policies", "scheduler", "simulator", "executor"},
}
# Libraries that a room does without, so that whoever imports it does not wait for them.
WITHOUT: dict[str, set[str]] = {
    "core": {"ray", "torch", "numba", "sqlite3"},
    "estimators": {"ray", "torch", "sqlite3"},
    "optimizer/allocation": {"ray", "torch", "sqlite3"},
    "policies": {"ray", "torch", "sqlite3", "time"},
    "executor/protocol": {"ray", "torch", "numba", "sqlite3"},
    "executor/training": {"ray", "sqlite3"},
    "executor/files": {"ray", "torch", "numba", "sqlite3"},
    "client": {"torch", "numba", "sqlite3"},
}
# A policy's kernels are compiled before its first round; the time that takes is told apart from a round's.
EXCEPT = {"policies/warm_up.py": {"time"}}


@cache
def sources() -> tuple[Path, ...]:
    return tuple(
        sorted(
            path.relative_to(ROOT)
            for path in ROOT.rglob("*.py")
            if not {part for part in path.relative_to(ROOT).parts if part.startswith(".")}
            and path.relative_to(ROOT).parts[0] not in NOT_SHIPPED
        )
    )


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


@cache
def modules() -> frozenset[str]:
    return frozenset(".".join(path.with_suffix("").parts) for path in sources())


def own_imports(path: Path) -> Iterator[str]:
    """Modules of ours that a file imports, as dotted names below the root."""
    package = path.parent.parts
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = [*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else [])]
        for alias in node.names:
            for name in (".".join([*base, alias.name]), ".".join(base), ".".join([*base, "__init__"])):
                if name in modules():
                    yield name
                    break


def libraries(path: Path) -> set[str]:
    """Top-level names of what a file imports absolutely."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.split(".")[0])
    return found


def room_of(folder: str) -> str:
    """The nearest folder upwards that `ROOMS` has."""
    while folder not in ROOMS:
        folder, _, _ = folder.rpartition("/")
    return folder


def folder_of(module: str) -> str:
    return "/".join(module.split(".")[:-1])


def allowed(room: str, other: str) -> bool:
    """Whether a room may import another: itself, what is named, and what lies within that."""
    return other == room or other in ROOMS[room] or any(other.startswith(f"{one}/") for one in ROOMS[room])


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected parts of more than one node."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen, ahead = set[str](), [start]
        while ahead:
            for other in graph.get(ahead.pop(), set()) - seen:
                seen.add(other)
                ahead.append(other)
        reach[start] = seen
    found = [
        {one for one in reach[start] if start in reach.get(one, ())} for start in reach if start in reach[start]
    ]
    return [part for at, part in enumerate(found) if part not in found[:at]]


def test_every_package_folder_is_listed() -> None:
    folders = {".".join(["coadapt", *path.parent.parts]) for path in sources() if path.name == "__init__.py"}
    assert folders == set(PACKAGES)


def test_every_folder_with_code_is_a_package_of_a_room() -> None:
    for path in sources():
        assert (ROOT / path.parent / "__init__.py").exists(), path
        assert path.parent == Path() or room_of(path.parent.as_posix())


@pytest.mark.parametrize("path", [path for path in sources() if path.parent != Path()], ids=str)
def test_imports_are_relative_and_point_downwards(path: Path) -> None:
    assert "coadapt" not in libraries(path)
    room = room_of(path.parent.as_posix())
    for name in own_imports(path):
        other = room_of(folder_of(name))
        assert allowed(room, other), f"{path}: {name} is of {other}, which {room} may not import"


@pytest.mark.parametrize("room", WITHOUT)
def test_a_room_does_without(room: str) -> None:
    for path in sources():
        if path.is_relative_to(room):
            heavy = libraries(path) & WITHOUT[room] - EXCEPT.get(path.as_posix(), set())
            assert not heavy, f"{path} imports {heavy}"


def test_no_folders_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for path in sources():
        here = path.parent.as_posix()
        if path.parent != Path():
            others = {folder_of(name) for name in own_imports(path)}
            graph.setdefault(here, set()).update(others - {here})
    assert not circles(graph)


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {".".join(path.with_suffix("").parts): set(own_imports(path)) for path in sources()}
    assert not circles(graph)


def test_no_test_outside_the_benchmarks_imports_them() -> None:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.relative_to(ROOT)
        names = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [f"{node.module}.{alias.name}" for alias in node.names]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
        }
        assert not {name for name in names if "benchmarks" in name.split(".")[:2]}, text
