"""Workloads of COpter's public code: jobs that ask for no number of GPUs and grow as far as they may."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.core.training_config import Adaptivity
from coadapt.simulator.traces.readers import copter

from tests.support.traces import COPTER, written


def test_jobs_adapt_and_may_grow_as_far_as_in_that_code(tmp_path: Path) -> None:
    workload = copter.read(written(tmp_path, COPTER))
    assert workload.applications == ("bert", "llama")
    assert workload.submit_s.tolist() == [1.5, 2.0]
    assert set(workload.adaptivity) == {Adaptivity.ADAPTIVE}
    assert workload.max_gpus.tolist() == [copter.MOST_GPUS] * 2


def test_another_category_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 2: category 'Job'; accepted: SiaJob, BatchInferenceJob"):
        copter.read(written(tmp_path, COPTER.replace("SiaJob", "Job")))
