"""What a job requires is installed in a folder of its own, over what the node has, by the job's own user."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from coadapt.core.isolation import Isolation
from coadapt.executor.files.own_folder import OwnFolder
from coadapt.executor.requirements import RequirementsError, installed
from coadapt.executor.sandbox.line import Line, Sandbox, problem

SEE = "import helper_of_mine as mine, numpy, os; print(mine.WORD, numpy.__name__, os.path.dirname(mine.__file__))"


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    """Return a package with one module."""
    path = tmp_path / "helper_of_mine-1.0-py3-none-any.whl"
    info = "helper_of_mine-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("helper_of_mine.py", "WORD = 'found'\n")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: helper_of_mine\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and len(folder.parts) > 2:
            folder.chmod(folder.stat().st_mode | 0o011)
    return str(path)


def interpreter(tmp_path: Path, isolation: Isolation, *requirements: str) -> str:
    line = Line.of("j-7", isolation, state_dir=str(tmp_path))
    own = OwnFolder(tmp_path, "j-7", True, line.uid)
    sandbox = Sandbox(line, str(own.home), str(own.tmp), (str(own.path),))
    return installed(requirements, own.path, sandbox, {"PIP_NO_INDEX": "1"}, str(own.home))


@pytest.mark.parametrize(
    "isolation",
    [
        Isolation.NONE,
        *(pytest.param(one, marks=pytest.mark.skipif(bool(problem(one)), reason=problem(one) or "never"))
          for one in (Isolation.USER, Isolation.NAMESPACE)),
    ],
)  # fmt: skip
def test_it_is_installed_once_and_sees_what_the_node_has(tmp_path: Path, wheel: str, isolation: Isolation) -> None:
    if isolation is Isolation.NAMESPACE:
        pytest.skip("the wheel lies in a folder that a namespace hides") if wheel.startswith("/tmp") else None
    python = interpreter(tmp_path, isolation, wheel, "numpy")
    word, library, where = subprocess.run(
        [python, "-c", SEE], capture_output=True, text=True, check=True
    ).stdout.split()
    assert (word, library) == ("found", "numpy")
    assert Path(where).is_relative_to(tmp_path / ".j-7.own")
    assert Path(where).stat().st_uid == (Line.of("j-7", isolation).uid or os.geteuid())
    ready = Path(python).parents[1] / "ready"
    before = ready.stat().st_mtime_ns
    assert interpreter(tmp_path, isolation, wheel, "numpy") == python
    assert ready.stat().st_mtime_ns == before


def test_what_cannot_be_installed_is_told_by_the_first_error_of_pip(tmp_path: Path) -> None:
    with pytest.raises(RequirementsError, match="satisfies the requirement nonsense-of-mine"):
        interpreter(tmp_path, Isolation.NONE, "nonsense-of-mine==9")
