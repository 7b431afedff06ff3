"""Each picture is a PNG of what a run holds, also where a run has little to show."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from coadapt.simulator.results import pictures
from coadapt.simulator.results.saved import SavedRun

from tests.support.runs import saved

RUN = saved(100.0, 50.0, 400.0)
UNKNOWN = saved(100.0, 1.0, rho=np.full(2, np.nan))
DRAWN: dict[str, Callable[[SavedRun], bytes]] = {
    "cdfs": lambda run: pictures.cdfs({"a": [run], "b": [run, RUN]}),
    "active jobs": lambda run: pictures.active_jobs({"a": [run]}),
    "policy time": lambda run: pictures.policy_time({"a": [run]}),
    "GPU types": pictures.gpu_types_over_time,
    "jobs": lambda run: pictures.jobs_over_time(run, 2),
}


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN.keys())
@pytest.mark.parametrize("run", [RUN, UNKNOWN], ids=["three jobs", "unknown fairness"])
def test_a_picture_is_drawn_without_a_warning(draw: Callable[[SavedRun], bytes], run: SavedRun) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draw(run).startswith(b"\x89PNG")


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN.keys())
def test_without_matplotlib_a_picture_says_how_to_get_it(
    draw: Callable[[SavedRun], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"pictures need matplotlib; `pip install 'coadapt\[report\]'`"):
        draw(RUN)
