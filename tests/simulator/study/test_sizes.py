"""Each job has one size, and shares of sizes add up to all."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.simulator.study.sizes import size_groups, sizes
from coadapt.simulator.traces.workload import TraceJob
from hypothesis import given
from hypothesis import strategies as st

from tests.support.studies import studied


@pytest.mark.parametrize(
    ("gpus", "name"),
    [(1, "1"), (2, "2"), (3, "3 to 4"), (4, "3 to 4"), (5, "5 to 8"), (8, "5 to 8"), (129, "129 to 256")],
)
def test_sizes_end_at_powers_of_two(gpus: int, name: str) -> None:
    assert size_groups(np.array([gpus])).names == (name,)


@given(st.lists(st.tuples(st.integers(1, 2048), st.floats(0.1, 1e6)), min_size=1, max_size=50))
def test_shares_of_sizes_add_up(rows: list[tuple[int, float]]) -> None:
    found = sizes(studied([TraceJob(str(i), 0.0, n, s) for i, (n, s) in enumerate(rows)]))
    assert found.jobs.sum() == len(rows)
    assert found.time_share.sum() == pytest.approx(1.0)
    gpu_s = sum(n * s for n, s in rows)
    assert found.single_time == pytest.approx(sum(s for n, s in rows if n == 1) / gpu_s)
    assert found.large_time == pytest.approx(sum(n * s for n, s in rows if n >= 8) / gpu_s)
    assert found.most_gpus == max(n for n, _ in rows)


def test_shares_of_no_gpu_time_are_unknown() -> None:
    for job in (TraceJob("a", 0.0, application="bert"), TraceJob("a", 0.0, 1, 0.0)):
        found = sizes(studied([job]))
        assert np.isnan([found.single_time, found.large_time, *found.time_share]).all()
