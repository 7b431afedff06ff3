"""The commonest operations give each trial what it has alone, of whatever shapes and kinds they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from coadapt.executor.training.fused import direct_rules
from coadapt.executor.training.fused.errors import CannotFuse
from coadapt.executor.training.fused.of_trials import of_trial
from coadapt.executor.training.fused.trial_number import TrialNumber
from coadapt.executor.training.fused.trial_tensor import DIRECT, TrialTensor
from torch import Tensor

LABELS = torch.tensor([0, 1, 2, 3])
FILTERS = (2, 3, 2, 2)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def filters(x: Tensor) -> Tensor:
    return x.flatten()[:12].reshape(2, 3, 2, 1) * torch.ones(FILTERS)


def pictures(x: Tensor) -> Tensor:
    """Return what a convolution of each trial gives, whose numbers are not beside each other in a stack."""
    return F.conv2d(drawn(4, 3, 5, 5), filters(x))


def normed(x: Tensor, training: bool) -> Any:
    mean, variance = x[0] * 0, x[0] * 0 + 1
    found = F.batch_norm(x, mean, variance, x[1], x[2], training=training, momentum=0.3)
    return found, mean, variance


def changed(x: Tensor) -> Any:
    """Change copies in place in ways that a script may, and return what has become of them."""
    x, row = x.clone(), x[0].clone()
    x[1].zero_()
    x[:, 2].add_(x[:, 1])
    x.view(-1).mul_(2)
    x.t()[0] /= 3
    x += 1
    x -= x[0].clone()
    row *= x.sum()
    row.copy_(torch.arange(5.0))
    return x, row


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: (F.linear(x, x), F.linear(x, x[:2], x[0, :2]), F.linear(drawn(2, 5), x, x[:, 0])),
        lambda x: (F.linear(x[0], x), F.linear(drawn(5), x), F.linear(drawn(2, 3, 5), x, x[:, 1])),
        lambda x: (F.linear(x, drawn(2, 5)), F.linear(x[None, None], x)),
        lambda x: F.conv2d(drawn(2, 3, 4, 4), filters(x), x[0, :2], stride=2, padding=1),
        lambda x: F.conv2d(drawn(2, 6, 4, 4), filters(x), groups=2),
        lambda x: F.conv2d(drawn(2, 6, 4, 4) * x[0, 0], filters(x), None, 1, "valid", 1, 2),
        lambda x: (
            F.conv1d(x, drawn(2, 4, 2)),
            F.conv1d(x[None], x[None, :, :2]),
            F.conv2d(drawn(3, 4, 4), filters(x)),
        ),
        lambda x: normed(x, True),
        lambda x: normed(x, False),
        lambda x: F.batch_norm(pictures(x), None, None, x[0, :2], None, True),
        lambda x: (F.group_norm(pictures(x), 2, x[0, :2], x[1, :2]), F.group_norm(x, 5)),
        lambda x: (F.layer_norm(x, (5,), x[0], x[1]), F.layer_norm(x, (4, 5)), F.layer_norm(x, (5,), None, x[2])),
        lambda x: (
            F.max_pool2d(pictures(x), 2),
            F.max_pool2d(pictures(x), 3, 1, padding=1),
            F.max_pool1d(x[None], 2),
        ),
        lambda x: F.max_pool2d(pictures(x), 2, return_indices=True),
        lambda x: (F.avg_pool2d(pictures(x), 2), F.adaptive_avg_pool2d(pictures(x), (1, 2))),
        lambda x: (
            pictures(x).view(4, -1),
            pictures(x).flatten(1),
            pictures(x).flatten(),
            pictures(x).reshape(-1, 2),
        ),
        lambda x: [F.cross_entropy(x, LABELS, reduction=one) for one in ("mean", "sum", "none")],
        lambda x: (F.cross_entropy(x, LABELS, ignore_index=2), F.cross_entropy(x, LABELS, label_smoothing=0.2)),
        lambda x: F.cross_entropy(x, LABELS, ignore_index=1, label_smoothing=0.2),
        lambda x: (
            F.cross_entropy(x, x.argmax(1)),
            F.cross_entropy(x, x.softmax(1)),
            F.cross_entropy(x[0], LABELS[1]),
        ),
        lambda x: (F.cross_entropy(drawn(4, 5), x.argmax(1)), F.cross_entropy(x.T[None], LABELS[None])),
        lambda x: F.cross_entropy(x, torch.full((4,), -100)),
        lambda x: (x.sum(), x.sum(0), x.sum(-1, keepdim=True), x.mean((0, 1)), x.mean(dim=(-1,)), x.sum().sum()),
        lambda x: (torch.mean(x, 1, True), torch.sum(x, dim=[0]), x.sum(dtype=torch.float64), x.sum(axis=1)),
        lambda x: (
            x.argmax(),
            x.argmax(1),
            torch.argmax(x, -1, keepdim=True),
            x.sum().argmax(),
            x.any(),
            x.mean().mean(),
        ),
        lambda x: (
            torch.linalg.vector_norm(x),
            torch.linalg.vector_norm(x, 1),
            torch.linalg.vector_norm(x, dim=0),
        ),
        lambda x: (torch.stack([x, x * 2], 1), torch.stack([x, torch.zeros(4, 5)]), torch.stack([x[0], x[1]], -1)),
        lambda x: (x + drawn(2, 1, 5), x * x[0], drawn(4, 5) - x, drawn(2, 4, 5) * x, x.sum(1) * x.T, x.sum() + x),
        lambda x: (
            x.double() * 2,
            x.int() * 0.5,
            x.int() / 2,
            (x > 0) * 2,
            x.int() + x,
            x.double() + x,
            x.half() + x,
        ),
        lambda x: (
            x.sum() * torch.ones(2),
            torch.ones(2) * x.sum(),
            x.sum().double() * torch.ones(2),
            x + torch.tensor(1),
        ),
        lambda x: (x == x[0], x > 0.5, x.argmax(1) == LABELS, (x > 0).float().mean(), x.ne(0), (x > 0) & (x < 1)),
        lambda x: (x.clamp(min=x[0]), x.clamp(0, 1), torch.clamp(x, max=torch.zeros(5)), x.clamp_min(0.1)),
        lambda x: (
            x**2,
            2**x,
            x.abs() ** x,
            1 - x,
            1 / x,
            x / x[:1],
            -x,
            F.leaky_relu(x, 0.3),
            F.gelu(x),
            F.elu(x, 2.0),
        ),
        lambda x: (torch.add(x, x, alpha=2), torch.add(x, drawn(5), alpha=2), torch.addcdiv(x, x, x + 9, value=2)),
        changed,
        lambda x: (F.dropout(x, 0.0), F.dropout(x, 0.4, training=False), F.dropout(x, 1.0)),
    ],
)
def test_an_operation_gives_each_trial_what_it_has_alone(compute: Any) -> None:
    x = drawn(3, 4, 5)
    found = compute(TrialTensor(x.clone()))
    for trial in range(3):
        alone = compute(x[trial].clone())
        parts = (
            zip(of_trial(found, trial), alone, strict=True)
            if isinstance(alone, (tuple, list))
            else [(found, alone)]
        )
        for own, other in parts:
            torch.testing.assert_close(of_trial(own, trial), other, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("func", [F.linear, F.conv2d, F.batch_norm, F.cross_entropy, F.relu, Tensor.add_])
def test_the_commonest_operations_have_a_rule(func: Any) -> None:
    assert DIRECT[func].__module__ == direct_rules.__name__


@pytest.mark.parametrize("view", [lambda x: x.view(4, -1), lambda x: x.flatten(1), lambda x: x.reshape(-1)])
def test_a_view_that_a_group_has_as_a_copy_is_not_changed_in_place(view: Any) -> None:
    found = view(pictures(TrialTensor(drawn(3, 4, 5))))
    with pytest.raises(CannotFuse, match="mul_: it would change what a view shows"):
        found.mul_(2)


@pytest.mark.parametrize(
    "change",
    [
        lambda plain, x: plain.add_(x.sum()),
        lambda plain, x: plain.__iadd__(x.sum(1)[:3]),
        lambda plain, x: plain.copy_(x[0, :3]),
        lambda plain, x: plain.__setitem__(0, x.sum()),
        lambda plain, x: plain.fill_(x.sum()),
        lambda plain, x: torch.mul(plain, x.sum(), out=plain),
    ],
)
def test_a_tensor_that_all_trials_have_takes_no_values_of_trials(change: Any) -> None:
    plain = torch.zeros(3)  # as many as there are trials
    with pytest.raises(CannotFuse, match="cannot run for several trials"):
        change(plain, TrialTensor(drawn(3, 4, 5)))
    assert torch.equal(plain, torch.zeros(3))


def test_a_tensor_is_shown_trial_by_trial() -> None:
    x = TrialTensor(torch.tensor([[0.5, 1.0], [0.25, 2.0]]))
    assert f"{x.sum():.2f}" == "1.50/2.25"
    assert [one.values for one in x.tolist()] == [(0.5, 0.25), (1.0, 2.0)]


def test_numpy_computes_with_numbers_for_each_trial() -> None:
    number = TrialNumber([1.0, 4.0])
    assert np.sqrt(number).values == (1.0, 2.0)
    assert (np.float64(2) * number).values == (2.0, 8.0)
    assert np.mean([number, number * 2]).values == (1.5, 6.0)
    with pytest.raises(CannotFuse, match="numbers of trials cannot be in an array"):
        np.ones(2) * number


def test_the_data_of_a_tensor_is_replaced_by_that_of_trials_only() -> None:
    x = TrialTensor(drawn(3, 4, 5))
    x.data = x.data * 2
    torch.testing.assert_close(of_trial(x, 1), 2 * drawn(3, 4, 5)[1])
    with pytest.raises(CannotFuse, match="a tensor of all trials cannot become"):
        x.data = torch.zeros(4, 5)
