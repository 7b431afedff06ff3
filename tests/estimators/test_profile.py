"""Measured step times are kept without loss, and what no step can have measured is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from coadapt.core.reports import StepRow
from coadapt.estimators.profile import Profile
from hypothesis import given
from hypothesis import strategies as st

rows = st.lists(
    st.builds(
        lambda nodes, per_node, m, s, step, part, count: StepRow(
            nodes, nodes * per_node, m, s, step, step * part, count
        ),
        st.integers(1, 4),
        st.integers(1, 8),
        st.integers(1, 6),
        st.integers(0, 2),
        st.floats(1e-3, 10),
        st.floats(0, 1),
        st.integers(1, 50),
    ),
    max_size=30,
)


def row(**changes: Any) -> StepRow:
    fields = {"nodes": 1, "replicas": 2, "local_bsz": 8, "accumulation": 0, "step_time_s": 0.2, "sync_time_s": 0.1}
    return StepRow(**({**fields, "count": 3} | changes))


def test_equal_rows_become_one_weighted_by_count() -> None:
    profile = Profile.of([row(step_time_s=0.2, count=1), row(step_time_s=0.4, count=3), row(local_bsz=16)])
    assert len(profile) == 2
    assert profile.step_time_s[0] == pytest.approx(0.35)
    assert profile.count[0] == 4


@given(rows, rows)
def test_merging_is_the_profile_of_all_rows(first: list[StepRow], second: list[StepRow]) -> None:
    merged, whole = Profile.of(first).merge(Profile.of(second)), Profile.of(first + second)
    assert len(merged) == len(whole)
    assert merged.count.sum() == sum(r.count for r in first + second)
    np.testing.assert_allclose(merged.step_time_s, whole.step_time_s)
    np.testing.assert_allclose(merged.sync_time_s, whole.sync_time_s)


@given(rows)
def test_json_gives_the_profile_back(first: list[StepRow]) -> None:
    profile = Profile.of(first)
    back = Profile.from_json(json.loads(json.dumps(profile.to_json())))
    assert back.to_json() == profile.to_json()


def test_select_keeps_the_rows_asked_for() -> None:
    profile = Profile.of([row(), row(replicas=4), row(replicas=8)])
    assert profile.select(profile.replicas <= 4).replicas.tolist() == [2, 4]
    assert profile.max_replicas == 8


def test_columns_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Profile.of([row()]).step_time_s[0] = 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step_time_s": float("nan")}, r"step_time_s\[0\]: nan"),
        ({"step_time_s": float("inf")}, r"step_time_s\[0\]: inf"),
        ({"step_time_s": 0.0, "sync_time_s": 0.0}, r"step_time_s\[0\]: 0.0"),
        ({"step_time_s": -1.0}, r"step_time_s\[0\]: -1.0"),
        ({"sync_time_s": -0.1}, r"sync_time_s\[0\]: -0.1"),
        ({"sync_time_s": 0.3}, r"sync_time_s\[0\]: 0.3"),
        ({"sync_time_s": float("nan")}, r"sync_time_s\[0\]: nan"),
        ({"nodes": 0}, r"nodes\[0\]: 0"),
        ({"nodes": 3}, r"replicas\[0\]: 2"),
        ({"local_bsz": 0}, r"local_bsz\[0\]: 0"),
        ({"accumulation": -1}, r"accumulation\[0\]: -1"),
        ({"count": 0}, r"count\[0\]: 0"),
        ({"local_bsz": 1.5}, "local_bsz: .* whole numbers"),
    ],
)
def test_impossible_measurements_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Profile.of([row(**changes)])


def test_missing_columns_are_named() -> None:
    with pytest.raises(ValueError, match="count"):
        Profile.from_json({k: v for k, v in Profile.of([row()]).to_json().items() if k != "count"})


def test_a_node_cannot_be_fuller_than_the_replicas_allow() -> None:
    with pytest.raises(ValueError, match="densest"):
        Profile.of([row(nodes=2, replicas=4)], densest=[4])
