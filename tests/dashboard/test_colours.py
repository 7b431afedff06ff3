"""A GPU type has one colour on every page, and two types differ as long as colours last."""

from __future__ import annotations

from coadapt.dashboard.colours import COLOURS, colours_of
from hypothesis import given
from hypothesis import strategies as st


@given(st.sets(st.text(min_size=1, max_size=12), max_size=20))
def test_types_differ_while_there_are_colours(types: set[str]) -> None:
    found = colours_of(types)
    assert found.keys() == types
    assert len(set(found.values())) == min(len(types), COLOURS)
    assert found == colours_of(sorted(types, reverse=True))
