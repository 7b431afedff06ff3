"""A loss that may be another one of a whole batch than of its parts shows signs; plain losses show none."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from coadapt.executor.training.losses.loss_signs import constants_of, has_signs
from torch import Tensor, nn

SAMPLES, BATCH = 8, 16
X = torch.randn(SAMPLES, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(SAMPLES) % 3
WEIGHTS = torch.linspace(0.5, 2.0, SAMPLES)


def out() -> Tensor:
    torch.manual_seed(0)
    result: Tensor = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3))(X)
    return result


Loss = Callable[[Tensor], Tensor]
PLAIN: dict[str, Loss] = {
    "cross entropy": lambda o: F.cross_entropy(o, LABELS),
    "class weights": lambda o: F.cross_entropy(o, LABELS, weight=torch.tensor([1.0, 2.0, 3.0])),
    "accumulated": lambda o: F.cross_entropy(o, LABELS) / 3,
    "accumulated as often as it has samples": lambda o: F.cross_entropy(o, LABELS) / SAMPLES,
    "a sum": lambda o: F.mse_loss(o, X[:, :3], reduction="sum"),
    "weights of samples": lambda o: (F.cross_entropy(o, LABELS, reduction="none") * WEIGHTS).mean(),
    "a masked mean": lambda o: (o.square().sum(1) * (LABELS > 0)).sum() / (LABELS > 0).sum(),
    "a mean over sizes first": lambda o: o.square().mean(1).mean(),
    "a unit vector": lambda o: (1 - (F.normalize(o, dim=1) * F.normalize(X[:, :3], dim=1)).sum(1)).mean(),
}
SIGNS: dict[str, Loss] = {
    "times its size": lambda o: F.mse_loss(o, X[:, :3]) * len(o),
    "a mean taken off": lambda o: (o.sum(1) - o.sum(1).mean()).square().mean(),
    "normalised weights": lambda o: (o.square().sum(1) * (WEIGHTS / WEIGHTS.sum())).sum(),
    "standardised advantages": lambda o: (o.sum(1) * ((WEIGHTS - WEIGHTS.mean()) / WEIGHTS.std())).mean(),
    "a sum of means": lambda o: o.reshape(1, SAMPLES, 3).expand(8, -1, -1).square().mean((1, 2)).sum(),
}


@pytest.mark.parametrize("loss", PLAIN.values(), ids=PLAIN)
def test_a_plain_loss_has_no_signs(loss: Loss) -> None:
    assert not has_signs([loss(out())], SAMPLES, BATCH)


@pytest.mark.parametrize("loss", SIGNS.values(), ids=SIGNS)
def test_a_loss_that_goes_by_its_batch_has_signs(loss: Loss) -> None:
    assert has_signs([loss(out())], SAMPLES, BATCH)


def test_constants_of_parts_are_compared() -> None:
    """Weights of classes that are counted in each part are no constants; those of the script are, and counts."""

    def of(weight: list[float], count: float) -> int:
        loss = F.cross_entropy(out(), LABELS, weight=torch.tensor(weight))
        return constants_of([loss + out().square().sum() / torch.tensor(count)], SAMPLES)

    assert of([1.0, 2.0, 3.0], 5.0) == of([1.0, 2.0, 3.0], 7.0)
    assert of([1.0, 2.0, 3.0], 5.0) != of([1.0, 2.0, 4.0], 5.0)
