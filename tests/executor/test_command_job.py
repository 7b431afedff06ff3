"""What an executor of a command is given."""

from __future__ import annotations

import pytest
from coadapt.executor.command_job import CommandJob


@pytest.mark.parametrize(
    ("command", "called"),
    [
        (("python", "-u", "src/train.py", "--x"), "train.py"),
        (("torchrun", "train.py", "eval.py"), "train.py"),
        (("bash", "./run.sh"), "run.sh"),
        (("/usr/bin/make", "all"), "make"),
    ],
)
def test_a_program_is_called_by_its_own_file(command: tuple[str, ...], called: str) -> None:
    assert CommandJob("j-1", command=command).called == called
    assert CommandJob("j-1", script="a/b.py", command=command).called == "b.py"
