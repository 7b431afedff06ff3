"""The learning rate follows the batch size by the rule asked for."""

import math
import sys
from types import ModuleType

import pytest
import torch
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.training.gradients.learning_rate import LrRule, lr_rule

WEIGHTS = [torch.nn.Parameter(torch.zeros(1))]
SGD, ADAMW = torch.optim.SGD(WEIGHTS, lr=0.1), torch.optim.AdamW(WEIGHTS)


def rule(name: str, optimizer: torch.optim.Optimizer = SGD, **more: float) -> LrRule:
    return lr_rule(TrainingConfig(lr_scaling=name, **more), optimizer)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"), [("adascale", 2.5), ("sqrt", 2.0), ("linear", 4.0), ("none", 1.0), ("auto", 2.5)]
)
def test_each_rule_at_four_times_the_batch(name: str, expected: float) -> None:
    assert rule(name).factor(4.0, 2.5, 3.0) == expected


def test_auto_is_the_square_root_for_adam() -> None:
    assert rule("auto", ADAMW).factor(4.0, 2.5, 3.0) == 2.0


@pytest.mark.parametrize("name", ["auto", "adascale", "sqrt", "linear", "none"])
def test_the_initial_batch_size_keeps_the_scripts_rate(name: str) -> None:
    assert rule(name).factor(1.0, 1.0, 0.0) == 1.0


def test_legw_warms_up_for_longer_at_larger_batches_and_never_loses_a_step() -> None:
    legw = rule("legw", legw_warmup_epochs=2.0)
    assert legw.factor(4.0, 1.0, 8.0) == 2.0
    assert legw.factor(4.0, 1.0, 4.0) == pytest.approx(1.0)
    assert legw.factor(4.0, 1.0, 0.0) > 0
    assert rule("legw", legw_warmup_epochs=0.0).factor(4.0, 1.0, 0.0) == 2.0


@pytest.fixture
def user_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("my_rules")
    module.mine = lambda scale, gain: math.log2(scale) + gain  # type: ignore[attr-defined]
    module.broken = lambda scale, gain: math.nan  # type: ignore[attr-defined]
    module.number = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_rules", module)
    return module


@pytest.mark.usefixtures("user_module")
def test_a_users_own_rule_is_called() -> None:
    assert rule("my_rules:mine").factor(4.0, 2.5, 0.0) == 4.5


@pytest.mark.usefixtures("user_module")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module_here:f", "cannot be imported"),
        ("my_rules:gone", "has no function gone"),
        ("my_rules:number", "no function but a int"),
    ],
)
def test_a_rule_that_is_not_there_is_named(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rule(name)


@pytest.mark.usefixtures("user_module")
def test_a_rule_that_gives_nonsense_is_named() -> None:
    with pytest.raises(ValueError, match="my_rules:broken returned nan for scale 4"):
        rule("my_rules:broken").factor(4.0, 2.5, 0.0)
