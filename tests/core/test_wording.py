"""Sentences for people have the right number, and name the kind of an error that is no sentence."""

from __future__ import annotations

import pytest
from coadapt.core.wording import amount, in_words, n_gpus, span


def test_one_gpu_is_no_gpus() -> None:
    assert [n_gpus(count) for count in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]


def test_an_error_that_is_a_sentence_stands_alone_and_others_name_their_kind() -> None:
    assert in_words(ValueError("plan: job a gets no node")) == "plan: job a gets no node"
    assert in_words(KeyError("a")) == "KeyError: 'a'"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1.0, "0 s"),
        (0.01, "under 0.1 s"),
        (0.4, "0.4 s"),
        (29.6, "30 s"),
        (120.0, "2 min"),
        (9000.0, "2.5 h"),
    ],
)
def test_a_span_of_time_is_told_in_one_unit(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_a_part_of_gpus_is_told_as_such() -> None:
    assert [amount(2, "t4"), amount(1, "t4", 0.5), amount(2, "t4", 0.5)] == ["2xt4", "0.5xt4", "0.5 of 2xt4"]
