"""Learning rates by layer are those of mup, and schedulers, scripts and checkpoints see only their own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from coadapt.executor.training.fused.group import TrialGroup
from coadapt.executor.training.fused.trial_number import TrialNumber
from coadapt.executor.training.shrunk.parametrise import Family, rate_factors
from coadapt.executor.training.shrunk.rates import FAMILIES, LayerRates
from coadapt.executor.training.shrunk.shrink import narrowed, shrink
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

S = 8
IMAGES = DataLoader(TensorDataset(torch.zeros(64, 1, 8, 8).normal_(), torch.arange(64) % 10), 16)
# mup multiplies rates by powers of width over base width, which is 1/S here: MuSGD and MuAdam of the package, and
# table 8 of Tensor Programs V, where the readout has a multiplier. Gains and biases count as vectors.
MUP = {
    "0.weight": (1 / S, 1),
    "0.bias": (1 / S, 1),
    "1.weight": (1 / S, 1),
    "1.bias": (1 / S, 1),
    "3.weight": (1, S),
    "3.bias": (1 / S, 1),
    "5.weight": (1 / S, 1),  # depthwise: one dimension of width
    "7.weight": (1, S),
    "9.weight": (1 / S, 1),
    "9.bias": (1, 1),
}


def net() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 64, 3),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, groups=64, bias=False),
        nn.Flatten(),
        nn.Linear(256, 64, bias=False),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


@pytest.mark.parametrize(("family", "column"), [(Family.SGD, 0), (Family.ADAM, 1)])
def test_factors_are_those_of_mup(family: Family, column: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = net()
    factors = rate_factors(narrowed(model, S, IMAGES), family)
    assert {name: factors[id(one)] for name, one in model.named_parameters()} == {
        name: pair[column] for name, pair in MUP.items()
    }


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 2, 256, dropout=0.0, batch_first=True)
        self.table, self.blocks, self.last = (
            nn.Embedding(12, 128),
            nn.TransformerEncoder(layer, 1),
            nn.Linear(128, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.blocks(self.table((x.flatten(1)[:, :6].abs() * 4).long().clamp(max=11))).mean(1))


@pytest.mark.parametrize(("family", "hidden", "vector"), [(Family.SGD, 1, 1 / S), (Family.ADAM, S, 1)])
def test_factors_of_a_transformer_are_those_of_mup(family: Family, hidden: float, vector: float) -> None:
    model = Words()
    factors = rate_factors(narrowed(model, S, IMAGES), family)
    matrices = {"self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear1.weight", "linear2.weight"}
    for name, one in model.named_parameters():
        expected = hidden if name.removeprefix("blocks.layers.0.") in matrices else vector
        assert factors[id(one)] == (1 if name == "last.bias" else expected), name


def narrow(
    kind: str, monkeypatch: pytest.MonkeyPatch, made: Callable[[], nn.Module] = net, **settings: Any
) -> tuple[nn.Module, torch.optim.Optimizer]:
    monkeypatch.setenv("COADAPT_SHRINK", str(S))
    torch.manual_seed(0)
    model = made()
    optimizer = getattr(torch.optim, kind)(model.parameters(), **settings)
    return model, optimizer


def train(model: nn.Module, optimizer: torch.optim.Optimizer, scheduler: Any = None) -> list[Any]:
    losses = []
    for x, y in IMAGES:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("kind", [kind.__name__ for kind in FAMILIES])
def test_a_step_is_that_of_groups_with_rates_of_their_own(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer = narrow(kind, monkeypatch, lr=0.01, weight_decay=0.01)
    shrink([model], [], [optimizer], IMAGES)
    by_hand = copy.deepcopy(model)
    family = FAMILIES[getattr(torch.optim, kind)]
    groups = []
    for name, one in by_hand.named_parameters():
        factor = MUP[name][0 if family is Family.SGD else 1]
        groups.append({"params": [one], "lr": 0.01 * factor, "weight_decay": 0.01 / factor})
    train(model, optimizer)
    train(by_hand, getattr(torch.optim, kind)(groups))
    for own, other in zip(model.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(own, other)


def made_scheduler(name: str, optimizer: torch.optim.Optimizer) -> Any:
    kinds = torch.optim.lr_scheduler
    return {
        "StepLR": lambda: kinds.StepLR(optimizer, 2, gamma=0.5),
        "CosineAnnealingLR": lambda: kinds.CosineAnnealingLR(optimizer, 4, eta_min=0.001),
        "OneCycleLR": lambda: kinds.OneCycleLR(optimizer, 0.1, total_steps=8, cycle_momentum=False),
        "LambdaLR": lambda: kinds.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
    }[name]()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["StepLR", "CosineAnnealingLR", "OneCycleLR", "LambdaLR"])
def test_schedulers_made_before_see_the_rates_of_the_script(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer = narrow("SGD", monkeypatch, lr=0.05)
    scheduler = made_scheduler(name, optimizer)
    shrink([model], [], [optimizer], IMAGES)
    plain = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.05)
    other = made_scheduler(name, plain)
    before = [one.detach().clone() for one in model.parameters()]
    x, y = next(iter(IMAGES))
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        rate = optimizer.param_groups[0]["lr"]
        optimizer.step()
        scheduler.step()
        plain.step()
        other.step()
        for (at, own), was in zip(model.named_parameters(), before, strict=True):
            torch.testing.assert_close(own.detach(), was - rate * MUP[at][0] * own.grad)
        before = [one.detach().clone() for one in model.parameters()]
        assert optimizer.param_groups[0]["lr"] == plain.param_groups[0]["lr"]


def test_a_rate_that_the_script_sets_itself_is_multiplied_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer = narrow("SGD", monkeypatch, lr=1.0)
    shrink([model], [], [optimizer], IMAGES)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = [one.detach().clone() for one in model.parameters()]
    train(model, optimizer)
    assert all(torch.equal(own, was) for own, was in zip(model.parameters(), before, strict=True))


def test_other_hooks_may_change_rates_for_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session multiplies rates by the batch size in this way, before or behind."""
    model, optimizer = narrow("SGD", monkeypatch, lr=0.5)
    saved: list[float] = []

    def before(own: torch.optim.Optimizer, *_: Any) -> None:
        saved[:] = [group["lr"] for group in own.param_groups]
        for group in own.param_groups:
            group["lr"] = group["lr"] * 2

    def after(own: torch.optim.Optimizer, *_: Any) -> None:
        for group, rate in zip(own.param_groups, saved, strict=False):
            group["lr"] = rate

    first = optimizer.register_step_pre_hook(before), optimizer.register_step_post_hook(after)
    shrink([model], [], [optimizer], IMAGES)
    x, y = next(iter(IMAGES))
    for turn in range(2):
        was = {name: one.detach().clone() for name, one in model.named_parameters()}
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        for name, own in model.named_parameters():
            torch.testing.assert_close(own.detach(), was[name] - 2 * 0.5 * MUP[name][0] * own.grad)
        assert [group["lr"] for group in optimizer.param_groups] == [0.5]
        if turn == 0:  # the other order
            for handle in first:
                handle.remove()
            optimizer.register_step_pre_hook(before)
            optimizer.register_step_post_hook(after)


def test_a_step_that_is_broken_off_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer = narrow("SGD", monkeypatch, lr=0.1)
    shrink([model], [], [optimizer], IMAGES)

    def breaks() -> float:
        raise KeyError("lost")

    with pytest.raises(KeyError):
        optimizer.step(breaks)
    assert len(optimizer.param_groups) == 1
    assert len(optimizer.param_groups[0]["params"]) == len(list(model.parameters()))


def test_a_checkpoint_of_the_optimizer_goes_on_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer = narrow("Adam", monkeypatch, lr=0.01)
    shrink([model], [], [optimizer], IMAGES)
    train(model, optimizer)
    kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    expected = train(model, optimizer)
    other, again = narrow("Adam", monkeypatch, lr=0.5)
    shrink([other], [], [again], IMAGES)
    other.load_state_dict(kept[0])
    again.load_state_dict(kept[1])
    assert train(other, again) == expected


def test_parameters_added_later_have_the_script_s_rate() -> None:
    own, later = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([own], lr=0.5)
    LayerRates(optimizer, {id(own): 0.5})
    optimizer.add_param_group({"params": [later]})
    (own.sum() + later.sum()).backward()
    optimizer.step()
    assert (own[0].item(), later[0].item()) == (0.75, 0.5)


@pytest.mark.parametrize(("kind", "made"), [("SGD", net), ("AdamW", net), ("AdamW", Words)])
def test_trials_of_a_narrow_group_train_as_alone(kind: str, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = [0.002, 0.0005, 0.01]
    alone = []
    for lr in rates:
        model, optimizer = narrow(kind, monkeypatch, made, lr=lr)
        scheduler = made_scheduler("StepLR", optimizer)
        shrink([model], [], [optimizer], IMAGES)
        alone.append([train(model, optimizer, scheduler) for _ in range(2)])
    model, optimizer = narrow(kind, monkeypatch, made, lr=TrialNumber(rates))
    scheduler = made_scheduler("StepLR", optimizer)
    shrink([model], [], [optimizer], IMAGES)
    group = TrialGroup([model], [optimizer], [scheduler], 3)
    losses = train(model, optimizer, scheduler)
    for trial in range(3):
        assert [loss.of(trial) for loss in losses] == pytest.approx(alone[trial][0], abs=1e-3)
    group.keep([2, 0])
    losses = train(model, optimizer, scheduler)
    for at, trial in enumerate((2, 0)):
        assert [loss.of(at) for loss in losses] == pytest.approx(alone[trial][1], abs=1e-3)
