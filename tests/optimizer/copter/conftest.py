"""Has the engine's kernels compiled before the first test, so that none reaches its time limit by compiling."""

from __future__ import annotations

import pytest
from coadapt.optimizer.copter.engine import ContinualProgram


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """Solve a small program without a time limit."""
    program = ContinualProgram(maximise=True)
    program.set_capacity("a100", 2)
    program.add_request("job-1", [1.0, 1.9], {"a100": [1, 2]}, upper=1.0)
    program.add_request("job-2", [2.0], {"a100": [1]}, upper=1.0)
    program.solve()
