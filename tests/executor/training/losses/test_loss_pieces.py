"""A backward over some samples of a part is told from one over all of them, by the shapes of its data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from coadapt.executor.training.losses.loss_kind import Kind
from coadapt.executor.training.losses.loss_pieces import Piece, add_up, piece_of, rows_of
from torch import Tensor, nn
from torch.nn import functional as F

PART, BATCH, TOKENS = 8, 16, 5
Forward = Callable[[int], Tensor]


def linear(rows: int) -> Tensor:
    return nn.Linear(6, 4)(torch.randn(rows, 6))


def tokens(rows: int) -> Tensor:
    """Return the outputs of a model whose positions have a shape of their own."""
    words, places = nn.Embedding(9, 6), nn.Embedding(TOKENS, 6)
    return nn.Linear(6, 9)(words(torch.zeros(rows, TOKENS, dtype=torch.long)) + places(torch.arange(TOKENS)))


def recurrent(rows: int) -> Tensor:
    """Time comes first."""
    return nn.LSTM(6, 4)(torch.randn(TOKENS, rows, 6))[0]


def images(rows: int) -> Tensor:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten())(torch.randn(rows, 3, 6, 6))


def spectral(rows: int) -> Tensor:
    return nn.utils.parametrizations.spectral_norm(nn.Linear(6, 2))(torch.randn(rows, 6))


@pytest.mark.parametrize("forward", [linear, tokens, recurrent, images, spectral])
def test_rows_are_those_that_the_loss_was_computed_from(forward: Forward) -> None:
    assert rows_of([forward(PART).square().mean()], PART) == PART
    if forward is not recurrent:  # it may have any length
        assert rows_of([forward(3).square().mean()], PART) == 3


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        (lambda x: x.square().mean() * 2 / PART, Kind.MEAN),
        (lambda x: x.square().sum() / 2 * (2 / PART), Kind.MEAN),
        (lambda x: x.square().sum() / PART, Kind.MEAN),
        (lambda x: x.square().mean() * 2 / BATCH, Kind.SUM),
        (lambda x: 0.3 * x.square().sum(), Kind.SUM),
        (lambda x: x.square().mean() / 4, Kind.MEAN),  # four pieces of two samples
        (lambda x: x.square().mean() / 3, Kind.BATCH),
        (lambda x: x.square().mean(), Kind.BATCH),
        (lambda x: x.square().mean().sqrt() * 2 / PART, Kind.BATCH),
        (lambda x: F.cross_entropy(x, torch.tensor([0, -100])) * 2 / PART, Kind.BATCH),
    ],
)
def test_a_piece_is_of_a_mean_where_each_sample_counts_as_one_of_the_part(
    loss: Callable[[Tensor], Tensor], kind: Kind
) -> None:
    assert piece_of([loss(linear(2))], PART, BATCH) == Piece(2, kind)


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([Piece(4, Kind.MEAN), Piece(4, Kind.MEAN)], True),
        ([Piece(8, Kind.SUM)], True),
        ([Piece(4, Kind.MEAN)], False),  # half of the part is not in it
        ([Piece(4, Kind.MEAN), Piece(4, Kind.SUM)], False),
        ([Piece(4, Kind.BATCH), Piece(4, Kind.BATCH)], False),
        ([], False),
    ],
)
def test_pieces_add_up_where_they_are_all_of_the_part(pieces: list[Piece], whole: bool) -> None:
    assert add_up(pieces, PART) is whole
