"""Whose idle GPUs borrowers have: nobody's first, then those of who has most, their own team's last."""

from __future__ import annotations

from coadapt.core.lent import NOBODY, lenders, lent_by_team
from hypothesis import given
from hypothesis import strategies as st


def test_what_is_promised_to_nobody_is_lent_first_and_then_by_who_has_most() -> None:
    found = lenders({"a": 2, "b": 5, NOBODY: 3}, [("x", "a", 4), ("y", "b", 4)])
    assert found == {"x": {NOBODY: 3, "b": 1}, "y": {"a": 2, "b": 2}}
    assert lent_by_team(found) == {"a": 2, "b": 3}


def test_a_borrower_has_what_its_own_team_leaves_idle_last() -> None:
    assert lenders({"a": 8, "b": 1}, [("x", "a", 2)]) == {"x": {"b": 1, "a": 1}}


def test_what_nobody_can_have_lent_has_no_lender() -> None:
    assert lenders({"a": 1}, [("x", "b", 4), ("y", "b", 1)]) == {"x": {"a": 1}, "y": {}}


@given(
    st.dictionaries(st.sampled_from(["", "a", "b", "c"]), st.integers(0, 8)),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 6)), max_size=6),
)
def test_no_more_is_lent_than_is_idle_and_no_borrower_has_more_than_its_gpus(
    unused: dict[str, int], wishes: list[tuple[str, int]]
) -> None:
    borrowers = [(str(i), team, gpus) for i, (team, gpus) in enumerate(wishes)]
    found = lenders(unused, borrowers)
    for owner, idle in unused.items():
        assert sum(has.get(owner, 0) for has in found.values()) <= idle
    for id, _, gpus in borrowers:
        assert sum(found[id].values()) <= gpus
    lent = sum(sum(has.values()) for has in found.values())
    assert lent == min(sum(unused.values()), sum(gpus for _, _, gpus in borrowers))
