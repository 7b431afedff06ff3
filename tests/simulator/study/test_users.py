"""Users come with what they use, and shares of the few with most are exact."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.simulator.study.users import users
from coadapt.simulator.traces.final_state import FinalState
from coadapt.simulator.traces.workload import TraceJob
from hypothesis import given
from hypothesis import strategies as st

from tests.support.studies import studied


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 8), st.floats(1, 1e5)), min_size=1))
def test_gpu_time_of_users_adds_up_and_the_first_has_most(rows: list[tuple[str, int, float]]) -> None:
    jobs = studied([TraceJob(str(i), 0.0, n, s, user=user) for i, (user, n, s) in enumerate(rows)])
    found = users(jobs)
    assert found is not None
    assert found.gpu_s.sum() == pytest.approx(np.nansum(jobs.gpu_s))
    assert found.jobs.sum() == len(rows)
    assert (np.diff(found.gpu_s) <= 0).all()
    assert found.top_share(found.gpu_s, 1.0) == pytest.approx(1.0)
    assert found.top_share(found.gpu_s, 0.01) == pytest.approx(found.gpu_s[0] / found.gpu_s.sum())


def test_completion_is_of_jobs_whose_end_is_known_and_waits_need_all_of_them() -> None:
    jobs = studied(
        [
            TraceJob("1", 0.0, 1, 9.0, user="a", state=FinalState.COMPLETED, waited_s=3.0),
            TraceJob("2", 0.0, 1, 9.0, user="a", state=FinalState.TIMEOUT, waited_s=4.0),
            TraceJob("3", 0.0, 1, 9.0, user="a"),
            TraceJob("4", 0.0, 1, 1.0, user="b"),
            TraceJob("5", 0.0, 1, 1.0),
        ]
    )
    found = users(jobs)
    assert found is not None
    assert found.names == ("a", "b")
    assert found.completed[0] == 0.5
    assert np.isnan(found.completed[1])
    assert (found.unnamed, found.waits) == (1, False)
    assert users(studied([TraceJob("1", 0.0, 1, 9.0)])) is None


def test_without_lengths_the_first_user_has_most_jobs() -> None:
    found = users(studied([TraceJob(str(i), 0.0, application="bert", user="b" if i else "a") for i in range(3)]))
    assert found is not None
    assert found.names == ("b", "a")
    assert not found.timed
