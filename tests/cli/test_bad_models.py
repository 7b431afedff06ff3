"""Whatever is wrong with models, their user reads one sentence, and nothing is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.bad_models import BAD_MODELS, BadModel


@pytest.mark.parametrize("case", BAD_MODELS, ids=lambda case: case.what)
def test_what_is_wrong_gets_its_one_sentence_and_nothing_is_written(case: BadModel, tmp_path: Path) -> None:
    assert case.answer(tmp_path) == case.error
    assert not (tmp_path / "new.json").exists()


def test_a_torn_file_is_told(tmp_path: Path) -> None:
    told = BadModel("torn", "show {dir}/torn.json", "").answer(tmp_path)
    assert re.fullmatch(r"\{dir\}/torn\.json: is torn or no model: .*", told)


def test_a_requirement_that_nobody_meets_names_the_nearest(tmp_path: Path) -> None:
    words = "fit {dir}/jobs.csv --target hours --out {dir}/new.json --budget 1 --kilobytes 0.001"
    told = BadModel("too small", words, "").answer(tmp_path)
    assert re.fullmatch(
        r"requirement: nobody meets it; the nearest is \w+: bytes 1, and [\d.e+]+ can be met", told
    )
    assert not (tmp_path / "new.json").exists()


def test_every_row_is_another_one_and_each_answer_is_one_line() -> None:
    assert len({case.what for case in BAD_MODELS}) == len(BAD_MODELS)
    assert all(case.error and "\n" not in case.error for case in BAD_MODELS)
