"""Sums, means and medians of groups are those that a loop over the groups gives."""

from __future__ import annotations

import numpy as np
from coadapt.simulator.study.groups import Groups
from hypothesis import given
from hypothesis import strategies as st

ROWS = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "c"]), st.one_of(st.just(np.nan), st.floats(-1e6, 1e6))), min_size=1
)


@given(ROWS)
def test_groups_agree_with_a_loop(rows: list[tuple[str, float]]) -> None:
    texts, values = [text for text, _ in rows], np.array([value for _, value in rows])
    groups = Groups.by_name(texts)
    assert groups.names == tuple(sorted(set(texts) - {""}))
    for at, name in enumerate(groups.names):
        mine = values[np.array(texts) == name]
        known = mine[np.isfinite(mine)]
        assert groups.jobs()[at] == len(mine)
        np.testing.assert_allclose(groups.sums(values)[at], known.sum(), rtol=1e-9, atol=1e-6)
        expected = (np.mean(known), np.median(known)) if len(known) else (np.nan, np.nan)
        np.testing.assert_allclose(groups.means(values)[at], expected[0], rtol=1e-9, atol=1e-6)
        np.testing.assert_allclose(groups.medians(values)[at], expected[1], rtol=1e-9, atol=1e-6)
    assert groups.named == ("" not in texts)


def test_jobs_without_a_name_are_in_no_group() -> None:
    groups = Groups.by_name(["", ""])
    assert (len(groups), groups.of.tolist(), groups.named) == (0, [-1, -1], False)
    assert groups.jobs().tolist() == groups.sums(np.ones(2)).tolist() == []
