"""Alibaba PAI logs: seconds from the start of the log, and parts of GPUs, which become whole ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.simulator.traces.readers import pai

from tests.support.traces import PAI, written


def test_times_are_those_of_the_log(tmp_path: Path) -> None:
    workload = pai.read(written(tmp_path, PAI))
    assert workload.submit_s.tolist() == [10.0, 20.0]
    assert workload.duration_s.tolist() == [100.0, 50.0]
    assert workload.gpus.tolist() == [1, 2]


def test_parts_of_gpus_are_rounded_up_with_one_warning(tmp_path: Path) -> None:
    path = written(tmp_path, PAI.replace("100,1", "100,0.25").replace("50,2", "50,2.5") + "j3,30,5,0\n")
    with pytest.warns(UserWarning, match="left out") as told:
        workload = pai.read(path)
    assert (workload.ids, workload.gpus.tolist()) == (("j1", "j2"), [1, 3])
    assert [str(one.message) for one in told] == [
        f"{path}: 1 job without a GPU left out and 2 jobs with part of a GPU rounded up to whole ones, "
        "the first in line 2"
    ]
