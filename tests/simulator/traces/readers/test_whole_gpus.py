"""Jobs that ask for no whole GPU are left out or rounded up, and told of once."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.readers.whole_gpus import with_gpus
from coadapt.simulator.traces.tables import read_rows

from tests.support.traces import written


def rows(folder: Path, *gpus: str) -> tuple[Path, list]:
    path = written(folder, "gpus\n" + "".join(f"{count}\n" for count in gpus))
    return path, read_rows(path, ("gpus",))


def test_jobs_without_a_whole_gpu_are_left_out_with_one_warning(tmp_path: Path) -> None:
    rows = "7,vcA,0,2020-09-01 00:00:03,97\n8,vcB,1,2020-09-01 00:01:03,50\n9,vcB,0.5,2020-09-01 00:02:03,50\n"
    path = written(tmp_path, "# Helios\njob_id,vc,gpu_num,submit_time,duration\n" + rows)
    with pytest.warns(UserWarning, match="left out") as told:
        workload = read_trace(path)
    assert workload.ids == ("8",)
    assert [str(one.message) for one in told] == [
        f"{path}: 1 job without a GPU left out and 1 job with part of a GPU left out, the first in line 3"
    ]


@pytest.mark.filterwarnings("error")
def test_rows_of_whole_gpus_are_left_as_they_are(tmp_path: Path) -> None:
    path, found = rows(tmp_path, "1", "2.0", "64")
    assert with_gpus(path, found, "gpus") is found


@pytest.mark.parametrize(("round_up", "kept"), [(False, ["3"]), (True, ["1", "3"])])
def test_a_part_of_a_gpu_is_left_out_or_becomes_a_whole_one(
    tmp_path: Path, round_up: bool, kept: list[str]
) -> None:
    path, found = rows(tmp_path, "0.25", "0", "3")
    with pytest.warns(UserWarning, match="1 job without a GPU left out and 1 job with part of a GPU"):
        assert [row["gpus"] for row in with_gpus(path, found, "gpus", round_up)] == kept


def test_a_trace_without_any_whole_gpu_is_refused(tmp_path: Path) -> None:
    path, found = rows(tmp_path, "0", "0.5")
    with pytest.raises(ValueError, match="no job asks for a whole GPU in gpus; the first has 0"):
        with_gpus(path, found, "gpus")
