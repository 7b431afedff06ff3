"""What a loss does over the samples of a batch is read from its graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from coadapt.executor.training.losses.loss_kind import Kind, Term, agreed, as_weight, summary
from coadapt.executor.training.losses.loss_terms import Unclear, fits, samples_meet, terms_of
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from tests.support.opaque import OpaqueMean

PART, BATCH, CLASSES, TOKENS = 6, 24, 3, 5
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inside = nn.Linear(7, 4)
        self.head = nn.Linear(4, CLASSES)
        self.temperature = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.inside(x)))


def kinds_of(loss: Loss, targets: Tensor | None = None) -> list[Kind]:
    model = Model()
    x = torch.randn(PART, 7)
    y = torch.arange(PART) % CLASSES if targets is None else targets
    return [term.kind for term in terms_of([loss(model, x, y)], PART, BATCH)]


LOSSES: dict[str, tuple[Loss, list[Kind]]] = {
    "mean": (lambda m, x, y: (m(x) - 1).square().mean(), [Kind.MEAN]),
    "sum": (lambda m, x, y: (m(x) - 1).square().sum(), [Kind.SUM]),
    "mse_loss": (lambda m, x, y: F.mse_loss(m(x), x[:, :3]), [Kind.MEAN]),
    "mse_loss, sum": (lambda m, x, y: F.mse_loss(m(x), x[:, :3], reduction="sum"), [Kind.SUM]),
    "mean of sums over features": (lambda m, x, y: m(x).square().sum(1).mean(), [Kind.MEAN]),
    "sum of means over features": (lambda m, x, y: m(x).square().mean(1).sum(), [Kind.SUM]),
    "cross_entropy": (lambda m, x, y: F.cross_entropy(m(x), y), [Kind.WEIGHTED]),
    "cross_entropy, sum": (lambda m, x, y: F.cross_entropy(m(x), y, reduction="sum"), [Kind.SUM]),
    "cross_entropy, none, then mean": (
        lambda m, x, y: F.cross_entropy(m(x), y, reduction="none").mean(),
        [Kind.MEAN],
    ),
    "a factor": (lambda m, x, y: 0.1 * m(x).mean() / 3, [Kind.MEAN]),
    "a sum over the batch size": (lambda m, x, y: m(x).sum() / BATCH, [Kind.SUM]),
    "a sum over this part": (lambda m, x, y: m(x).sum() / len(x), [Kind.MEAN]),
    "a masked mean": (lambda m, x, y: (m(x).sum(1) * (y > 0)).sum() / (y > 0).sum(), [Kind.SUM]),  # asked again
    "two terms": (lambda m, x, y: m(x).mean() + m(x).square().sum(), [Kind.MEAN, Kind.SUM]),
    "weight decay in the loss": (
        lambda m, x, y: m(x).mean() + 0.01 * m.head.weight.square().sum(),  # type: ignore[union-attr, operator]
        [Kind.MEAN, Kind.CONSTANT],
    ),
    "a trained temperature": (lambda m, x, y: m(x).mean() * m.temperature, [Kind.MEAN]),
    "stacked losses": (lambda m, x, y: torch.stack([m(x).mean(), m(x).abs().mean()]).sum(), [Kind.MEAN] * 2),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_told_by_its_graph(name: str) -> None:
    loss, kinds = LOSSES[name]
    assert kinds_of(loss) == kinds


def test_a_mean_over_targets_knows_how_many_it_counts() -> None:
    y = torch.tensor([0, 1, -100, 2, -100, 1])
    model = Model()
    (term,) = terms_of([F.cross_entropy(model(torch.randn(PART, 7)), y)], PART, BATCH)
    assert (term.kind, float(term.weight or 0), term.all_items) == (Kind.WEIGHTED, 4.0, 6.0)
    weights = torch.tensor([1.0, 2.0, 5.0])
    (term,) = terms_of([F.cross_entropy(model(torch.randn(PART, 7)), y, weight=weights)], PART, BATCH)
    assert (float(term.weight or 0), term.all_items) == (1 + 2 + 5 + 2, None)


@pytest.mark.parametrize(
    ("loss", "opaque"),
    [
        (lambda m, x, y: m(x).square().mean().sqrt(), False),
        (lambda m, x, y: m(x).mean() * m(x).square().mean(), False),
        (lambda m, x, y: m(x).mean() / m(x).square().mean(), False),
        (lambda m, x, y: m(x).logsumexp((0, 1)), False),
        (lambda m, x, y: OpaqueMean.apply(m(x)), True),
        (lambda m, x, y: torch.relu(1 - m(x).std(0)).mean(), False),  # what is left has no samples
        (lambda m, x, y: m(x).mean(0), False),  # not one number
    ],
)
def test_what_is_no_sum_of_reductions_is_said_to_be_unclear(loss: Loss, opaque: bool) -> None:
    with pytest.raises(Unclear) as unclear:
        kinds_of(loss)
    assert unclear.value.opaque is opaque


def normed(features: Tensor) -> Tensor:
    return F.normalize(features, dim=1)


MEET: dict[str, tuple[Loss, bool]] = {
    "each sample by itself": (lambda m, x, y: F.cross_entropy(m(x), y), False),
    "similarities of all pairs": (
        lambda m, x, y: F.cross_entropy(normed(m(x)) @ normed(m(x)).T, torch.arange(len(x))),
        True,
    ),
    "similarities with what is not trained": (lambda m, x, y: (m(x) @ torch.randn(3, PART)).mean(), True),
    "distances of all pairs": (lambda m, x, y: torch.cdist(m(x), m(x)).mean(), True),
    "pairs by broadcasting": (lambda m, x, y: (m(x)[:, None] - m(x)[None]).square().mean(), True),
    "a standard deviation over the batch": (lambda m, x, y: (m(x) / m(x).std(0)).abs().mean(), True),
    "samples centred over the batch": (lambda m, x, y: (m(x) - m(x).mean(0)).square().mean(), True),
    "a softmax over the batch": (lambda m, x, y: m(x).softmax(0).square().mean(), True),
    "weights that add up to 1 over the batch": (
        lambda m, x, y: (m(x).detach().abs().sum(1).softmax(0) * m(x).square().sum(1)).sum(),
        True,
    ),
    "weights whose mean over the batch is 1": (
        lambda m, x, y: (x[:, 0].square() / x[:, 0].square().mean() * m(x).square().mean(1)).mean(),
        True,
    ),
    "a mask of all samples": (lambda m, x, y: (torch.ones(len(x)) * m(x).square().mean(1)).mean(), False),
    "a mask of one sample": (
        lambda m, x, y: ((torch.arange(len(x)) == 1).float() * m(x).square().mean(1)).sum(),
        False,
    ),
    "weights of samples": (lambda m, x, y: (x[:, 0].abs() * m(x).square().mean(1)).sum(), False),
    "a softmax over classes": (lambda m, x, y: m(x).softmax(1).square().mean(), False),
    "a norm of each sample": (lambda m, x, y: normed(m(x)).mean(), False),
    "batch normalisation": (lambda m, x, y: F.batch_norm(m(x), None, None, training=True).abs().mean(), False),
    "a parameter as large as the batch": (lambda m, x, y: (m(x) @ m.bank).mean(), False),  # type: ignore[operator]
}


@pytest.mark.parametrize("name", MEET)
def test_samples_that_meet_each_other_are_seen(name: str) -> None:
    loss, meet = MEET[name]
    model, x = Model(), torch.randn(PART, 7)
    model.bank = nn.Parameter(torch.randn(CLASSES, PART))
    terms = terms_of([loss(model, x, torch.arange(PART) % CLASSES)], PART, BATCH)
    assert samples_meet(terms, PART) is meet


def test_attention_within_each_sample_is_no_meeting() -> None:
    """Even where there are as many tokens as samples."""
    tokens = nn.Linear(8, 8)(torch.randn(PART, PART, 8))
    seen = F.softmax(tokens @ tokens.transpose(1, 2), -1) @ tokens
    terms = terms_of([seen.square().mean()], PART, BATCH)
    assert not samples_meet(terms, PART)


@pytest.mark.parametrize(
    ("kinds", "whole"),
    [
        ([Kind.MEAN], Kind.MEAN),
        ([Kind.MEAN, Kind.MEAN], Kind.MEAN),
        ([Kind.MEAN, Kind.CONSTANT], Kind.MEAN),
        ([Kind.CONSTANT], Kind.MEAN),
        ([Kind.SUM, Kind.SUM], Kind.SUM),
        ([Kind.SUM, Kind.CONSTANT], Kind.MIXED),
        ([Kind.SUM, Kind.MEAN], Kind.MIXED),
        ([Kind.WEIGHTED], Kind.WEIGHTED),
        ([Kind.WEIGHTED, Kind.WEIGHTED], Kind.MIXED),
        ([Kind.WEIGHTED, Kind.MEAN], Kind.MIXED),
    ],
)
def test_terms_of_several_kinds_are_weighted_each_by_itself(kinds: list[Kind], whole: Kind) -> None:
    assert summary([Term(None, kind) for kind in kinds]) is whole


def test_a_count_that_looks_like_all_samples_on_one_replica_is_a_count_for_all() -> None:
    assert agreed([Kind.MEAN, Kind.WEIGHTED]) is Kind.WEIGHTED
    assert agreed([Kind.CONSTANT, Kind.MEAN]) is Kind.MEAN


@given(st.lists(st.tuples(st.integers(1, 20), st.floats(0.1, 10.0)), min_size=2, max_size=5))
def test_values_of_parts_and_of_the_whole_tell_means_from_sums(parts: list[tuple[int, float]]) -> None:
    samples, values = sum(count for count, _ in parts), [value for _, value in parts]
    mean = sum(count * value for count, value in parts) / samples
    assert fits(sum(values), parts) is Kind.SUM
    told = max(values) - min(values) > 1e-2 * max(values)
    assert fits(mean, parts) in ((Kind.MEAN,) if told else (Kind.MEAN, Kind.UNKNOWN))
    assert fits(3 * sum(values), parts) is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("whole", "parts"),
    [(1.0, [(4, 1.0)]), (1.0, [(4, 1.0), (4, 1.0)]), (float("nan"), [(4, 1.0), (4, 2.0)])],
)
def test_values_that_do_not_tell_are_not_guessed_from(whole: float, parts: list[tuple[int, float]]) -> None:
    assert fits(whole, parts) is Kind.UNKNOWN


@pytest.mark.parametrize("weight", [0, -1.5, float("nan"), float("inf"), torch.tensor(0.0)])
def test_a_weight_that_is_not_above_0_is_refused(weight: Any) -> None:
    with pytest.raises(ValueError, match=r"^weight: .* is not more than 0; give how many items"):
        as_weight(weight)


def test_a_weight_is_one_number() -> None:
    with pytest.raises(ValueError, match=r"^weight: a tensor of 3 elements is given; one number is needed$"):
        as_weight(torch.ones(3))
    assert as_weight(torch.tensor([4])) == 4.0
