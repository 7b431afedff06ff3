"""The example of a continual program does what its page says."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from coadapt.optimizer.linear_program import Status

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "continual_program.py"


def test_the_example_runs_and_its_whole_numbers_fit(capsys: pytest.CaptureFixture[str]) -> None:
    said = runpy.run_path(str(EXAMPLE))
    lp, whole = said["program"].linear_program(), said["whole"].integral
    activity = lp.matrix @ whole
    assert set(np.unique(whole)) <= {0.0, 1.0}
    assert (activity <= lp.row_upper + 1e-9).all()
    assert said["value"] >= 0.97 * said["whole"].bound
    assert said["again"].status is Status.OPTIMAL
    assert said["again"].objective == pytest.approx(said["second"].objective, rel=3e-4)
    assert "30 nodes of a100 for 30 jobs: infeasible" in capsys.readouterr().out
