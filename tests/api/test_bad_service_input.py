"""Whatever the service does not accept is told in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bad_service_input import BAD_SERVICE_INPUT, Way, answer


@pytest.mark.parametrize(("what", "way", "sentence"), BAD_SERVICE_INPUT, ids=[row[0] for row in BAD_SERVICE_INPUT])
def test_it_is_refused_in_one_sentence(tmp_path: Path, what: str, way: Way, sentence: str) -> None:
    told = answer(way, tmp_path)
    assert told.startswith(sentence), what
    assert "\n" not in told
