"""One number and one tensor stand for those of all trials, and say so where they cannot."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from coadapt.executor.training.fused.errors import CannotFuse
from coadapt.executor.training.fused.hyperparameters import VARIABLE, chosen, trials_of_environment
from coadapt.executor.training.fused.of_trials import of_trial, together
from coadapt.executor.training.fused.trial_number import TrialNumber, TrialSetting
from coadapt.executor.training.fused.trial_tensor import TrialTensor, stacked
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.floats(-100, 100, allow_nan=False).filter(lambda value: abs(value) > 1e-3)


@pytest.mark.parametrize("compute", [operator.add, operator.sub, operator.mul, operator.truediv])
@given(pair=st.tuples(NUMBERS, NUMBERS), other=NUMBERS)
def test_arithmetic_is_done_for_each_trial(compute: Any, pair: tuple[float, float], other: float) -> None:
    number = TrialNumber(pair)
    assert compute(number, other).values == tuple(compute(one, other) for one in pair)
    assert compute(other, number).values == tuple(compute(other, one) for one in pair)
    assert compute(number, number).values == tuple(compute(one, one) for one in pair)


def test_a_comparison_on_which_trials_agree_has_their_answer() -> None:
    assert TrialNumber([1, 2]) < 3
    assert not TrialNumber([1, 2]) > TrialNumber([3, 2])
    with pytest.raises(CannotFuse, match="a comparison differs between trials"):
        bool(TrialNumber([1, 3]) < 2)


@pytest.mark.parametrize("take", [float, int, math.exp])
def test_what_needs_one_plain_number_is_refused(take: Any) -> None:
    with pytest.raises((CannotFuse, TypeError)):
        take(TrialNumber([1.0, 2.0]))


def test_a_setting_that_is_taken_for_a_plain_number_is_nan_and_no_trials() -> None:
    setting = TrialSetting([0.1, 0.2])
    assert math.isnan(math.exp(setting))
    assert setting != 0
    assert TrialSetting([0.0, 0.1]) != 0, "what a setting asks for is done for all"
    assert TrialSetting([0.0, 0.0]) == 0


def test_a_number_is_shown_trial_by_trial() -> None:
    assert f"{TrialNumber([0.5, 0.25]):.2f}" == "0.50/0.25"
    assert round(TrialNumber([0.126, 0.5]), 2).values == (0.13, 0.5)


def trials(*shape: int) -> TrialTensor:
    torch.manual_seed(0)
    return TrialTensor(torch.randn(3, *shape))


def test_a_script_sees_the_tensor_of_one_trial() -> None:
    x = trials(5, 4)
    assert x.shape == (5, 4)
    assert (x.dim(), len(x), x.numel(), x.size(1)) == (2, 5, 20, 4)
    assert x[0].shape == (4,)
    assert [row.shape for row in x] == [(4,)] * 5
    assert x.view(-1).shape == (20,)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2, 3, 0])),
        lambda x: x.softmax(-1).argmax(1),
        lambda x: torch.cat([x, x * 2], dim=1),
        lambda x: F.layer_norm(x.relu() + 1, (4,)),
        lambda x: x @ torch.ones(4, 2),
        lambda x: x.T.contiguous().sum(),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
        lambda x: torch.where(x > 0, x, torch.zeros_like(x)),
        lambda x: F.embedding(torch.tensor([1, 0]), x),
        lambda x: torch.nn.functional.mse_loss(x, torch.zeros(5, 4)),
    ],
)
def test_an_operation_gives_each_trial_what_it_would_have_alone(compute: Any) -> None:
    x = trials(5, 4)
    found = stacked(compute(x))
    for trial in range(3):
        torch.testing.assert_close(found[trial], compute(stacked(x)[trial]))


def test_numbers_of_a_tensor_are_those_of_trials() -> None:
    x = trials(5, 4)
    assert x.mean().item().values == pytest.approx([float(one.mean()) for one in stacked(x)])
    correct = (x.argmax(1) == torch.zeros(5)).sum().item() / 5
    assert correct.values == tuple(float((one.argmax(1) == 0).sum()) / 5 for one in stacked(x))


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda x: x.numpy(), "numpy: it needs the memory of one tensor"),
        (lambda x: bool(x.sum() > 0) and 1, "a condition differs between trials"),
        (lambda x: float(x.sum()), "float: one number is asked for"),
        (lambda x: torch.nonzero(x), "nonzero: it cannot run for several trials at once"),
    ],
)
def test_what_cannot_be_done_for_all_trials_is_said_in_one_sentence(use: Any, told: str) -> None:
    with pytest.raises(CannotFuse, match=told):
        use(TrialTensor(torch.tensor([[1.0, 2.0], [-5.0, 1.0]])))


def test_what_trials_have_is_taken_apart_and_put_together() -> None:
    parts = [{"lr": 0.1, "betas": (0.9, 0.99), "on": True}, {"lr": 0.2, "betas": (0.8, 0.99), "on": True}]
    whole = together(parts)
    assert whole["on"] is True
    assert whole["betas"][1] == 0.99
    assert [of_trial(whole, trial) for trial in range(2)] == parts
    with pytest.raises(CannotFuse, match="'a', 'b', which one group cannot have"):
        together([{"kind": "a"}, {"kind": "b"}])


def test_hyperparameters_are_those_of_the_study_and_else_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    found = chosen({"lr": 0.1, "momentum": 0.9}, trials_of_environment())
    assert (found.lr, found["momentum"], dict(found)) == (0.1, 0.9, {"lr": 0.1, "momentum": 0.9})
    monkeypatch.setenv(VARIABLE, '{"lr": 0.3}')
    assert dict(chosen({"lr": 0.1, "momentum": 0.9}, trials_of_environment())) == {"lr": 0.3, "momentum": 0.9}
    monkeypatch.setenv(VARIABLE, '[{"lr": 0.3}, {"lr": 0.2}]')
    found = chosen({"lr": 0.1, "momentum": 0.9}, trials_of_environment())
    assert (found.lr.values, found.momentum) == ((0.3, 0.2), 0.9)
    with pytest.raises(AttributeError, match="lr is set by the study"):
        found.lr = 1.0
    with pytest.raises(ValueError, match="the study sets lr, and the script names wd"):
        chosen({"wd": 0.1}, trials_of_environment())


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '"lr"', "[1, 2]", '[{"lr": 0.1}, null]', '{"lr": NaN}', '[{"lr": Infinity}]']
)
def test_a_variable_that_is_no_values_is_told_in_one_sentence(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ValueError, match=r"COADAPT_HYPERPARAMETERS: .* is no JSON of values by name"):
        trials_of_environment()


def test_numbers_of_other_trials_do_not_meet() -> None:
    for meet in (operator.add, operator.lt):
        with pytest.raises(CannotFuse, match="of 2 and 3 trials do not meet"):
            meet(TrialNumber([1.0, 2.0]), TrialNumber([1.0, 2.0, 3.0]))


def test_what_is_computed_of_a_setting_is_one() -> None:
    setting, number = TrialSetting([0.1, 0.0]), TrialNumber([2.0, 3.0])
    assert isinstance(setting * 2, TrialSetting)
    assert isinstance(number * setting, TrialSetting)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, number: x * number,
        lambda x, number: number * x,
        lambda x, number: torch.add(x, number),
        lambda x, number: x / number,
        lambda x, number: x.pow(number),
        lambda x, number: torch.where(x > 0.5, x, x * number),
    ],
)
@pytest.mark.parametrize("x", [torch.tensor([0.5, 2.0]), torch.tensor([1, 3])])
def test_a_plain_tensor_and_numbers_of_trials_give_each_trial_its_own(compute: Any, x: torch.Tensor) -> None:
    found = compute(x, TrialNumber([0.5, 1.5]))
    assert isinstance(found, TrialTensor)
    for trial, number in enumerate((0.5, 1.5)):
        torch.testing.assert_close(stacked(found)[trial], compute(x, number))


def test_whole_numbers_of_trials_are_not_cut() -> None:
    counts = TrialTensor(torch.tensor([[1, 2], [3, 4]]))
    found = stacked(counts * TrialNumber([0.5, 1.5]))
    torch.testing.assert_close(found, torch.tensor([[0.5, 1.0], [4.5, 6.0]]))


def test_a_tensor_of_another_type_is_one_of_trials() -> None:
    x = trials(2)
    assert isinstance(x.type(torch.float64), TrialTensor)
    assert x.type() == torch.ones(1).type()


def test_a_hook_sees_the_gradient_of_each_trial() -> None:
    x = trials(4).requires_grad_()
    seen: list[Any] = []
    y = x * 2
    y.register_hook(lambda gradient: seen.append(gradient.shape) or gradient * 3)
    y.sum().backward()
    assert seen == [(4,)]
    torch.testing.assert_close(stacked(x.grad), torch.full((3, 4), 6.0))
