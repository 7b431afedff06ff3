"""What a script changes beside its model moves once by a batch, however many passes the batch takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from coadapt.executor.training.state.beside import Beside
from coadapt.executor.training.state.prepared import Prepared, identify
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset


class Counts:
    """A script's own object with state."""

    def __init__(self) -> None:
        self.batches = 0

    def state_dict(self) -> dict[str, Any]:
        return {"batches": self.batches}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.batches = state["batches"]


class Parts:
    """A model with BatchNorm, an average of it that is given to `prepare`, and a teacher that is not."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        self.teacher = nn.Linear(2, 2)
        self.counts = Counts()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.zeros(8, 3)), 8)
        self.average.requires_grad_(False)
        self.prepared: Prepared = identify([self.model, self.optimizer, loader, self.average, self.counts])


def batch() -> Tensor:
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(1))


def in_passes(parts: Parts, passes: int) -> None:
    """Make a training step in the way of the session."""
    beside = Beside(parts.prepared, full=True, several=passes > 1)
    for number, part in enumerate(batch().chunk(passes)):
        last = number == passes - 1
        parts.model(part).square().mean().backward()
        if last:
            parts.optimizer.step()
        parts.average.update_parameters(parts.model)
        with torch.no_grad():
            parts.teacher.weight += 1  # that nobody was told of
        parts.counts.batches += 1
        parts.optimizer.param_groups[0]["lr"] *= 0.5
        if passes > 1:
            beside.pass_done(len(part), last)


@pytest.mark.parametrize("passes", [1, 2, 4])
def test_rates_counts_and_averages_move_once(passes: int) -> None:
    parts = Parts()
    teacher = parts.teacher.weight.clone()
    in_passes(parts, passes)
    assert parts.optimizer.param_groups[0]["lr"] == 0.05
    assert parts.counts.batches == 1
    assert int(parts.average.n_averaged) == 1
    torch.testing.assert_close(parts.teacher.weight, teacher + 1)


def test_an_average_follows_the_step_and_not_the_passes_before_it() -> None:
    parts, first = Parts(), Parts()
    for _ in range(2):
        in_passes(parts, 2)
    assert int(parts.average.n_averaged) == 2
    held = dict(parts.average.module.named_parameters())
    started = dict(first.model.named_parameters())
    assert any(not torch.equal(held[name], started[name]) for name in held)


def test_running_statistics_move_by_the_mean_of_all_passes() -> None:
    parts = Parts()
    norm = parts.model[1]
    in_passes(parts, 2)
    plain = Parts()
    moments = [plain.model[0](part).detach() for part in batch().chunk(2)]
    mean = torch.stack([part.mean(0) for part in moments]).mean(0)
    torch.testing.assert_close(norm.running_mean, 0.1 * mean)
    assert int(norm.num_batches_tracked) == 1


def test_a_batch_that_has_to_be_done_again_leaves_all_as_it_was() -> None:
    parts = Parts()
    norm, teacher = parts.model[1], parts.teacher.weight.clone()
    averaged = [tensor.clone() for tensor in parts.average.state_dict().values()]
    beside = Beside(parts.prepared, full=True)
    parts.model(batch())
    parts.average.update_parameters(parts.model)
    parts.counts.batches += 1
    parts.optimizer.param_groups[0].update(lr=9.0, momentum=0.5)
    with torch.no_grad():
        parts.teacher.weight += 1
    beside.restore()
    assert (parts.counts.batches, parts.optimizer.param_groups[0]["lr"]) == (0, 0.1)
    assert parts.optimizer.param_groups[0]["momentum"] == 0
    assert norm.running_mean.abs().sum() == 0
    assert int(norm.num_batches_tracked) == 0
    torch.testing.assert_close(parts.teacher.weight, teacher)
    torch.testing.assert_close(list(parts.average.state_dict().values()), averaged)


def test_a_rate_kept_in_a_tensor_comes_back_as_often_as_it_is_put_back_and_stays_the_same_tensor() -> None:
    parts = Parts()
    group = parts.optimizer.param_groups[0]
    rate = group["lr"] = torch.tensor(0.1)
    beside = Beside(parts.prepared, full=False)
    for _ in range(2):
        group["lr"].mul_(0.5)
        beside.restore()
        assert float(group["lr"]) == pytest.approx(0.1)
        assert group["lr"] is rate, "a compiled step, or the script, may hold it"
