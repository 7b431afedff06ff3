"""Workloads of Sia and Pollux name applications, and what a user asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from coadapt.core.training_config import Adaptivity
from coadapt.simulator.traces.readers import read_trace, sia

from tests.support.traces import SIA, written

HEADER = "name,time,application,num_replicas,batch_size,category\n"


def test_a_job_is_of_an_application_and_asks_for_gpus_and_a_batch_size(tmp_path: Path) -> None:
    workload = read_trace(written(tmp_path, SIA))
    assert workload.applications == ("cifar10", "bert")
    assert workload.submit_s.tolist() == [5.0, 9.5]
    assert workload.gpus.tolist() == [4, 1]
    assert workload.batch_size.tolist() == [512, 12]
    assert set(workload.adaptivity) == {Adaptivity.ADAPTIVE}
    assert np.isnan(workload.duration_s).all()


def test_a_category_says_what_may_be_adapted(tmp_path: Path) -> None:
    rows = "a,0,bert,1,12,rigid\nb,1,bert,1,12,scale-gpus\nc,2,bert,1,12,adaptive\nd,3,bert,1,12,\n"
    workload = sia.read(written(tmp_path, HEADER + rows))
    adaptive = Adaptivity.ADAPTIVE
    assert workload.adaptivity == (Adaptivity.RIGID, Adaptivity.STRONG_SCALING, adaptive, adaptive)


def test_another_category_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 3: category 'fixed'; accepted: adaptive, scale-gpus, rigid"):
        sia.read(written(tmp_path, HEADER + "a,0,bert,1,12,rigid\nb,1,bert,1,12,fixed\n"))
