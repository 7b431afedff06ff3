"""The past of a team grows as facts come, and what was read of it stays as it was."""

from __future__ import annotations

import numpy as np
from coadapt.estimators.arriving.features import features
from coadapt.estimators.arriving.past import TeamJobs, Times
from hypothesis import given
from hypothesis import strategies as st


def test_what_was_read_stays_as_it_was() -> None:
    times = Times()
    for at in range(100):
        times.add(float(at))
    read = times.values
    for at in range(100, 1000):
        times.add(float(at))
    times.forget(950.0)
    times.add(2000.0)
    assert read.tolist() == list(range(100))
    assert times.values.tolist() == [*range(950, 1000), 2000.0]


def test_a_time_before_the_newest_counts_as_of_the_same_moment() -> None:
    times = Times()
    for at in (5.0, 3.0, 7.0):
        times.add(at)
    assert times.values.tolist() == [5.0, 5.0, 7.0]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), max_size=30), st.integers(0, 40)
)
def test_facts_up_to_a_moment_tell_what_all_facts_tell_of_it(jobs: list[tuple[int, int, int]], now: int) -> None:
    """Jobs that wait, are expected to take, and take so long, one submitted a second."""
    facts = list[tuple[float, int, str]]()
    for number, (waits, _, takes) in enumerate(jobs):
        at = float(number)
        facts += [(at, 0, str(number)), (at + waits, 1, str(number)), (at + waits + takes, 2, str(number))]
    early, late = TeamJobs(), TeamJobs()
    for at_s, kind, job in sorted(facts):
        for team in (early, late) if at_s <= now else (late,):
            if kind == 0:
                team.submitted.add(at_s)
            elif kind == 1:
                team.began(job, at_s, at_s + jobs[int(job)][1])
            else:
                team.over(job, at_s)
    at_s = np.array([float(now)])
    told = features(early.past(), at_s, 5.0).tolist()
    assert features(late.past(), at_s, 5.0).tolist() == told
    assert features(early.past(since_s=float(now)), at_s, 5.0).tolist() == told, "runs that are over do not count"


def test_what_was_over_long_ago_is_dropped() -> None:
    team = TeamJobs()
    for number in range(200):
        team.submitted.add(float(number))
        team.began(str(number), float(number), number + 1.0)
        team.over(str(number), number + 1.0)
    team.forget(150.0)
    past = team.past()
    assert [past.submitted_s[0], past.ended_s[0], past.left_s.min()] == [150.0, 150.0, 150.0]
