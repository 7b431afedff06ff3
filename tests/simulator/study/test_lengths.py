"""Lengths are told of the jobs that have one."""

from __future__ import annotations

import numpy as np
from coadapt.simulator.study.lengths import lengths


def test_lengths_that_are_not_known_do_not_count() -> None:
    found = lengths(np.array([10.0, np.nan, 30.0, 2000.0]))
    assert found is not None
    assert (found.jobs, found.mean_s, found.median_s, found.longest_s) == (3, 680.0, 30.0, 2000.0)
    assert found.shorter == {60.0: 2 / 3, 1000.0: 2 / 3, 3600.0: 1.0, 86_400.0: 1.0}
    assert lengths(np.full(3, np.nan)) is None
