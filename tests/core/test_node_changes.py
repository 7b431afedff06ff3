"""Which nodes would come and go, as it is written."""

from __future__ import annotations

import pytest
from coadapt.core.errors import WhatIfError
from coadapt.core.node_changes import NodeChange, node_changes


def test_several_forms_come_and_go() -> None:
    found = node_changes("+4x a100:8, -1x t4:4@lab, h100:2")
    assert found == (NodeChange(4, "a100", 8), NodeChange(-1, "t4", 4, "lab"), NodeChange(1, "h100", 2))
    assert [one.text for one in found] == ["+4x a100:8", "-1x t4:4@lab", "+1x h100:2"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("10000x a100:8", "nodes: "),
        ("600x a100:8, 600x t4:4", "nodes: 1200 nodes are more than 1000"),
        ("a100", "nodes: 'a100' is not of the form"),
        (" , ", "nodes: names none"),
        ("0x a100:8", "nodes: "),
    ],
)
def test_what_is_none_is_told_in_a_sentence(text: str, told: str) -> None:
    with pytest.raises(WhatIfError) as error:
        node_changes(text)
    assert str(error.value).startswith(told)
    assert "\n" not in str(error.value)
