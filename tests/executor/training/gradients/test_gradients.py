"""After a backward every gradient is that of the whole batch, in however many passes, on however many replicas."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.data.units import Split
from coadapt.executor.training.gradients import backward
from coadapt.executor.training.gradients.gradients import Gradients
from coadapt.executor.training.gradients.part_plan import PartPlan
from coadapt.executor.training.losses.loss_kind import Kind
from torch import Tensor
from torch.nn import functional as F

from tests.support.gradient_runs import (
    CLASSES,
    SAMPLES,
    Backward,
    Model,
    alone,
    check,
    data,
    gradients_of,
    grads,
    in_parts,
    of,
    on_all,
    two_backwards,
)
from tests.support.opaque import OpaqueMean
from tests.support.ranks import on_ranks


def tokens(x: Tensor, y: Tensor) -> Tensor:
    """Return targets of which some are padding, more of them in some parts than in others."""
    return torch.where(x[:, 0] > 0.3, -100, y)


def second_is(loss: Callable[[Model, Tensor, Tensor], Tensor]) -> Backward:
    """Return a script that makes two backwards, of which the second has the batch done again."""

    def act(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
        model.loss(x, y).backward()
        loss(model, x, y).backward()

    return act


def with_a_weight(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
    gradients.weights.weigh(float((y > 0).sum()))
    ((model(x).square().sum(1) * (y > 0)).sum() / (y > 0).sum()).backward()


def in_pieces(size: Callable[[int], int], loss: Callable[[Tensor, Tensor, int], Tensor]) -> Backward:
    """Return a script that cuts what it is given into pieces, and makes a backward for each."""

    def act(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
        for a, b in zip(x.split(size(len(x))), y.split(size(len(x))), strict=True):
            loss(model(a), b, len(x)).backward()

    return act


def a_quarter(samples: int) -> int:
    """Return the size of a piece, as `Tensor.chunk(4)` cuts."""
    return -(-samples // 4)


def mean(scores: Tensor, y: Tensor, samples: int) -> Tensor:
    return F.cross_entropy(scores, y) * len(y) / samples


def squares(scores: Tensor, y: Tensor, samples: int) -> Tensor:
    return (scores - F.one_hot(y, CLASSES)).square().mean() * (len(y) / samples)


def total(scores: Tensor, y: Tensor, samples: int) -> Tensor:
    return F.cross_entropy(scores, y, reduction="sum")


def quartered(scores: Tensor, y: Tensor, samples: int) -> Tensor:
    return F.cross_entropy(scores, y) / 4


PIECES: dict[str, Backward] = {
    "pairs, weighed": in_pieces(lambda samples: 2, mean),
    "pairs, weighed by hand": in_pieces(lambda samples: 2, squares),
    "pairs, summed": in_pieces(lambda samples: 2, total),
    "pairs, summed, over the part": in_pieces(lambda samples: 2, lambda s, y, n: total(s, y, n) / n),
    "pairs, over the batch": in_pieces(lambda samples: 2, lambda s, y, n: mean(s, y, SAMPLES)),
    "fours": in_pieces(lambda samples: 4, mean),
    "quarters": in_pieces(a_quarter, mean),
    "quarters, divided by four": in_pieces(a_quarter, quartered),
    "pairs with padding": in_pieces(
        lambda samples: 2,
        lambda s, y, n: F.cross_entropy(s, torch.where(y == 0, -100, y).index_fill(0, y[:1] * 0, 1)),
    ),
    "pairs and weight decay": in_pieces(
        lambda samples: 2, lambda s, y, n: mean(s, y, n) + 0.1 * s.square().mean()
    ),
    "pairs that meet": in_pieces(lambda samples: 2, lambda s, y, n: (s @ s.T).mean() * len(y) / n),
    "an opaque mean": in_pieces(lambda samples: 2, lambda s, y, n: OpaqueMean.apply(s.square()) * len(y) / n),
}


def both_classes(model: Model, x: Tensor, y: Tensor) -> Tensor:
    scores, mask, wanted = model(x), y > 0, F.one_hot(y, CLASSES).float()
    return F.mse_loss(scores[mask], wanted[mask]) + 0.5 * F.mse_loss(scores[~mask], wanted[~mask])


CHOSEN: dict[str, Backward] = {
    "one class": of(lambda m, x, y: F.mse_loss(m(x)[y > 0], F.one_hot(y, CLASSES).float()[y > 0])),
    "one class of targets": of(lambda m, x, y: F.cross_entropy(m(x)[y > 0], y[y > 0])),
    "one class of inputs": of(lambda m, x, y: F.mse_loss(m(x[y > 0]), F.one_hot(y, CLASSES).float()[y > 0])),
    "both classes": of(both_classes),
    "values, not samples": of(lambda m, x, y: F.mse_loss(s := m(x)[m(x) > 0], s.detach() * 2)),
    "half of the inputs": of(lambda m, x, y: m.loss(x[: len(x) // 2], y[: len(x) // 2])),
    "half of the outputs": of(lambda m, x, y: F.cross_entropy(m(x)[: len(x) // 2], y[: len(x) // 2])),
    "half, by indices": of(lambda m, x, y: F.cross_entropy(m(x)[torch.arange(len(x) // 2)], y[: len(x) // 2])),
    "the first sample": of(lambda m, x, y: F.cross_entropy(m(x)[0], y[0])),
    "a loss of a mean": of(lambda m, x, y: F.mse_loss(m(x).mean(), torch.tensor(3.0))),
    "a loss of means": of(lambda m, x, y: F.mse_loss(m(x).mean(0), torch.ones(CLASSES))),
}


def two_tasks(model: Model, x: Tensor, y: Tensor, targets: Tensor) -> Tensor:
    """Add two means times trained weights, and these weights."""
    losses = torch.stack([model.loss(x, y), F.cross_entropy(model(x), targets)])
    weights = model.aside.bias[:2]
    return (torch.exp(-weights) * losses + weights).sum()


ACTS: dict[str, Backward] = {
    "a method of the model": of(lambda m, x, y: m.loss(x, y)),
    "cross_entropy": of(lambda m, x, y: F.cross_entropy(m(x), y)),
    "cross_entropy, summed": of(lambda m, x, y: F.cross_entropy(m(x), y, reduction="sum")),
    "targets that are ignored": of(lambda m, x, y: F.cross_entropy(m(x), tokens(x, y))),
    "weighted classes": of(lambda m, x, y: F.cross_entropy(m(x), y, weight=torch.tensor([1.0, 3.0, 0.5]))),
    "smoothed and weighted": of(
        lambda m, x, y: F.cross_entropy(m(x), y, weight=torch.tensor([1.0, 3.0, 0.5]), label_smoothing=0.1)
    ),
    "a sum over the batch size": of(lambda m, x, y: m(x).square().sum() / SAMPLES),
    "a sum over this part": of(lambda m, x, y: m(x).square().sum() / len(x)),
    "a mean of what is counted": of(lambda m, x, y: (m(x).square().sum(1) * (y > 0)).sum() / (y > 0).sum()),
    "weight decay in the loss": of(lambda m, x, y: m.loss(x, y) + 0.1 * m.head.weight.square().sum()),
    "terms of several kinds": of(lambda m, x, y: m.loss(x, y) + 0.1 * m(x).square().sum()),
    "a mean and a counted mean": of(lambda m, x, y: m.loss(x, y) + F.cross_entropy(m(x), tokens(x, y))),
    "two backwards": two_backwards,
    "two backwards, the second an opaque mean": second_is(lambda m, x, y: OpaqueMean.apply(m(x).square())),
    "two backwards, the second over pairs": second_is(
        lambda m, x, y: (m(x)[:, None] - m(x)[None]).square().mean()
    ),
    "a given weight": with_a_weight,
    "an opaque mean": of(lambda m, x, y: OpaqueMean.apply((m(x) - F.one_hot(y, CLASSES)).square())),
    "a root of a mean": of(lambda m, x, y: m.loss(x, y).sqrt()),
    "pairs of samples": of(lambda m, x, y: (m(x)[:, None] - m(x)[None]).square().mean()),
    "two tasks, weighed by what is trained": of(lambda m, x, y: two_tasks(m, x, y, y)),
    "two tasks, one of them with padding": of(lambda m, x, y: two_tasks(m, x, y, tokens(x, y))),
    "a factor that is a tensor": of(lambda m, x, y: torch.tensor(2.0) * m(x).square().sum()),
    **{f"in pieces: {name}": act for name, act in PIECES.items()},
    **{f"of some samples: {name}": act for name, act in CHOSEN.items()},
    "all at once": lambda g, m, x, y: torch.autograd.backward([m.loss(x, y), m(x).square().mean()]),
}


@pytest.mark.parametrize(("replicas", "passes"), [(1, 3), (2, 1), (3, 2)])
@pytest.mark.parametrize("name", ACTS)
def test_the_gradient_is_that_of_the_whole_batch(name: str, replicas: int, passes: int) -> None:
    check(on_all(replicas, passes, ACTS[name]), alone(ACTS[name]))


@pytest.mark.parametrize(
    "name",
    [
        "a method of the model",
        "cross_entropy, summed",
        "targets that are ignored",
        "two backwards, the second an opaque mean",
    ],
)
def test_what_a_script_accumulates_over_batches_adds_up(name: str) -> None:
    check(on_all(2, 2, ACTS[name], batches=3), alone(ACTS[name], batches=3))


@pytest.mark.parametrize("name", ["an opaque mean", "a mean of what is counted"])
def test_a_batch_is_done_again_only_until_it_is_known_what_its_loss_is(name: str) -> None:
    assert {tries for _, tries in on_all(2, 1, ACTS[name], batches=4)} == {1}


@pytest.mark.parametrize("name", ["a root of a mean", "pairs of samples"])
def test_a_loss_that_is_no_sum_over_samples_is_computed_from_whole_batches(name: str) -> None:
    check(on_all(2, 2, ACTS[name], loss=Kind.BATCH), alone(ACTS[name]))


def is_whole(replicas: int, act: Backward, batches: int = 2) -> bool:
    """Return whether each replica computes whole batches, after some of them."""

    def train(group: Group) -> bool:
        model = Model()
        gradients = gradients_of(model, group)
        for _ in range(batches):
            in_parts(gradients, model, act, Split(replicas, SAMPLES), group, data())
        return gradients.weights.whole

    (found,) = set(on_ranks(replicas, train))
    return found


@pytest.mark.parametrize(
    ("replicas", "name", "whole"),
    [
        (2, "pairs, weighed", True),  # parts of 7 and 6 samples are 4 and 3 pieces
        (2, "fours", False),  # 4 + 3 and 4 + 2
        (2, "quarters, divided by four", True),
        (2, "pairs and weight decay", True),
        (3, "quarters", True),  # 2 + 2 + 1 and 1 + 1 + 1 + 1
        pytest.param(7, "pairs, weighed", False, marks=pytest.mark.slow),  # each part is one piece
        pytest.param(7, "quarters", True, marks=pytest.mark.slow),
    ],
)
def test_pieces_of_parts_add_up_where_each_is_weighed_by_its_samples_and_parts_have_as_many(
    replicas: int, name: str, whole: bool
) -> None:
    assert is_whole(replicas, PIECES[name]) is whole


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("one class", False),
        ("one class of targets", False),
        ("one class of inputs", True),  # looks like a half
        ("both classes", False),
        ("half of the inputs", True),
        ("half of the outputs", True),
        ("half, by indices", True),
        ("the first sample", True),
    ],
)
def test_a_mean_over_what_a_mask_chooses_is_divided_and_one_over_places_is_not(name: str, whole: bool) -> None:
    assert is_whole(2, CHOSEN[name]) is whole


def test_two_tasks_that_are_weighed_by_what_is_trained_are_divided_as_long_as_no_target_is_left_out() -> None:
    assert not is_whole(2, ACTS["two tasks, weighed by what is trained"])
    assert is_whole(2, ACTS["two tasks, one of them with padding"])


def test_who_has_seen_whole_batches_tells_that_they_are_in_pieces() -> None:
    """A part as small as one piece looks like no piece; a factor for all four pieces is wrong there."""

    act = in_pieces(lambda samples: 4, quartered)

    def train(group: Group) -> tuple[bool, list[Tensor | None]]:
        model, (x, y) = Model(), data()
        x, y = x[:12], y[:12]
        gradients = gradients_of(model)
        if group.rank == 0:
            gradients.begin_part(PartPlan(12, 12))
            act(gradients, model, x, y)
            gradients.begin_part(PartPlan(12, 12))
        gradients.attach(group)
        model.zero_grad()
        in_parts(gradients, model, act, Split(3, 12), group, (x, y))
        backward.watch(None)
        return gradients.weights.whole, grads(model)

    backward.watch(None)
    model, (x, y) = Model(), data()
    for a, b in zip(x[:12].split(4), y[:12].split(4), strict=True):
        quartered(model(a), b, 12).backward()
    for whole, found in on_ranks(3, train):
        assert whole
        check([(found, 1)], grads(model))


def test_gradients_that_no_backward_brought_are_combined_before_a_step() -> None:
    def act(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
        parameters = [*model.inside.parameters(), *model.head.parameters()]
        for parameter, found in zip(parameters, torch.autograd.grad(model.loss(x, y), parameters), strict=True):
            parameter.grad = found
        gradients.before_step(list(model.parameters()))

    check(on_all(2, 2, act), alone(act))


def test_one_replica_in_one_pass_is_left_alone() -> None:
    """Bit for bit, and the script's own gradient tensors stay."""
    model, (x, y) = Model(), data()
    gradients = gradients_of(model)
    gradients.begin_part(PartPlan(SAMPLES, SAMPLES))
    model.loss(x, y).backward()
    first = [parameter.grad for parameter in model.parameters()]
    model.loss(x, y).backward()
    backward.watch(None)
    assert all(p.grad is before for p, before in zip(model.parameters(), first, strict=True))
    plain = Model()
    for _ in range(2):
        plain.loss(x, y).backward()
    assert all(torch.equal(a, b) for a, b in zip(grads(model), grads(plain), strict=True) if a is not None)


def test_a_hidden_pass_shows_the_gradients_of_its_part_and_leaves_none_behind() -> None:
    model, (x, y) = Model(), data()
    gradients = gradients_of(model)
    gradients.begin_part(PartPlan(7, SAMPLES, parts=2, visible=False, last=False))
    model.loss(x[:7], y[:7]).backward()
    assert gradients.hidden
    assert model.head.weight.grad is not None
    gradients.begin_part(PartPlan(6, SAMPLES, parts=2))
    assert model.head.weight.grad is None
    model.loss(x[7:], y[7:]).backward()
    backward.watch(None)
    check([(grads(model), 1)], alone(ACTS["a method of the model"]))
