"""Philly logs: jobs without ids, in no order of time."""

from __future__ import annotations

from pathlib import Path

from coadapt.simulator.traces.readers import philly

from tests.support.traces import PHILLY, written


def test_jobs_are_sorted_by_time_and_named_after_their_lines(tmp_path: Path) -> None:
    workload = philly.read(written(tmp_path, PHILLY))
    assert workload.ids == ("line-3", "line-2")
    assert workload.submit_s.tolist() == [0.0, 5.0]
    assert workload.gpus.tolist() == [2, 1]
    assert workload.virtual_clusters == ("y", "x")


def test_jobs_of_one_moment_keep_the_order_of_their_lines(tmp_path: Path) -> None:
    text = PHILLY.replace("07:01:55", "07:01:50")
    assert philly.read(written(tmp_path, text)).ids == ("line-2", "line-3")


def test_a_log_without_clusters_is_of_one(tmp_path: Path) -> None:
    text = "".join(line.rsplit(",", 1)[0] + "\n" for line in PHILLY.splitlines())
    assert philly.read(written(tmp_path, text)).virtual_clusters == ("", "")
