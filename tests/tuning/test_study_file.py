"""A study file says what it searches, and a bad one is refused in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.tuning.study_file import StudyFileError, deadline_problem, from_values, parse

from tests.support.bad_study_files import BAD, GOOD

WHOLE = """
name: digits
job: {script: train.py, epochs: 20}
space:
  lr: {log: [0.001, 1.0], step: 0.001}
  momentum: {uniform: [0.5, 0.99], step: 0.01}
  batch_size: {choice: [64, 128]}
  layers: 4
metric: val_acc
mode: max
trials: 48
epochs: 20
algorithm: {asha: {grace: 3, reduction: 3}}
shrink: 8
fuse: true
deadline: 30m
promote: 3
eager: 0.5
seed: 0
"""


def test_a_file_as_the_guide_shows_it_is_read() -> None:
    study = parse(WHOLE)
    assert study.deadline == 1800
    assert (study.algorithm.name, study.algorithm.grace) == ("asha", 3)
    assert study.ladder == (2, 1)
    assert study.cannot_fuse() == {"batch_size"}
    assert study.searched().fixed == {"layers": 4}


@pytest.mark.parametrize(("change", "sentence"), BAD, ids=[str(change)[:60] for change, _ in BAD])
def test_a_bad_file_is_refused_in_one_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StudyFileError) as told:
        from_values({**GOOD, **change})
    assert str(told.value).startswith(sentence)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("field", ["name", "job", "space", "metric", "mode", "trials", "epochs"])
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(StudyFileError, match=f"^{field}: missing; a study names name, job, space"):
        from_values({key: value for key, value in GOOD.items() if key != field})


@pytest.mark.parametrize("text", ["", "[1, 2]", "a: {", "a: 1\na: 2"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(StudyFileError) as told:
        parse(text)
    assert "job file" not in str(told.value)


def test_weight_decay_may_be_searched_on_the_target_itself() -> None:
    space = {"weight_decay": {"log": [1e-5, 1e-2]}, "lr_decay": {"uniform": [0, 1]}}
    assert from_values({**GOOD, "space": space, "shrink": 1}).ladder == ()


def test_a_rate_that_only_sounds_like_weight_decay_may_be_searched() -> None:
    from_values({**GOOD, "space": {"lr_decay": {"uniform": [0, 1]}, "drops": {"int": [1, 90]}}})


def test_a_deadline_below_an_epoch_of_the_target_is_told() -> None:
    study = from_values({**GOOD, "deadline": "10s"})
    assert deadline_problem(study, 12.0) == "deadline: 10 s is less than an epoch of the target, which takes 12 s"
    assert deadline_problem(study, 9.0) == ""
    assert deadline_problem(from_values(GOOD), 1e9) == ""
