"""What the optimizer runs is what its files say, whichever of them changed since it was last compiled."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import coadapt.optimizer.compiled as compiled
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
