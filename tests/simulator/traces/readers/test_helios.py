"""Helios logs: lengths in virtual clusters, counted from the first job."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.simulator.traces.readers import helios

from tests.support.traces import HELIOS, written


def test_times_count_from_the_first_job_and_the_time_of_its_day_is_kept(tmp_path: Path) -> None:
    workload = helios.read(written(tmp_path, HELIOS))
    assert workload.ids == ("7", "8")
    assert workload.submit_s.tolist() == [0.0, 60.0]
    assert workload.clock_s == 3.0, "its first job came at 00:00:03"
    assert workload.duration_s.tolist() == [97.0, 0.0]


def test_jobs_belong_to_users_and_virtual_clusters(tmp_path: Path) -> None:
    workload = helios.read(written(tmp_path, HELIOS))
    assert (workload.virtual_clusters, workload.users) == (("vcA", "vcB"), ("u", "u"))
    without = HELIOS.replace("user,", "").replace(",u,", ",")
    assert helios.read(written(tmp_path, without)).users == ("", "")


def test_a_date_that_is_none_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 3: submit_time"):
        helios.read(written(tmp_path, HELIOS.replace("2020-09-01 00:01:03", "soon")))
