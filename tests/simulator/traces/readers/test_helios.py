"""Helios logs: lengths in virtual clusters, counted from the first job."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from coadapt.simulator.traces.final_state import FinalState
from coadapt.simulator.traces.readers import helios

from tests.support.traces import HELIOS, written


def test_times_count_from_the_first_job_and_the_time_of_its_day_is_kept(tmp_path: Path) -> None:
    workload = helios.read(written(tmp_path, HELIOS))
    assert workload.ids == ("7", "8")
    assert workload.submit_s.tolist() == [0.0, 60.0]
    assert workload.clock_s == 3.0, "its first job came at 00:00:03"
    assert workload.began_s == datetime(2020, 9, 1, 0, 0, 3, tzinfo=UTC).timestamp()
    assert workload.duration_s.tolist() == [97.0, 0.0]


def test_jobs_belong_to_users_and_virtual_clusters(tmp_path: Path) -> None:
    workload = helios.read(written(tmp_path, HELIOS))
    assert (workload.virtual_clusters, workload.users) == (("vcA", "vcB"), ("u", "u"))
    without = HELIOS.replace("user,", "").replace(",u,", ",")
    assert helios.read(written(tmp_path, without)).users == ("", "")


def test_cpus_final_states_and_names_are_kept_where_a_log_has_them(tmp_path: Path) -> None:
    workload = helios.read(written(tmp_path, HELIOS))
    assert workload.cpus.tolist() == [8.0, 1.0]
    assert workload.states == (FinalState.COMPLETED, FinalState.FAILED)
    assert workload.names == ("", "")
    named = HELIOS.replace("duration\n", "duration,jobname\n").replace(",97\n", ",97,train_r50\n")
    named = named.replace("60.0", "60").replace(":03,0\n", ":03,0,eval\n")
    assert helios.read(written(tmp_path, named)).names == ("train_r50", "eval")


def test_waits_are_kept_where_a_log_has_them_and_unknown_elsewhere(tmp_path: Path) -> None:
    assert np.isnan(helios.read(written(tmp_path, HELIOS)).waited_s).all()
    with_waits = (
        HELIOS.replace("duration\n", "duration,queue\n").replace(",97\n", ",97,5\n").replace(",0\n", ",0,60.5\n")
    )
    assert helios.read(written(tmp_path, with_waits)).waited_s.tolist() == [5.0, 60.5]
    with pytest.raises(ValueError, match="line 3: queue -1 is not accepted, must be a number of at least 0"):
        helios.read(written(tmp_path, with_waits.replace("60.5", "-1")))


def test_time_outs_and_lost_nodes_count_as_failures() -> None:
    assert {state.counted_as for state in FinalState} == {
        FinalState.COMPLETED, FinalState.CANCELLED, FinalState.FAILED
    }  # fmt: skip
    assert FinalState.NODE_FAIL.counted_as is FinalState.FAILED


def test_a_date_that_is_none_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 3: submit_time"):
        helios.read(written(tmp_path, HELIOS.replace("2020-09-01 00:01:03", "soon")))
