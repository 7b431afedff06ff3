"""A file of node counts is read as it stands; what is wrong with one is in `tests/support/bad_foresight.py`."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

from coadapt.simulator.node_series.series_file import read_series

ROWS = "".join(f"2017-10-03 00:{minute:02}:00,{minute},420\n" for minute in range(20))


def test_a_file_of_minutes_becomes_ten_minute_maxima(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv.gz"
    path.write_bytes(gzip.compress(f"time,active,total\n{ROWS}".encode()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read_series(path)
    assert found.start_s == 1_506_988_800.0
    assert found.running.tolist() == [9, 19]
    assert found.total.tolist() == [420, 420]
    assert found.known.all()
