"""What the optimizer runs is what its files say, whichever of them changed since it was last compiled."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import coadapt.optimizer.compiled as compiled
import pytest

Run = Callable[[int], tuple[int, int, int]]
STEPS = "from coadapt_copy.compiled import step\n\n@step\ndef grown(x):\n    return x + {more}\n"
KERNEL = """
from coadapt_copy.compiled import kernel
from .steps import grown

@kernel
def twice(x):
    return 2 * grown(x)
"""
CALL = """
from coadapt_copy.choice.kernels import twice
print(twice(1), sum(twice.stats.cache_hits.values()), sum(twice.stats.cache_misses.values()))
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what calls a kernel in a new process: (result, times read from disk, times compiled)."""
    package = tmp_path / "coadapt_copy"
    (package / "choice").mkdir(parents=True)
    shutil.copy(compiled.__file__, package)
    for folder in (package, package / "choice"):
        (folder / "__init__.py").touch()
    (package / "choice" / "kernels.py").write_text(KERNEL)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)

    def called(more: int) -> tuple[int, int, int]:
        (package / "choice" / "steps.py").write_text(STEPS.format(more=more))
        command = [sys.executable, "-c", CALL]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        result, read, made = map(int, done.stdout.split())
        return result, read, made

    return called


def test_a_kernel_is_read_from_disk_while_nothing_changed(run: Run) -> None:
    assert run(1) == (4, 0, 1)
    assert run(1) == (4, 1, 0)


def test_a_kernel_is_compiled_anew_where_a_step_of_another_file_changed(run: Run) -> None:
    assert run(1) == (4, 0, 1)
    assert run(2) == (6, 0, 1)


def test_no_kernel_counts_places_from_the_end() -> None:
    kernels = 0
    for path in Path(compiled.__file__).parent.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef) or not {"kernel", "step"} & _decorators(function):
                continue
            kernels += 1
            for node in ast.walk(function):
                if isinstance(node, ast.Subscript):
                    places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                    wrong = [place for place in places if isinstance(place, ast.UnaryOp)]
                    assert not wrong, f"{path.name}, line {node.lineno}: {ast.unparse(node)}"
    assert kernels > 50


def _decorators(function: ast.FunctionDef) -> set[str]:
    return {mark.id for mark in function.decorator_list if isinstance(mark, ast.Name)}
