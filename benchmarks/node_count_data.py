"""The series of node counts that are measured with: Philly's nodes by the minute, and Earth's VCs in May 2020."""

from __future__ import annotations

import csv
import io
import tarfile
import warnings
from datetime import UTC, datetime

import numpy as np
from coadapt.estimators.node_series import NodeSeries, series_of_samples
from coadapt.simulator.node_series.series_file import read_series

from .harness import DATA, needs

PHILLY = DATA / "philly" / "philly_node_sequence_1min.csv.gz"
EARTH = DATA / "helios" / "earth_may2020_vc_sequences.tar.xz"


def seconds(text: str) -> float:
    """Return a trace's time, which names no zone, in seconds since 1970."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def philly() -> NodeSeries:
    """Return the nodes with a job, of 420, from October to December 2017."""
    needs(PHILLY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its monitor was away, which the page tells
        return read_series(PHILLY)


def earth() -> NodeSeries:
    """Return the nodes of 8 GPUs that the jobs of 16 VCs filled at least, of 107, in May 2020."""
    needs(EARTH)
    running, total, at = np.zeros(0), 0, list[float]()
    with tarfile.open(EARTH) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is None or not member.name.endswith(".csv"):
                continue
            rows = list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8")))
            at = [seconds(row["time"]) for row in rows]
            busy = np.array([float(row["running_gpu_num"]) for row in rows])
            idle = np.array([float(row["idle_gpu_num"]) for row in rows])
            running = np.ceil(busy / 8) + (running if len(running) else 0)
            total += int(np.ceil((busy + idle) / 8).max())
    return series_of_samples(at, running.astype(np.int64), np.full(len(at), total))
