"""A group of trials trains as each of its trials would alone, whoever joins or leaves it on the way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from coadapt.executor.training.fused.errors import CannotFuse
from coadapt.executor.training.fused.group import TrialGroup
from coadapt.executor.training.fused.hyperparameters import chosen
from coadapt.executor.training.fused.trial_number import TrialNumber
from coadapt.executor.training.fused.trial_tensor import TrialTensor, stacked
from torch import nn

Batch = tuple[torch.Tensor, torch.Tensor]
SETTINGS: dict[str, dict[str, list[float]]] = {
    "SGD": {"lr": [0.1, 0.05, 0.01, 0.2], "momentum": [0.9, 0.5, 0.0, 0.8], "weight_decay": [0, 1e-3, 1e-4, 0.1]},
    "Adam": {"lr": [1e-3, 1e-2, 3e-3, 1e-4]},
    "AdamW": {"lr": [1e-3, 1e-2, 3e-3, 1e-4], "weight_decay": [0.0, 1e-2, 0.1, 1e-3]},
}
STEPS = 6


class Images(nn.Module):
    """Convolutions with statistics over the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second, self.last = nn.Conv2d(4, 8, 3, stride=2), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.first(x)))
        return self.last(F.relu(self.second(x)).mean((2, 3)))


class Words(nn.Module):
    """A Transformer over the digits of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.blocks, self.last = nn.TransformerEncoder(layer, 1), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = (x.flatten(1)[:, :6].abs() * 4).long().clamp(max=7)
        return self.last(self.blocks(self.table(words)).mean(1))


def layers() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 5))


MODELS: dict[str, Callable[[], nn.Module]] = {"images": Images, "layers": layers, "words": Words}


@pytest.fixture(autouse=True)
def _double() -> Iterable[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def batches(count: int = STEPS) -> list[Batch]:
    draw = torch.Generator().manual_seed(0)
    return [
        (torch.randn(8, 1, 6, 6, generator=draw), torch.randint(0, 5, (8,), generator=draw)) for _ in range(count)
    ]


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name]()


class Script:
    """What a script has: a model, its optimizer and its scheduler."""

    def __init__(self, model: nn.Module, optimizer: str, settings: dict[str, Any]) -> None:
        self.model = model
        self.optimizer = getattr(torch.optim, optimizer)(model.parameters(), **settings)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 20)

    def train(self, batches: Sequence[Batch]) -> list[Any]:
        losses = []
        for x, y in batches:
            loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            losses.append(loss.item())
        return losses

    def group(self, trials: int = 4) -> TrialGroup:
        return TrialGroup([self.model], [self.optimizer], [self.scheduler], trials)


def alone(name: str, optimizer: str, trial: int, count: int = STEPS) -> tuple[nn.Module, list[float]]:
    script = Script(made(name), optimizer, {key: of[trial] for key, of in SETTINGS[optimizer].items()})
    return script.model, script.train(batches(count))


def as_one(name: str, optimizer: str, trials: Sequence[int] = range(4)) -> Script:
    settings = {key: TrialNumber(of[i] for i in trials) for key, of in SETTINGS[optimizer].items()}
    return Script(made(name), optimizer, settings)


def check(script: Script, name: str, optimizer: str, trials: Sequence[int]) -> None:
    """Check that each trial of a script has what it would have alone."""
    for at, trial in enumerate(trials):
        model, _ = alone(name, optimizer, trial)
        for own, other in zip(script.model.state_dict().values(), model.state_dict().values(), strict=True):
            torch.testing.assert_close(stacked(own)[at].double(), other.double(), rtol=0, atol=1e-8)


@pytest.mark.parametrize("optimizer", SETTINGS)
@pytest.mark.parametrize("name", MODELS)
def test_trials_of_a_group_are_what_they_are_alone(name: str, optimizer: str) -> None:
    script = as_one(name, optimizer)
    script.group()
    losses = script.train(batches())
    check(script, name, optimizer, range(4))
    for trial in range(4):
        assert [loss.of(trial) for loss in losses] == pytest.approx(alone(name, optimizer, trial)[1], abs=1e-9)


@pytest.mark.parametrize("optimizer", SETTINGS)
def test_trials_that_stay_lose_nothing_when_others_are_dropped(optimizer: str) -> None:
    script = as_one("images", optimizer)
    group = script.group()
    script.train(batches()[:3])
    group.keep([2, 0])
    script.train(batches()[3:])
    check(script, "images", optimizer, [2, 0])


@pytest.mark.parametrize("optimizer", SETTINGS)
def test_a_group_is_split_in_two_and_merged_again(optimizer: str) -> None:
    script = as_one("images", optimizer)
    group = script.group()
    script.train(batches()[:2])
    states = [group.state_of(trial) for trial in range(4)]
    other = as_one("images", optimizer, [0, 1])  # another process of the script
    elsewhere = other.group(2)
    elsewhere.become(states[2:])
    group.keep([0, 1])
    for one in (script, other):
        one.train(batches()[2:4])
    group.become([group.state_of(0), group.state_of(1), elsewhere.state_of(0), elsewhere.state_of(1)])
    script.train(batches()[4:])
    check(script, "images", optimizer, range(4))


def test_one_trial_that_is_left_has_plain_settings_and_goes_on() -> None:
    script = as_one("layers", "AdamW")
    group = script.group()
    script.train(batches()[:3])
    group.keep([1])
    assert isinstance(script.optimizer.param_groups[0]["lr"], float)
    script.train(batches()[3:])
    check(script, "layers", "AdamW", [1])


def test_a_trial_goes_on_alone_from_its_state() -> None:
    script = as_one("images", "SGD")
    group = script.group()
    script.train(batches()[:3])
    found = group.state_of(3)
    plain = Script(made("images"), "SGD", {key: of[3] for key, of in SETTINGS["SGD"].items()})
    plain.model.load_state_dict(found["modules"][0])
    plain.optimizer.param_groups[0].update(found["optimizers"][0]["settings"][0])
    for parameter, state in zip(plain.model.parameters(), found["optimizers"][0]["state"], strict=True):
        plain.optimizer.state[parameter] = state
    plain.scheduler.__dict__.update(found["schedulers"][0])
    plain.train(batches()[3:])
    for own, other in zip(plain.model.parameters(), alone("images", "SGD", 3)[0].parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-8)


def test_a_nan_in_one_trial_reaches_no_other() -> None:
    script = as_one("images", "SGD")
    script.optimizer.param_groups[0]["lr"] = TrialNumber([0.1, float("nan"), 0.01, 0.2])
    script.group()
    script.train(batches())
    for at, trial in enumerate(range(4)):
        own = [stacked(parameter)[at] for parameter in script.model.parameters()]
        assert all(bool(one.isnan().all()) for one in own) == (trial == 1)
        if trial != 1:
            for one, other in zip(own, alone("images", "SGD", trial)[0].parameters(), strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=1e-8)


def test_the_gradient_of_the_mean_of_losses_is_another_one() -> None:
    script = as_one("layers", "SGD")
    script.group()
    loss = F.cross_entropy(script.model(batches()[0][0]), batches()[0][1])
    loss.backward(gradient=torch.full((4,), 0.25))
    quarter = [stacked(parameter.grad).clone() for parameter in script.model.parameters()]
    script.optimizer.zero_grad()
    F.cross_entropy(script.model(batches()[0][0]), batches()[0][1]).backward()
    for mean, own in zip(quarter, script.model.parameters(), strict=True):
        torch.testing.assert_close(4 * mean, stacked(own.grad))


def test_dropout_is_drawn_for_each_trial() -> None:
    model = nn.Dropout(0.5)
    x = TrialTensor(torch.ones(3, 64))
    found = stacked(model(x))
    assert not torch.equal(found[0], found[1])
    assert set(found.flatten().tolist()) == {0.0, 2.0}


def test_a_scheduler_that_looks_at_a_metric_decides_for_each_trial() -> None:
    def rates(metrics: Any, lr: Any) -> Any:
        parameter = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(parameter.parameters(), lr=lr)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
        if isinstance(lr, TrialNumber):
            TrialGroup([parameter], [optimizer], [scheduler], 2)
        for metric in metrics:
            scheduler.step(metric)
        return optimizer.param_groups[0]["lr"]

    pair = [(1.0, 1.0), (0.5, 1.0), (0.4, 2.0), (0.6, 0.5)]
    found = rates([TrialNumber(both) for both in pair], TrialNumber([0.1, 0.3]))
    assert found.values == (rates([a for a, _ in pair], 0.1), rates([b for _, b in pair], 0.3))


@pytest.mark.parametrize(
    ("optimizer", "told"),
    [
        (lambda own: torch.optim.RMSprop(own), "RMSprop cannot be fused; SGD, Adam, AdamW of torch.optim can"),
        (lambda own: torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1), "parameters of no model that"),
        (lambda own: torch.optim.SGD(own, lr=0.1, nesterov=TrialNumber([0, 0]), momentum=0.9), "nesterov differs"),
    ],
)
def test_what_cannot_be_fused_is_refused_and_stays_as_it_is(optimizer: Any, told: str) -> None:
    model = layers()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(CannotFuse, match=told):
        TrialGroup([model], [optimizer(list(model.parameters()))], [], 2)
    for own, was in zip(model.state_dict().values(), before.values(), strict=True):
        assert torch.equal(own, was)


def test_trials_at_other_places_of_training_are_not_merged() -> None:
    script, later = as_one("layers", "Adam"), as_one("layers", "Adam")
    group, other = script.group(), later.group()
    script.train(batches()[:2])
    later.train(batches()[:3])
    with pytest.raises(CannotFuse, match="not at the same place"):
        group.become([group.state_of(0), other.state_of(1)])
    script.train(batches()[2:])
    check(script, "layers", "Adam", range(4))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda state: state["schedulers"][0].update(last_epoch="x"), "trials have 3, 'x'"),
        (lambda state: state["schedulers"][0].pop("T_max"), "T_max of the schedulers is not both"),
        (lambda state: state["modules"].append({}), "it has 2 modules, and this script has 1"),
        (
            lambda state: state["modules"][0].update({"1.bias": torch.zeros(3)}),
            r"1.bias is \(3,\) of torch.float64",
        ),
        (lambda state: state["optimizers"][0]["state"].pop(), "steps other parameters"),
        (lambda state: state["optimizers"][0]["state"][0].update(exp_avg=torch.zeros(1)), "of different shapes"),
        (lambda state: state["optimizers"][0]["settings"][0].update(lr=TrialNumber([1, 2])), "values of a group"),
        (
            lambda state: state["modules"][0].update({"1.bias": TrialTensor(torch.zeros(4, 16))}),
            "1.bias is of a gr",
        ),
    ],
)
def test_a_group_that_cannot_become_others_stays_as_it_was(spoil: Any, told: str) -> None:
    script = as_one("layers", "Adam")
    group = script.group()
    script.train(batches()[:3])
    states = [group.state_of(trial) for trial in (2, 1)]
    spoil(states[1])
    with pytest.raises(CannotFuse, match=told):
        group.become(states)
    assert group.trials == 4
    script.train(batches()[3:])
    check(script, "layers", "Adam", range(4))


def test_a_model_that_is_given_twice_or_with_a_part_of_it_counts_once() -> None:
    script = as_one("images", "SGD")
    group = TrialGroup([script.model.norm, script.model, script.model], [script.optimizer], [script.scheduler], 4)
    script.train(batches()[:3])
    group.keep([3, 1])
    script.train(batches()[3:])
    check(script, "images", "SGD", [3, 1])


def test_models_that_share_a_parameter_share_it_in_a_group() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    optimizer = torch.optim.SGD([*first.parameters(), second.bias], lr=TrialNumber([0.1, 0.2]))
    group = TrialGroup([first, second], [optimizer], [], 2)
    group.keep([1, 0])
    assert first.weight is second.weight is optimizer.param_groups[0]["params"][0]


@pytest.mark.parametrize("count", [2, 4])
def test_numbers_of_more_or_fewer_trials_than_the_group_has_are_refused(count: int) -> None:
    script = as_one("layers", "SGD", [0, 1, 2])
    with pytest.raises(CannotFuse, match=f"a number is of 3 trials, and the group has {count}"):
        script.group(count)


def test_numbers_of_a_model_go_along_with_its_trials() -> None:
    rates = [0.0, 0.5, 1.0]
    model = nn.Sequential(nn.Linear(4, 512), nn.Dropout(TrialNumber(rates)))  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    group = TrialGroup([model], [optimizer], [], 3)
    group.keep([2, 0])
    found = stacked(model(torch.ones(1, 4)))
    assert [bool((one == 0).all()) for one in found] == [True, False]
    assert model[1].p.values == (1.0, 0.0)


def test_hyperparameters_go_along_with_their_trials() -> None:
    hp = chosen({"lr": 0.1, "rate": 0.5}, [{"lr": 0.3}, {"lr": 0.2, "rate": 0.1}, {"lr": 0.1}])
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=hp.lr)
    group = TrialGroup([model], [optimizer], [], 3)
    group.keep([2, 0])
    assert (hp.lr.values, hp.rate) == ((0.1, 0.3), 0.5)
    assert optimizer.param_groups[0]["lr"].values == hp.lr.values


def test_what_a_script_holds_of_all_trials_is_cut_when_some_are_dropped() -> None:
    script = as_one("layers", "SGD")
    group = script.group()
    script.train(batches()[:1])
    total = TrialNumber([1.0, 2.0, 3.0, 4.0])
    average = script.model[1].weight.detach().clone()
    group.keep([3, 1])
    assert (total + 1).values == (5.0, 3.0)
    average.mul_(0.5).add_(script.model[1].weight.detach(), alpha=0.5)
    torch.testing.assert_close(stacked(average), stacked(script.model[1].weight.detach()))


def test_a_rate_that_the_script_sets_itself_is_that_of_each_trial() -> None:
    def train(lr: Any, trials: int = 1) -> nn.Module:
        torch.manual_seed(0)
        model = layers()
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        if trials > 1:
            TrialGroup([model], [optimizer], [], trials)
        for step, (x, y) in enumerate(batches(3)):
            for group in optimizer.param_groups:
                group["lr"] = lr * (step + 1)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        return model

    found = train(TrialNumber([0.01, 0.1]), 2)
    for trial, lr in enumerate((0.01, 0.1)):
        for own, other in zip(found.parameters(), train(lr).parameters(), strict=True):
            torch.testing.assert_close(stacked(own)[trial], other, rtol=0, atol=1e-10)
