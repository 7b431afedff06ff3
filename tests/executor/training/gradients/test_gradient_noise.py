"""The gradient noise scale agrees with its definition, for every way a step can be divided."""

import math

import numpy as np
import pytest
import torch
from coadapt.executor.training.gradients.gradient_noise import (
    ConsecutiveGradients,
    GradientNoise,
    Preconditioner,
    flat_sqnorm,
    is_adam_type,
    sqnorm,
)
from hypothesis import given, settings
from hypothesis import strategies as st

DIM, SQR, VAR = 50, 20.0, 600.0


def parts(rng: np.random.Generator, sizes: list[int]) -> np.ndarray:
    """Draw mean gradients (parts, DIM) of samples with squared mean SQR and covariance trace VAR."""
    mean = np.full(DIM, math.sqrt(SQR / DIM))
    noise = rng.standard_normal((len(sizes), DIM)) * math.sqrt(VAR / DIM)
    return mean + noise / np.sqrt(np.array(sizes))[:, None]


def feed(noise: GradientNoise, grads: np.ndarray, sizes: list[int]) -> None:
    m = np.array(sizes)
    mean = (m[:, None] * grads).sum(0) / m.sum()
    noise.update(float((m * (grads**2).sum(1)).sum()), len(sizes), int(m.sum()), float((mean**2).sum()))


@pytest.mark.parametrize("sizes", [[8, 8], [16, 16, 16, 16], [20, 7, 3], [1, 31]])
def test_parts_of_any_sizes_give_the_noise_scale_within_5_percent(sizes: list[int]) -> None:
    rng, noise = np.random.default_rng(0), GradientNoise(smoothing=0.9999)
    for _ in range(6000):
        feed(noise, parts(rng, sizes), sizes)
    assert noise.var == pytest.approx(VAR, rel=0.05)
    assert noise.noise_scale == pytest.approx(VAR / SQR, rel=0.05)


def test_one_replica_gives_the_noise_scale_from_consecutive_steps() -> None:
    rng, noise, pairs = np.random.default_rng(1), GradientNoise(smoothing=0.9999), ConsecutiveGradients()
    for grad in torch.from_numpy(parts(rng, [32] * 6000)):
        pairs.push(0, grad[:20], 32)
        pairs.push(1, grad[20:], 32)
        sums = pairs.take(32)
        if sums is not None:
            noise.update_consecutive(*sums.tolist(), 32)
    assert noise.var == pytest.approx(VAR, rel=0.05)
    assert noise.noise_scale == pytest.approx(VAR / SQR, rel=0.05)


def test_steps_that_do_not_follow_each_other_are_not_compared() -> None:
    pairs, grad = ConsecutiveGradients(), torch.ones(4)

    def step(batch_size: int, flat: torch.Tensor = grad) -> torch.Tensor | None:
        pairs.push(0, flat, batch_size)
        return pairs.take(batch_size)

    assert step(8) is None
    assert step(8) is not None
    assert step(16) is None, "another batch size"
    assert step(16) is not None
    pairs.clear()
    assert step(16) is None, "after clear"
    assert step(16, torch.ones(6)) is None, "another bucket"
    assert step(16, torch.ones(6)).tolist() == [0.0, 24.0]  # type: ignore[union-attr]


@given(batch=st.floats(1, 1e6), scale=st.floats(1, 1e4), sqr=st.floats(0, 1e9), var=st.floats(0, 1e9))
def test_gain_is_between_one_and_the_scale(batch: float, scale: float, sqr: float, var: float) -> None:
    noise = GradientNoise()
    noise.load_state_dict({**noise.state_dict(), "sqr": [sqr, 1.0], "var": [var, 1.0], "initial_batch_size": 1})
    assert 1 - 1e-9 <= noise.gain(batch * scale, batch) <= scale * (1 + 1e-9)
    assert math.isfinite(noise.noise_scale or 0.0)


def test_gain_is_adascales() -> None:
    noise = GradientNoise()
    noise.load_state_dict({**noise.state_dict(), "sqr": [2.0, 1.0], "var": [64.0, 1.0]})
    assert noise.gain(32, 32) == 1.0
    assert noise.gain(128, 32) == pytest.approx((64 / 32 + 2) / (64 / 128 + 2))


def test_without_an_estimate_nothing_is_claimed() -> None:
    noise = GradientNoise()
    assert (noise.sqr, noise.var, noise.noise_scale, noise.gain(256, 32)) == (None, None, None, 1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_step_that_overflowed_leaves_the_estimate_alone_and_is_counted(bad: float) -> None:
    noise = GradientNoise()
    noise.update(100.0, 2, 8, 5.0)
    before = noise.noise_scale
    noise.update(bad, 2, 8, 5.0)
    noise.update_consecutive(bad, 1.0, 8)
    assert noise.noise_scale == before
    assert noise.ignored == 2


def test_unbiased_estimates_soon_outweigh_consecutive_ones() -> None:
    noise = GradientNoise()
    for _ in range(1000):
        noise.update_consecutive(1000.0, 0.0, 8)
    assert noise.var == pytest.approx(4000)
    for _ in range(50):
        noise.update(28.0, 2, 8, 1.0)
    assert noise.var == pytest.approx(20, rel=5)
    assert noise.var < 200, "the old value is one step's worth"  # type: ignore[operator]
    for _ in range(1000):
        noise.update_consecutive(10.0, 4.0, 8)
    assert noise.var == pytest.approx(40, rel=0.5), "and the way back forgets nothing at once"


def test_preconditioned_gradients_are_not_mixed_with_plain_ones() -> None:
    noise = GradientNoise()
    noise.update(1e6, 2, 8, 1.0)
    noise.update(28.0, 2, 8, 1.0, preconditioned=True)
    assert noise.var == pytest.approx(20)


def test_memory_is_measured_in_samples() -> None:
    small, large = (GradientNoise(smoothing=0.9, initial_batch_size=8) for _ in range(2))
    for noise in (small, large):
        noise.update(28.0, 2, 8, 1.0)
    for _ in range(4):
        small.update(100.0, 2, 8, 1.0)
    large.update(32 + (100 - 8), 2, 32, 1.0)  # the same variance, four times the samples
    assert small.var == pytest.approx(large.var)


def test_state_survives_a_checkpoint() -> None:
    noise, again = GradientNoise(), GradientNoise()
    noise.update(28.0, 2, 8, 1.0)
    again.load_state_dict(noise.state_dict())
    for each in (noise, again):
        each.update(50.0, 2, 16, 1.0)
    assert again.state_dict() == noise.state_dict()


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="smoothing: 1"):
        GradientNoise(smoothing=1)
    with pytest.raises(ValueError, match="groups: 1"):
        GradientNoise().update(1.0, 1, 8, 1.0)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.sampled_from([torch.float32, torch.bfloat16]))
def test_norms_are_those_of_the_concatenation(sizes: list[int], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(size).to(dtype) for size in sizes]
    expected = torch.cat(tensors).double().square().sum()
    rel = 1e-5 if dtype is torch.float32 else 2e-2
    assert sqnorm(tensors).item() == pytest.approx(expected.item(), rel=rel)
    assert flat_sqnorm(torch.cat(tensors)).item() == pytest.approx(expected.item(), rel=1e-5)


def trained(optimizer_type: type[torch.optim.Optimizer], steps: int, **options: float) -> tuple:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3), torch.nn.Flatten(), torch.nn.Linear(12, 2))
    model = model.to(memory_format=torch.channels_last)
    optimizer = optimizer_type(model.parameters(), lr=0.01, **options)
    preconditioner = Preconditioner(optimizer)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 1, 4, 4)).square().sum().backward()
        optimizer.step()
    params = list(model.parameters())
    return optimizer, preconditioner, params, [param.grad for param in params]


def test_sgd_gradients_are_left_as_they_are() -> None:
    _, preconditioner, params, grads = trained(torch.optim.SGD, 10)
    assert preconditioner.identity
    assert preconditioner.apply(params, grads)[0] is grads[0]
    assert preconditioner.flat_scale(grads[0], params, grads) is None


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.NAdam])
def test_adam_type_gradients_are_divided_after_five_steps(kind: type[torch.optim.Optimizer]) -> None:
    assert not trained(kind, 4)[1].ready
    optimizer, preconditioner, params, grads = trained(kind, 7)
    assert preconditioner.ready
    for param, grad, divided in zip(params, grads, preconditioner.apply(params, grads), strict=True):
        state = optimizer.state[param]
        moment = state["square_avg"] if kind is torch.optim.RMSprop else state["exp_avg_sq"] / (1 - 0.999**7)
        torch.testing.assert_close(divided, grad / (moment.sqrt() + 1e-8))


def test_a_flat_bucket_is_divided_like_its_gradients() -> None:
    _, preconditioner, params, grads = trained(torch.optim.Adam, 6)
    flat = torch.zeros(sum(grad.numel() for grad in grads))
    views, offset = [], 0
    for grad in grads:
        views.append(flat.as_strided(grad.size(), grad.stride(), offset).copy_(grad))
        offset += grad.numel()
    scale = preconditioner.flat_scale(flat, params, views)
    expected = preconditioner.sqnorm(params, grads)
    assert flat_sqnorm(flat, scale).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad])
def test_what_had_no_gradient_yet_does_not_outweigh_the_rest_with_its_first(
    kind: type[torch.optim.Optimizer],
) -> None:
    torch.manual_seed(0)
    words = torch.nn.Embedding(10, 3)
    optimizer = kind(words.parameters(), lr=0.01)
    preconditioner = Preconditioner(optimizer)

    def gradient(of: list[int]) -> torch.Tensor:
        optimizer.zero_grad()
        words(torch.tensor(of)).square().sum().backward()
        assert words.weight.grad is not None
        return words.weight.grad

    for _ in range(6):
        gradient([0, 1, 2, 3])
        optimizer.step()
    common = preconditioner.sqnorm([words.weight], [gradient([0, 1, 2, 3])])
    first = gradient([0, 1, 2, 3, 9])
    assert first[9].abs().min() > 1e-3
    assert preconditioner.sqnorm([words.weight], [first]) == common
    flat = first.reshape(-1)
    assert flat_sqnorm(flat, preconditioner.flat_scale(flat, [words.weight], [flat.view_as(first)])) == common
    optimizer.step()
    assert preconditioner.sqnorm([words.weight], [first]) > common


def test_loading_an_optimizer_forgets_its_divisors() -> None:
    optimizer, preconditioner, _, _ = trained(torch.optim.Adam, 6)
    assert preconditioner.ready
    fresh = trained(torch.optim.Adam, 2)[0]
    optimizer.load_state_dict(fresh.state_dict())
    assert not preconditioner.ready


def test_adam_types_are_told_from_sgd_types() -> None:
    weights = [torch.nn.Parameter(torch.zeros(1))]
    assert is_adam_type(torch.optim.Adagrad(weights))
    assert not is_adam_type(torch.optim.SGD(weights, lr=0.1))


def test_what_hardly_ever_had_a_gradient_counts_for_nothing() -> None:
    """A unit that fires once in a while would else outweigh all others, and noise look endless."""
    weight = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.Adam([weight], lr=1e-3)
    preconditioner = Preconditioner(optimizer)
    for _ in range(10):
        weight.grad = torch.tensor([1.0, 0.5, 1e-6, 0.0])
        optimizer.step()
    scale = preconditioner.scale(weight)
    assert scale is not None
    assert scale.tolist() == pytest.approx([1.0, 2.0, 0.0, 0.0], rel=1e-3)
