"""The example of each framework differs from the framework's own script in four lines."""

from __future__ import annotations

import difflib

import pytest

from tests.support.framework_runs import EXAMPLES, MODULES


@pytest.mark.parametrize("example", MODULES)
def test_an_example_has_at_most_four_changed_lines(example: str) -> None:
    plain, changed = ((EXAMPLES / example / name).read_text().splitlines() for name in ("plain.py", "train.py"))
    lines = [line for line in difflib.ndiff(plain, changed) if line.startswith("+ ")]
    assert len(lines) <= 4, lines
