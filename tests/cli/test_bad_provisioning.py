"""Each bad input of CPUs and memory by gain is answered with its one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bad_provisioning import BAD_PROVISIONING, BadProvisioning


@pytest.mark.parametrize("case", BAD_PROVISIONING, ids=lambda case: case.what)
def test_bad_input_gets_its_one_sentence(case: BadProvisioning, tmp_path: Path) -> None:
    assert case.answer(tmp_path) == case.error
