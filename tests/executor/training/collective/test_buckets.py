"""Gradients that travel together lie in one piece of memory, of one type and device; words are at its end."""

from __future__ import annotations

import pytest
import torch
from coadapt.executor.training.collective import buckets
from coadapt.executor.training.collective.buckets import WORDS, Layout, fill_words

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill buckets with a few numbers: the first with 4 of float32, later ones with 16."""
    monkeypatch.setattr(buckets, "FIRST_BUCKET_BYTES", 16)
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 64)


def layout(*shapes: tuple[int, ...], dtypes: dict[int, torch.dtype] | None = None) -> Layout:
    parameters = [torch.zeros(shape, dtype=(dtypes or {}).get(i)) for i, shape in enumerate(shapes)]
    return Layout(range(len(parameters)), parameters, CPU)


def test_last_parameters_come_first_and_the_first_bucket_is_small() -> None:
    found = layout((8,), (8,), (8,), (2, 2), (2,))
    assert [bucket.numbers for bucket in found.buckets] == [[4, 3], [2, 1], [0]]
    assert {number: found.bucket_of[number] for number in range(5)} == {4: 0, 3: 0, 2: 1, 1: 1, 0: 2}


def test_each_gradient_has_its_place_in_the_memory_that_travels() -> None:
    found = layout((3,), (2, 2))
    (first, last) = found.buckets
    first.views[0].fill_(1)
    last.views[0].fill_(2)
    assert first.views[0].shape == (2, 2)
    assert first.flat.tolist() == [1] * 4
    assert last.flat.tolist() == [2] * 3 + [0] * WORDS
    assert last.gradients.tolist() == [2] * 3


def test_words_travel_at_the_end_of_the_last_bucket_only() -> None:
    found = layout((8,), (8,), (8,))
    fill_words(found.words, [float(n) for n in range(WORDS)])
    assert found.buckets[-1].flat[-WORDS:].tolist() == list(range(WORDS))
    assert [len(bucket.flat) - len(bucket.gradients) for bucket in found.buckets[:-1]] == [0] * (
        len(found.buckets) - 1
    )


def test_where_the_last_bucket_cannot_hold_exact_words_they_have_one_of_their_own() -> None:
    found = layout((4,), (4,), dtypes={0: torch.bfloat16})
    assert [bucket.numbers for bucket in found.buckets] == [[1], [0], []]
    assert found.words.dtype is torch.float32
    assert found.buckets[1].flat.numel() == 4


def test_a_backward_that_reaches_nothing_still_has_words() -> None:
    found = layout()
    assert [bucket.numbers for bucket in found.buckets] == [[]]
    assert len(found.words) == WORDS


def test_types_are_not_mixed() -> None:
    found = layout((1,), (1,), (1,), dtypes={1: torch.float64})
    assert sorted(bucket.numbers for bucket in found.buckets) == [[], [1], [2, 0]]
    assert {bucket.flat.dtype for bucket in found.buckets} == {torch.float32, torch.float64}


def test_a_new_backward_waits_for_every_gradient() -> None:
    found = layout((8,), (8,), (8,))
    found.buckets[0].waiting, found.buckets[0].work = 0, object()
    found.begin()
    assert [bucket.waiting for bucket in found.buckets] == [len(bucket.numbers) for bucket in found.buckets]
    assert {bucket.work for bucket in found.buckets} == {None}
