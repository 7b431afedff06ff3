"""One number and one tensor stand for those of all trials, and say so where they cannot."""

from __future__ import annotations

import copy
import math
import operator
import pickle
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


def test_a_setting_counts_as_0_only_where_all_trials_have_0() -> None:
    assert TrialSetting([0.0, 0.1]) != 0, "what a setting asks for is done for all"
    assert TrialSetting([0.0, 0.0]) == 0


def test_a_number_is_a_float_to_whom_asks_and_is_copied_and_stored() -> None:
    number = TrialNumber([0.1, 0.2])
    assert isinstance(number, float)
    for found in (copy.deepcopy(number), pickle.loads(pickle.dumps(number))):
        assert type(found) is TrialNumber
        assert found.values == (0.1, 0.2)


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
    ("given", "told"),
    [
        ("lr: 0.1", "lr: 0.1 is no JSON of finite numbers"),
        ('{"lr": NaN}', "is no JSON of finite numbers"),
        ('{"lr": 1e999}', "lr is inf, and finite numbers are accepted"),
        ("[]", r"\[\] is not understood; values by name as JSON"),
        ("[1, 2]", r"\[1, 2\] is not understood"),
        ("3", "3 is not understood"),
        ("", "is no JSON"),
        ("9" * 10_000, "9{80}…"),
    ],
)
def test_values_of_a_study_that_are_none_are_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, given: str, told: str
) -> None:
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(ValueError, match=rf"{VARIABLE}: .*{told}") as error:
        trials_of_environment()
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("operate", [operator.add, operator.lt, operator.eq])
def test_numbers_of_other_trials_do_not_meet(operate: Any) -> None:
    with pytest.raises(CannotFuse, match="numbers of 2 trials and of 3 meet"):
        operate(TrialNumber([1, 2]), TrialNumber([1, 2, 3]))


@pytest.mark.parametrize("other", [TrialNumber([1.0, 2.0]), TrialNumber([2.0]), TrialTensor(torch.ones(2, 5))])
@pytest.mark.parametrize("compute", [torch.mul, torch.clamp_max, lambda x, other: x.mul_(other)])
def test_a_tensor_meets_nothing_of_other_trials(compute: Any, other: Any) -> None:
    with pytest.raises(CannotFuse, match=r"values of \d trials and of \d meet"):
        compute(TrialTensor(torch.ones(3, 5)), other)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, n: x * n,
        lambda x, n: n * x,
        lambda x, n: n - x,
        lambda x, n: n / (x + 3),
        lambda x, n: x**n,
        lambda x, n: torch.clamp(x, max=n),
        lambda x, n: x.clamp(-n, n),
        lambda x, n: torch.where(x > n, x, n),
        lambda x, n: F.softmax(x / n, 1),
        lambda x, n: torch.add(x, x, alpha=n),
        lambda x, n: torch.lerp(x, x + 1, n),
        lambda x, n: x.masked_fill(x > 0, n),
        lambda x, n: (x * 4).int() * n,
        lambda x, n: (x * 4).int() / n,
        lambda x, n: (x * 4).int() // n,
        lambda x, n: (x > n).sum(),
        lambda x, n: F.cross_entropy(x, torch.tensor([1, 2, 0]), label_smoothing=n / 10),
        lambda x, n: F.leaky_relu(x, n),
        lambda x, n: F.huber_loss(x, x + 1, delta=n),
        lambda x, n: F.elu(x, n),
        lambda x, n: F.softplus(x, n),
    ],
)
@pytest.mark.parametrize("of_all", [True, False])
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_number_beside_a_tensor_is_that_of_each_trial(compute: Any, of_all: bool) -> None:
    """It is so for a tensor that all trials have, such as a batch, and for one of trials."""
    numbers = [0.5, 1.25]
    torch.manual_seed(0)
    x = torch.rand(2, 3, 4) if not of_all else torch.rand(3, 4).expand(2, 3, 4)
    found = compute(x[0] if of_all else TrialTensor(x), TrialNumber(numbers))
    for trial, number in enumerate(numbers):
        alone = compute(x[trial], number)
        assert stacked(found).dtype == alone.dtype
        torch.testing.assert_close(stacked(found)[trial], alone)


def test_whole_numbers_are_not_cut_and_stay_whole_beside_whole_ones() -> None:
    whole = TrialTensor(torch.tensor([[3, 4], [5, 6]]))
    assert stacked(whole * TrialNumber([0.5, 1.5])).tolist() == [[1.5, 2.0], [7.5, 9.0]]
    assert stacked(whole * TrialNumber([2, 3])).dtype == torch.int64
    assert stacked(whole.int() * TrialNumber([2, 3])).dtype == torch.int32


def test_a_tensor_is_told_its_type_and_given_another() -> None:
    x = trials(5, 4)
    assert x.type() == "torch.FloatTensor"
    assert stacked(x.type(torch.float64)).dtype == torch.float64
    assert x.type(torch.LongTensor).shape == (5, 4)


@pytest.mark.parametrize("of_all", [True, False])
def test_dropout_has_the_rate_of_each_trial(of_all: bool) -> None:
    rates = [0.0, 0.25, 1.0]
    x = torch.ones(8000) if of_all else TrialTensor(torch.ones(3, 8000))
    found = stacked(F.dropout(x, TrialNumber(rates)))  # type: ignore[arg-type]
    assert [float((one == 0).float().mean()) for one in found] == pytest.approx(rates, abs=0.02)
    assert float(found[1].max()) == pytest.approx(4 / 3)
    kept = F.dropout(x, TrialNumber(rates), training=False)  # type: ignore[arg-type]
    assert torch.equal(stacked(kept), stacked(x))
