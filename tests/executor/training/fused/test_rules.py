"""A rule gives each trial what it would have alone, also in gradients and in statistics, and else is not taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from coadapt.executor.training.fused.trial_tensor import TrialTensor, stacked
from torch import Tensor, nn

TRIALS = 3
TARGET = torch.tensor([0, 2, 1, 0])


@pytest.fixture(autouse=True)
def _double() -> Iterable[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


CASES: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "linear": (F.linear, ((4, 5), (3, 5), (3,))),
    "linear without bias": (F.linear, ((4, 5), (3, 5))),
    "linear of words": (F.linear, ((4, 2, 5), (3, 5), (3,))),
    "linear of one": (F.linear, ((5,), (3, 5), (3,))),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1), ((4, 2, 6), (3, 2, 3))),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, 2, 1), ((4, 2, 6, 6), (3, 2, 3, 3), (3,))),
    "conv2d same": (lambda x, w: F.conv2d(x, w, padding="same"), ((4, 2, 6, 6), (3, 2, 3, 3))),
    "conv2d in groups": (lambda x, w: F.conv2d(x, w, groups=2), ((4, 4, 6, 6), (6, 2, 3, 3))),
    "conv2d depthwise": (lambda x, w: F.conv2d(x, w, groups=4), ((4, 4, 6, 6), (4, 1, 3, 3))),
    "conv2d of one": (F.conv2d, ((2, 6, 6), (3, 2, 3, 3))),
    "conv3d": (F.conv3d, ((2, 2, 4, 4, 4), (3, 2, 3, 3, 3))),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (5,), w, b), ((4, 2, 5), (5,), (5,))),
    "layer norm without": (lambda x: F.layer_norm(x, (2, 5)), ((4, 2, 5),)),
    "group norm": (lambda x, w, b: F.group_norm(x, 2, w, b), ((4, 6, 3, 3), (6,), (6,))),
    "cross entropy": (lambda x: F.cross_entropy(x, TARGET), ((4, 3),)),
    "cross entropy smoothed": (lambda x: F.cross_entropy(x, TARGET, label_smoothing=0.1), ((4, 3),)),
    "cross entropy summed": (lambda x: F.cross_entropy(x, TARGET, reduction="sum"), ((4, 3),)),
    "cross entropy of each": (lambda x: F.cross_entropy(x, TARGET, reduction="none"), ((4, 3),)),
    "cross entropy of some": (lambda x: F.cross_entropy(x, torch.tensor([0, -100, 1, 2])), ((4, 3),)),
    "cross entropy weighed": (lambda x: F.cross_entropy(x, TARGET, torch.tensor([1.0, 2.0, 3.0])), ((4, 3),)),
    "cross entropy of pixels": (lambda x: F.cross_entropy(x, TARGET.view(4, 1)), ((4, 3, 1),)),
    "relu": (F.relu, ((4, 3),)),
    "gelu": (lambda x: F.gelu(x, approximate="tanh"), ((4, 3),)),
    "leaky relu": (lambda x: F.leaky_relu(x, 0.3), ((4, 3),)),
    "tanh": (lambda x: x.tanh(), ((4, 3),)),
    "max pool": (lambda x: F.max_pool2d(x, 2), ((4, 2, 6, 6),)),
    "max pool of one": (lambda x: F.max_pool2d(x, 2), ((2, 6, 6),)),
    "mean pool": (lambda x: F.avg_pool2d(x, 3, 2), ((4, 2, 6, 6),)),
    "adaptive pool": (lambda x: F.adaptive_avg_pool2d(x, 1), ((4, 2, 6, 6),)),
    "flatten": (lambda x: torch.flatten(x, 1), ((4, 2, 6),)),
    "flatten all": (lambda x: x.flatten(), ((4, 2, 6),)),
    "flatten the first": (lambda x: x.flatten(0, 1), ((4, 2, 6),)),
}


@pytest.mark.parametrize(
    ("name", "plain"), [(name, plain) for name, (_, of) in CASES.items() for plain in (False, True)[: len(of)]]
)
def test_each_trial_has_its_own_result_and_gradients(name: str, plain: bool) -> None:
    compute, shapes = CASES[name]
    values = [drawn(TRIALS, *shape) for shape in shapes]
    given: list[Any] = [TrialTensor(one.clone()).requires_grad_() for one in values]
    if plain:
        values[0], given[0] = values[0][:1].expand_as(values[0]), values[0][0].clone().requires_grad_()
    found = compute(*given)
    up = drawn(*stacked(found).shape)
    stacked(found).backward(up)
    total = torch.zeros_like(values[0][0])
    for trial in range(TRIALS):
        own = [one[trial].detach().clone().requires_grad_() for one in values]
        alone = compute(*own)
        torch.testing.assert_close(stacked(found)[trial], alone)
        alone.backward(up[trial])
        assert own[0].grad is not None
        total += own[0].grad
        for whole, one in list(zip(given, own, strict=True))[int(plain) :]:
            torch.testing.assert_close(stacked(whole.grad)[trial], one.grad)
    if plain:
        torch.testing.assert_close(given[0].grad, total)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(4, 2), (4, 2, 5), (4, 2, 5, 5)])
def test_statistics_over_a_batch_are_kept_for_each_trial(shape: tuple[int, ...], training: bool) -> None:
    x, parts = drawn(TRIALS, *shape), [drawn(TRIALS, 2).abs() + 0.5 for _ in range(4)]
    given = [TrialTensor(one.clone()) for one in parts]
    found = F.batch_norm(TrialTensor(x.clone()), *given, training, 0.2)
    for trial in range(TRIALS):
        own = [one[trial].clone() for one in parts]
        torch.testing.assert_close(stacked(found)[trial], F.batch_norm(x[trial], *own, training, 0.2))
        for whole, one in zip(given, own, strict=True):
            torch.testing.assert_close(stacked(whole)[trial], one)


def test_a_network_of_convolutions_copies_nothing_between_its_layers() -> None:
    x = F.conv2d(drawn(4, 1, 8, 8), TrialTensor(drawn(TRIALS, 4, 1, 3, 3)))
    for layer in (nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5)):
        x = layer(x)
        assert stacked(x).transpose(0, 1).is_contiguous(), "the batch is the first dimension in memory"
