"""What the optimizer runs is what its files say, whichever of them changed since it was last compiled."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import coadapt.optimizer.compiled as compiled
import coadapt.optimizer.indexing as indexing
import numpy as np
import pytest
from coadapt.optimizer.compiled import prefetch

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
    """Calls, in a new process, a kernel whose step adds `more`: (result, times read from disk, times compiled)."""
    package = tmp_path / "coadapt_copy"
    (package / "choice").mkdir(parents=True)
    for module in (compiled, indexing):
        shutil.copy(module.__file__, package)
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


def test_reading_ahead_changes_nothing_and_may_go_beyond_the_end() -> None:
    @compiled.kernel
    def total(flat: np.ndarray, wide: np.ndarray) -> float:
        found = 0.0
        for i in range(len(flat)):
            prefetch(flat, i + 8)
            prefetch(wide, i + 8)
            prefetch(flat, i + 2**40)  # of no process
            found += flat[i] + wide[i, 0]
        return found

    flat = np.arange(20.0)
    wide = np.asfortranarray(np.ones((20, 3)))
    assert total(flat, wide[:, 1:]) == flat.sum() + 20
    assert total(flat[:0], wide[:0]) == 0.0


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


def test_arrays_are_read_and_written_where_signed_places_say() -> None:
    @compiled.kernel
    def shifted(flat: np.ndarray, wide: np.ndarray, by: np.ndarray) -> float:
        for i in range(1, len(by)):
            flat[i - 1] = wide[i - by[i], by[i]] + by[-1 + len(by)]
        return float(flat[0])

    flat, wide = np.zeros(3), np.asfortranarray(np.arange(12.0).reshape(4, 3))
    for kind in (np.int8, np.int32, np.uint32, np.int64):
        flat[:] = 0.0
        assert shifted(flat, wide[:, :2], np.array([0, 1, 1, 0], kind)) == 1.0
        assert flat.tolist() == [1.0, 4.0, 9.0]
