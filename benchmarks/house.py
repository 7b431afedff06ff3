"""Counts of the code itself: how large its parts are, and how readable its pages.

    python -m benchmarks.house [--without-compiling]

`compile_cpu_s` is the CPU time that compiling the kernels of the default policy's rounds takes, once per install.
It is what a process with an empty cache needs more than one that finds everything compiled.
"""

from __future__ import annotations

import argparse
import ast
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.layout import ROOT, folder_circles, module_circles, sources, tree, upward_imports
from tests.support.prose import longest_line, mean_words, sentences

from .harness import finish, table
from .prose import pages

ALLOCATION = Path("optimizer/allocation")
KERNELS = {"kernel", "step", "njit", "jit"}  # decorators that make a compiled function
WARM_UP = "from coadapt.policies.warm_up import warm_up; warm_up('{policy}', {{}})"
LONGEST_SHOWN = 5


def lines_of(folder: Path) -> int:
    return sum(len((ROOT / path).read_text().splitlines()) for path in sources() if path.is_relative_to(folder))


def kernels_of(folder: Path) -> int:
    """Count the functions of a folder that are compiled."""
    return sum(
        any(decorator_name(one) in KERNELS for one in node.decorator_list)
        for path in sources()
        if path.is_relative_to(folder)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef)
    )


def decorator_name(node: ast.expr) -> str:
    target = node.func if isinstance(node, ast.Call) else node
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""


def classes() -> list[tuple[int, str]]:
    """Return (lines, file and name) of every class, the longest first."""
    found = [
        (node.end_lineno - node.lineno + 1, f"{path}: {node.name}")
        for path in sources()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and node.end_lineno is not None
    ]
    return sorted(found, reverse=True)


def modules_without_a_test() -> list[str]:
    """Return modules that no test file names by `import`, where there is none of their own name either."""
    named, imported = set[str](), set[str]()
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks" / "tests").rglob("*.py")]:
        named.add(path.stem.removeprefix("test_"))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("coadapt"):
                imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return [
        str(path)
        for path in sources()
        if path.name != "__init__.py"
        and path.stem not in named
        and ".".join(["coadapt", *path.with_suffix("").parts]) not in imported
    ]


def compile_cpu_s(policy: str) -> float:
    """Return CPU seconds that a first start needs more than a second one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        spent = [_cpu_s([sys.executable, "-c", WARM_UP.format(policy=policy)], environment) for _ in range(2)]
    return spent[0] - spent[1]


def _cpu_s(command: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-compiling", action="store_true", help="leave compile_cpu_s out")
    parser.add_argument("--policy", default="coadapt", help="whose kernels are compiled (default: %(default)s)")
    args = parser.parse_args()
    largest, untested = classes(), modules_without_a_test()
    circles = [*module_circles(), *folder_circles()]
    upward = upward_imports()
    texts = [path.read_text() for path in pages()]
    figures: dict[str, float | int | str | None] = {
        "allocation_lines": lines_of(ALLOCATION),
        "kernels": kernels_of(ALLOCATION),
        "compile_cpu_s": None if args.without_compiling else round(compile_cpu_s(args.policy), 1),
        "circles": len(circles),
        "upward_imports": len(upward),
        "longest_class_lines": largest[0][0],
        "docs_mean_sentence_words": round(mean_words([one for text in texts for one in sentences(text)]), 1),
        "docs_longest_line": max(longest_line(text) for text in texts),
        "modules_without_a_test": len(untested),
    }
    table(
        "The house",
        ["figure", "value"],
        [[name, "-" if value is None else value] for name, value in figures.items()],
    )
    table("The longest classes", ["class", "lines"], [[name, lines] for lines, name in largest[:LONGEST_SHOWN]])
    for title, rows in (("Circles", circles), ("Upward imports", upward), ("Modules without a test", untested)):
        if rows:
            table(title, [title], [[", ".join(sorted(row)) if isinstance(row, set) else row] for row in rows])
    finish("house", figures)


if __name__ == "__main__":
    main()
