"""What a script adds to its sums is known by what it computed of the samples it was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from coadapt.executor.training.variables import seen_sums
from coadapt.executor.training.variables.script_sums import Given, SampleSums
from coadapt.executor.training.variables.seen_sums import SeenSums
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import _get_current_function_mode_stack

SAMPLES = 5


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(seen_sums, "_compiles", False)
    yield
    assert not _get_current_function_mode_stack()


def labels(x: Tensor) -> Tensor:
    return x.argmax(1).roll(1)


# What is added for each part, and whether that makes a sum over samples.
ADDED: dict[str, tuple[Callable[[Tensor], Any], bool]] = {
    "a summed loss": (lambda x: F.mse_loss(x, x.flip(1), reduction="sum").item(), True),
    "a mean times the samples": (lambda x: F.cross_entropy(x, labels(x)).item() * len(x), True),
    "a mean": (lambda x: F.cross_entropy(x, labels(x)).item(), False),
    "an error reckoned by hand": (lambda x: x.abs().sum().item(), True),
    "its mean": (lambda x: x.abs().mean().item(), False),
    "its mean times the samples": (lambda x: torch.mean(x.abs()).item() * len(x), True),
    "hits": (lambda x: (x.argmax(1) == labels(x)).float().sum().item() + 0.5, False),
    "a loss module": (lambda x: nn.L1Loss(reduction="sum")(x, x.flip(1)).item(), True),
    "a vector of sums": (lambda x: x.square().sum(0), True),
    "a vector of means": (lambda x: x.square().mean(0), False),
    "a vector of means, times the samples": (lambda x: x.square().mean(0).numpy() * len(x), True),
    "two losses": (lambda x: torch.stack([x.abs().mean(), x.square().mean()]) * len(x), True),
    "two means": (lambda x: torch.stack([x.abs().mean(), x.square().mean()]), False),
}


@pytest.mark.parametrize("name", ADDED)
def test_sums_over_samples_are_told_from_means(name: str) -> None:
    add, over_samples = ADDED[name]
    sums, seen = SampleSums(), SeenSums()
    sums.begin_pass()
    generator = torch.Generator().manual_seed(0)
    kept = add(torch.ones(SAMPLES, 3)) * 0.0
    for _ in range(3):
        part = torch.randn(SAMPLES, 3, generator=generator)
        seen.begin(SAMPLES)
        sums.before_part(late=False)
        kept = kept + add(part)
        seen.end()
        sums.after_part(Given(SAMPLES, 2 * SAMPLES, lambda counts: seen.over([SAMPLES, *counts])))
        seen.drop()
    paths = {path.rpartition("/")[2] for path in sums.known.over_samples if "test_sums_over" in path}
    assert ("kept" in paths) is over_samples
    assert np.all(np.isfinite(np.asarray(kept)))


def test_penalties_on_parameters_are_of_no_samples() -> None:
    layer, seen = nn.Linear(3, SAMPLES), SeenSums()
    seen.begin(SAMPLES)
    penalty = layer.weight.square().sum()
    loss = layer(torch.ones(SAMPLES, 3)).square().sum()
    seen.end()
    assert seen.over([SAMPLES]) == [pytest.approx(loss.item())]
    assert penalty.item() > 0


def test_a_mean_over_tokens_is_counted_by_them() -> None:
    seen = SeenSums()
    x = torch.randn(SAMPLES, 3)
    seen.begin(SAMPLES)
    mean = F.cross_entropy(x, labels(x)).item()
    seen.end()
    assert seen.over([SAMPLES, 11]) == [pytest.approx(mean * SAMPLES), pytest.approx(mean * 11)]


def test_a_mode_that_the_script_has_entered_since_stays_in_place() -> None:
    seen = SeenSums()
    seen.begin(SAMPLES)
    with torch.device("cpu"):
        seen.end()
        torch.ones(SAMPLES, 2).sum()
        assert len(_get_current_function_mode_stack()) == 2
    assert seen.over([1]) == []
    seen.drop()


def test_scripts_that_compile_are_not_watched() -> None:
    seen_sums.compiled()
    seen = SeenSums()
    seen.begin(SAMPLES)
    torch.ones(SAMPLES, 2).sum()
    assert not _get_current_function_mode_stack()
    assert seen.over([SAMPLES]) == []
