"""The repository's own promises: packages are complete and imports point downwards."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
NOT_SHIPPED = {"tests", "benchmarks", "examples", "docs", "build"}

# What a room may import, besides itself.
ALLOWED = {
    "optimizer": set[str](),
    "estimators": set[str](),
    "executor": {"estimators"},
    "scheduler": {"executor", "estimators", "optimizer"},
    "simulator": {"scheduler", "executor", "estimators", "optimizer"},
    "cli": {"simulator", "scheduler", "executor", "estimators"},
}
# The pure part of the scheduler: plain data and decisions, no Ray and no training runtime.
PURE_SCHEDULER = ["job", "cluster", "round", "configuration", "placement"]


def sources() -> list[Path]:
    return [
        path
        for path in ROOT.rglob("*.py")
        if not {part for part in path.relative_to(ROOT).parts if part.startswith(".")}
        and path.relative_to(ROOT).parts[0] not in NOT_SHIPPED
    ]


def imports(path: Path) -> list[str]:
    """Absolute dotted names of what a file imports, relative ones resolved below `coadapt`."""
    package = ["coadapt", *path.relative_to(ROOT).parent.parts]
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = [*base, *([node.module] if node.module else [])]
            names += [".".join([*stem, alias.name]) for alias in node.names]
    return names


def test_every_package_folder_is_listed() -> None:
    folders = {
        ".".join(["coadapt", *path.parent.relative_to(ROOT).parts])
        for path in sources()
        if path.name == "__init__.py"
    }
    assert folders == set(PACKAGES)


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_are_relative_and_point_downwards(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    absolute = [
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
    ]
    assert not [name for name in absolute if name and name.split(".")[0] == "coadapt"]
    if room not in ALLOWED:
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "coadapt" and len(parts) > 1:
            assert parts[1] == room or parts[1] in ALLOWED[room], f"{path}: {name}"


@pytest.mark.parametrize("module", PURE_SCHEDULER)
def test_the_scheduling_domain_knows_no_ray(module: str) -> None:
    path = ROOT / "scheduler" / f"{module}.py"
    heavy = {"ray", "torch", "sqlite3"}
    assert not {name.split(".")[0] for name in imports(path)} & heavy


def test_policies_know_no_ray() -> None:
    for path in (ROOT / "scheduler" / "policies").glob("*.py"):
        assert not {name.split(".")[0] for name in imports(path)} & {"ray", "torch", "sqlite3", "time"}, path
