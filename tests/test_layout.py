"""Promises of the repository: rooms are complete, import only what they may, and form no circle."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from tests.support.layout import (
    EXCEPT,
    ROOT,
    WITHOUT,
    circles,
    folder_circles,
    imports_of_rooms_apart,
    libraries,
    module_circles,
    names_in,
    room_of,
    sources,
    unused_permissions,
    upward_imports,
)

PACKAGES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]


def test_every_package_folder_is_listed() -> None:
    folders = {".".join(["coadapt", *path.parent.parts]) for path in sources() if path.name == "__init__.py"}
    assert folders == set(PACKAGES)


def test_every_folder_with_code_is_a_package_of_a_room() -> None:
    for path in sources():
        assert (ROOT / path.parent / "__init__.py").exists(), path
        assert path.parent == Path() or room_of(path.parent.as_posix())


@pytest.mark.parametrize("path", [path for path in sources() if path.parent != Path()], ids=str)
def test_imports_of_ours_are_relative(path: Path) -> None:
    assert "coadapt" not in libraries(path)


def test_imports_point_downwards() -> None:
    assert not upward_imports()


def test_the_table_allows_no_import_that_nobody_needs() -> None:
    assert not unused_permissions()


def test_only_what_compares_imports_the_continual_engine() -> None:
    assert not imports_of_rooms_apart()


@pytest.mark.parametrize("room", WITHOUT)
def test_a_room_does_without(room: str) -> None:
    for path in sources():
        if path.is_relative_to(room):
            heavy = libraries(path) & WITHOUT[room] - EXCEPT.get(path.as_posix(), set())
            assert not heavy, f"{path} imports {heavy}"


def test_no_folders_import_each_other_in_a_circle() -> None:
    assert not folder_circles()


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert not module_circles()


def test_a_circle_would_be_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}]
    assert circles({"a": {"b", "c"}, "b": {"c"}}) == []


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


def test_what_benchmarks_and_examples_import_of_the_package_is_there() -> None:
    """No checker of types looks at them, and most run for minutes."""
    missing = []
    for folder in ("benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("coadapt."):
                    names = names_in(str(node.module).removeprefix("coadapt."))
                    missing += [f"{path}: {node.module}.{one.name}" for one in node.names if one.name not in names]
    assert not missing
