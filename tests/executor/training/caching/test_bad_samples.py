"""Every bad read and budget is refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.bad_samples import BAD_SAMPLES, answer


@pytest.mark.parametrize(("what", "act", "sentence"), BAD_SAMPLES, ids=[row[0] for row in BAD_SAMPLES])
def test_it_is_refused_in_one_sentence(what: str, act: Any, sentence: str, tmp_path: Path) -> None:
    assert answer(act, tmp_path) == sentence
    assert "\n" not in sentence
