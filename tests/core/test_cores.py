"""Cores are written as Linux lists them."""

from __future__ import annotations

import pytest
from coadapt.core.cores import cores_of, listed


@pytest.mark.parametrize(
    ("cores", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 5), "0-2,5"), ((7, 6, 0, 6), "0,6-7")]
)
def test_cores_are_listed_and_read_again(cores: tuple[int, ...], text: str) -> None:
    assert listed(cores) == text
    assert cores_of(text) == tuple(sorted(set(cores)))


def test_another_text_is_no_list() -> None:
    with pytest.raises(ValueError, match="all"):
        cores_of("all")
