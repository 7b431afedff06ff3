"""Shares of final states add up to all jobs whose end is known."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.simulator.study.final_states import final_states
from coadapt.simulator.study.jobs import STATES
from coadapt.simulator.traces.final_state import FinalState
from coadapt.simulator.traces.workload import TraceJob
from hypothesis import given
from hypothesis import strategies as st

from tests.support.studies import studied

ROWS = st.lists(st.tuples(st.sampled_from([*FinalState, None]), st.integers(1, 64), st.floats(1, 1e5)), min_size=1)


@given(ROWS)
def test_shares_add_up(rows: list[tuple[FinalState | None, int, float]]) -> None:
    jobs = studied([TraceJob(str(i), 0.0, n, s, state=state) for i, (state, n, s) in enumerate(rows)])
    found = final_states(jobs)
    known = [row for row in rows if row[0] is not None]
    if not known:
        assert found is None
        return
    assert found is not None
    assert found.known == len(known)
    assert found.job_share.sum() == pytest.approx(1.0)
    assert found.time_share.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found.by_size.sum(axis=1), 1.0)
    assert found.size_jobs.sum() == len(known)
    completed = sum(state is FinalState.COMPLETED for state, _, _ in known)
    assert found.unsuccessful == pytest.approx(1 - completed / len(known))


def test_time_outs_and_lost_nodes_are_listed_and_count_as_failures() -> None:
    jobs = studied([TraceJob(str(i), 0.0, 1, 10.0, state=state) for i, state in enumerate(FinalState)])
    found = final_states(jobs)
    assert found is not None
    assert found.jobs.tolist() == [1] * len(STATES)
    assert found.of(FinalState.FAILED, found.job_share) == pytest.approx(3 / 5)
    assert found.by_size.tolist() == [pytest.approx([0.2, 0.2, 0.6])]
