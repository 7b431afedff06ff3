"""The layout of the code: which files there are, what each imports, and which room may import which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_SHIPPED = {"tests", "benchmarks", "examples", "docs", "build"}

# What the code of a folder may import, besides itself. A folder that is not named follows the one above it.
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "estimators": {"core"},
    "optimizer": set(),
    "optimizer/allocation": {"optimizer"},
    "optimizer/copter": {"optimizer", "optimizer/allocation"},
    "optimizer/leases": {"optimizer"},
    "policies": {"core", "estimators", "optimizer"},
    "executor/protocol": {"core"},
    "executor/training": {"core", "estimators", "executor/protocol"},
    "executor/sandbox": {"core"},
    "executor/files": {"core", "executor/sandbox"},
    "executor/processes": {"estimators", "executor/protocol", "executor/sandbox", "executor/training"},
    "executor/rehearsal": {"core", "executor/protocol", "executor/training"},
    "executor/reconciling": {"core", "estimators", "executor/protocol"},
    "executor/programs": {"core", "executor/protocol", "executor/processes", "executor/sandbox"},
    "executor/commands": {"core", "executor/protocol", "executor/reconciling"},
    "executor/usage": {"core", "executor/protocol"},
    "executor": {
        "core",
        "estimators",
        "executor/protocol",
        "executor/files",
        "executor/processes",
        "executor/reconciling",
        "executor/programs",
        "executor/commands",
        "executor/sandbox",
        "executor/usage",
    },
    "integrations": {"core", "client", "executor/training"},
    "scheduler/jobs": {"core", "estimators"},
    "scheduler/store": {"core", "estimators", "scheduler/jobs"},
    "scheduler/services": {"core", "estimators", "policies"},
    "scheduler/sharing": {"core", "policies"},
    "scheduler/power": {"core", "scheduler/services"},
    "scheduler/scaling": {"core", "policies"},
    "scheduler/runtime": {"core", "policies", "scheduler/store"},
    "scheduler/files": {"core", "executor/files", "executor/sandbox"},
    "scheduler/access": {
        "core",
        "executor/files",
        "executor/sandbox",
        "scheduler/jobs",
        "scheduler/runtime",
        "scheduler/store",
    },
    "scheduler/nodes": {
        "core",
        "executor",
        "policies",
        "scheduler/power",
        "scheduler/runtime",
        "scheduler/scaling",
        "scheduler/services",
        "scheduler/store",
    },
    "scheduler/changes": {
        "core",
        "estimators",
        "executor/protocol",
        "executor/reconciling",
        "scheduler/access",
        "scheduler/files",
        "scheduler/jobs",
        "scheduler/nodes",
        "scheduler/store",
    },
    "scheduler/executors": {
        "core",
        "estimators",
        "executor",
        "scheduler/access",
        "scheduler/files",
        "scheduler/jobs",
        "scheduler/nodes",
        "scheduler/runtime",
    },
    "scheduler/rounds": {
        "core",
        "estimators",
        "policies",
        "scheduler/changes",
        "scheduler/executors",
        "scheduler/jobs",
        "scheduler/nodes",
        "scheduler/runtime",
        "scheduler/sharing",
        "scheduler/store",
    },
    "scheduler/observers": {
        "core",
        "estimators",
        "policies",
        "executor/files",
        "executor/protocol",
        "scheduler/access",
        "scheduler/changes",
        "scheduler/jobs",
        "scheduler/nodes",
        "scheduler/runtime",
        "scheduler/services",
        "scheduler/store",
    },
    "scheduler/care": {
        "core",
        "executor/files",
        "executor/sandbox",
        "scheduler/files",
        "scheduler/jobs",
        "scheduler/runtime",
        "scheduler/store",
    },
    "scheduler/delivery": {"core", "scheduler/access", "scheduler/jobs", "scheduler/runtime", "scheduler/store"},
    "scheduler/views": {
        "core",
        "estimators",
        "policies",
        "scheduler/care",
        "scheduler/changes",
        "scheduler/jobs",
        "scheduler/nodes",
        "scheduler/observers",
        "scheduler/runtime",
        "scheduler/scaling",
        "scheduler/store",
    },
    "scheduler/forecasts": {
        "core",
        "estimators",
        "forecasts",
        "policies",
        "scheduler/executors",
        "scheduler/jobs",
        "scheduler/observers",
        "scheduler/runtime",
        "scheduler/store",
    },
    "scheduler": {
        "core",
        "estimators",
        "policies",
        "executor",
        "scheduler/changes",
        "scheduler/executors",
        "scheduler/jobs",
        "scheduler/nodes",
        "scheduler/observers",
        "scheduler/rounds",
        "scheduler/runtime",
        "scheduler/services",
        "scheduler/store",
    },
    "scheduler/desks": {"core", "estimators", "policies", "executor/files", "forecasts", "scheduler"},
    "scheduler/service": {"core", "estimators", "policies", "executor/protocol", "scheduler", "scheduler/desks"},
    "forecasts": {"core", "estimators"},
    "simulator": {
        "core",
        "estimators",
        "forecasts",
        "optimizer",
        "policies",
        "scheduler/scaling",
        "scheduler/services",
        "scheduler/sharing",
        "tuning",
    },
    "tuning": {"core"},
    "tuning/live": {"core", "client", "tuning"},
    "dashboard": {"core"},
    "api": {"core", "client", "dashboard", "tuning"},
    "client": {"core"},
    "deploy": {"core", "api", "client", "policies", "scheduler", "executor"},
    "cli": {
        "core",
        "tuning",
        "client",
        "deploy",
        "estimators",
        "policies",
        "simulator",
        "executor",
        "scheduler/services",
    },
}
# Rooms that stand apart, and the only modules of other rooms that may import them: for comparison.
APART: dict[str, set[str]] = {
    "optimizer/copter": {
        "policies/choosing/solvers.py",
        "policies/warm_up.py",
        "simulator/compat/sia_artifact.py",
    }
}
# Libraries that a room may not import, so that its importers do not wait for them.
WITHOUT: dict[str, set[str]] = {
    "core": {"ray", "torch", "numba", "sqlite3"},
    "estimators": {"ray", "torch", "sqlite3"},
    "optimizer/allocation": {"ray", "torch", "sqlite3"},
    "policies": {"ray", "torch", "sqlite3", "time"},
    "executor/protocol": {"ray", "torch", "numba", "sqlite3"},
    "executor/training": {"ray", "sqlite3"},
    "executor/files": {"ray", "torch", "numba", "sqlite3"},
    "executor/sandbox": {"ray", "torch", "numba", "sqlite3"},
    "executor/usage": {"ray", "torch", "numba", "sqlite3"},
    "executor/reconciling": {"ray", "torch", "sqlite3", "threading", "time"},
    "executor/programs": {"ray", "torch", "numba", "sqlite3"},
    "executor/commands": {"ray", "torch", "sqlite3", "threading", "time"},
    "integrations": {"ray", "sqlite3"},
    "client": {"torch", "numba", "sqlite3"},
}
# `warm_up` measures how long compiling takes, which is no part of a round.
# What runs in a function of Ray Train answers to Ray's own names; the script imports Ray itself.
EXCEPT = {"policies/warm_up.py": {"time"}, "integrations/ray_train.py": {"ray"}}


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
    """Yield the modules of coadapt that a file imports, as dotted names below the root."""
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


@cache
def names_in(module: str) -> frozenset[str]:
    """Return the names that a module defines or imports at its top, and the modules of a folder."""
    folder = ROOT / module.replace(".", "/")
    found = {path.stem for path in folder.glob("*")} if folder.is_dir() else set[str]()
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    nodes = ast.walk(tree(path.relative_to(ROOT))) if path.exists() else ()
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {one.asname or one.name for one in node.names}
    return frozenset(found)


def libraries(path: Path) -> set[str]:
    """Return the top-level names of a file's absolute imports."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.split(".")[0])
    return found


def room_of(folder: str) -> str:
    """Return the nearest folder upwards that `ROOMS` has."""
    while folder not in ROOMS:
        folder, _, _ = folder.rpartition("/")
    return folder


def folder_of(module: str) -> str:
    return "/".join(module.split(".")[:-1])


def allowed(room: str, other: str) -> bool:
    """Return whether a room may import another: itself, a room that `ROOMS` names, or a folder of such a room."""
    return other == room or other in ROOMS[room] or any(other.startswith(f"{one}/") for one in ROOMS[room])


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected parts of more than one node."""
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


def upward_imports() -> list[str]:
    """Return a line for each import of a room by one that may not import it."""
    found = []
    for path in sources():
        if path.parent == Path():
            continue
        room = room_of(path.parent.as_posix())
        for name in own_imports(path):
            other = room_of(folder_of(name))
            if not allowed(room, other):
                found.append(f"{path}: {name} is of {other}, which {room} may not import")
    return found


def unused_permissions() -> list[tuple[str, str]]:
    """Return (room, other) where `ROOMS` allows an import that no module of the room needs."""
    needed: dict[str, set[str]] = {room: set() for room in ROOMS}
    for path in sources():
        if path.parent != Path():
            needed[room_of(path.parent.as_posix())] |= {room_of(folder_of(name)) for name in own_imports(path)}
    return [
        (room, other)
        for room, others in ROOMS.items()
        for other in sorted(others)
        if not any(one == other or one.startswith(f"{other}/") for one in needed[room])
    ]


def imports_of_rooms_apart() -> list[str]:
    """Return a line for each import of a room that stands apart, by a module that may not."""
    return [
        f"{path}: {name} is of {other}, which only {sorted(APART[other])} may import"
        for path in sources()
        for name in own_imports(path)
        for other in APART
        if folder_of(name).startswith(other) and not path.is_relative_to(other) and str(path) not in APART[other]
    ]


def folder_circles() -> list[set[str]]:
    graph: dict[str, set[str]] = {}
    for path in sources():
        if path.parent != Path():
            here = path.parent.as_posix()
            graph.setdefault(here, set()).update({folder_of(name) for name in own_imports(path)} - {here})
    return circles(graph)


def module_circles() -> list[set[str]]:
    return circles({".".join(path.with_suffix("").parts): set(own_imports(path)) for path in sources()})
