"""Steps of SGD, Adam and AdamW over stacks of trials: all parameters of a group by a few calls.

They compute what torch's loops over parameters do, with settings that are numbers of each trial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from .trial_number import TrialNumber
from .trial_tensor import TrialTensor, numbers_of

Group = dict[str, Any]
Stepped = tuple[list[Tensor], list[Tensor]]  # parameters and their gradients
_UNUSUAL = ("maximize", "amsgrad", "differentiable", "capturable", "foreach", "fused")


def step_stacks(optimizer: Optimizer) -> list[tuple[Tensor, Tensor]]:
    """Step each parameter group that is a usual one, and take its gradients away, so that torch steps the others.

    Returns: parameters with the gradients that they had, which are given back after torch's step.
    """
    taken: list[tuple[Tensor, Tensor]] = []
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        for group in optimizer.param_groups:
            stepped = [(one, one.grad) for one in group["params"] if one.grad is not None]
            if not stepped or not _is_usual(group, stepped):
                continue
            params, grads = [one for one, _ in stepped], [grad for _, grad in stepped]
            _STEPS[type(optimizer)](group, params, grads, [optimizer.state[one] for one in params])
            for one in params:
                one.grad = None
            taken += stepped
    return taken


def give_back(taken: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Give parameters their gradients back."""
    with torch._C.DisableTorchFunctionSubclass():
        for parameter, grad in taken:
            parameter.grad = grad


def _is_usual(group: Group, stepped: Sequence[tuple[Tensor, Tensor]]) -> bool:
    plain = all(
        one.is_floating_point() and not grad.is_sparse and grad.dtype == one.dtype for one, grad in stepped
    )
    numbers = any(isinstance(beta, (TrialNumber, Tensor)) for beta in group.get("betas", ()))
    others = any(isinstance(group[name], Tensor) for name in ("lr", "weight_decay"))
    return plain and not numbers and not others and not any(group.get(name) for name in _UNUSUAL)


def _sgd(group: Group, params: list[Tensor], grads: list[Tensor], states: Sequence[dict[str, Any]]) -> None:
    momentum, dampening = group["momentum"], group["dampening"]
    grads = _decayed(grads, params, group["weight_decay"])
    if momentum != 0:
        first = [at for at, state in enumerate(states) if state.get("momentum_buffer") is None]
        for at in first:
            states[at]["momentum_buffer"] = _of_trials(grads[at].clone())
        buffers = [state["momentum_buffer"] for state in states]
        later = [at for at in range(len(params)) if at not in first]
        moved = [buffers[at] for at in later]
        if moved:
            _scale(moved, momentum)
            _add(moved, [grads[at] for at in later], 1 - dampening)
        grads = _sum(grads, buffers, momentum) if group["nesterov"] else buffers
    _add(params, grads, -group["lr"])


def _adam(group: Group, params: list[Tensor], grads: list[Tensor], states: Sequence[dict[str, Any]]) -> None:
    beta1, beta2 = group["betas"]
    lr, decay = group["lr"], group["weight_decay"]
    for parameter, state in zip(params, states, strict=True):
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = _of_trials(torch.zeros_like(parameter))
            state["exp_avg_sq"] = _of_trials(torch.zeros_like(parameter))
    steps = [state["step"] for state in states]
    torch._foreach_add_(steps, 1)
    if group["decoupled_weight_decay"]:
        if decay != 0:
            _scale(params, 1 - lr * decay)
    else:
        grads = _decayed(grads, params, decay)
    means, squares = [state["exp_avg"] for state in states], [state["exp_avg_sq"] for state in states]
    torch._foreach_lerp_(means, grads, 1 - beta1)
    torch._foreach_mul_(squares, beta2)
    torch._foreach_addcmul_(squares, grads, grads, value=1 - beta2)
    roots = torch._foreach_sqrt(squares)
    taken = [float(step) for step in steps]
    for step in dict.fromkeys(taken):  # mostly one
        at = [i for i, other in enumerate(taken) if other == step]
        denominators = [roots[i] for i in at]
        torch._foreach_div_(denominators, (1 - beta2**step) ** 0.5)
        eps = group["eps"]
        torch._foreach_add_(denominators, _tensors(eps, denominators) if isinstance(eps, TrialNumber) else eps)
        size = -(lr / (1 - beta1**step))
        own, numerators = [params[i] for i in at], [means[i] for i in at]
        if isinstance(size, TrialNumber):
            numerators, size = list(torch._foreach_mul(numerators, _tensors(size, numerators))), 1.0
        torch._foreach_addcdiv_(own, numerators, denominators, value=size)


_STEPS: dict[type[Optimizer], Callable[..., None]] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adam,
}


def _decayed(grads: list[Tensor], params: list[Tensor], decay: Any) -> list[Tensor]:
    return grads if decay == 0 else _sum(grads, params, decay)


def _sum(tensors: list[Tensor], others: list[Tensor], factor: Any) -> list[Tensor]:
    """Return tensors plus others times a factor."""
    if isinstance(factor, TrialNumber):
        return list(torch._foreach_addcmul(tensors, others, _tensors(factor, tensors)))
    return list(torch._foreach_add(tensors, others, alpha=factor))


def _add(tensors: list[Tensor], others: list[Tensor], factor: Any) -> None:
    if isinstance(factor, TrialNumber):
        torch._foreach_addcmul_(tensors, others, _tensors(factor, tensors))
    else:
        torch._foreach_add_(tensors, others, alpha=factor)


def _scale(tensors: list[Tensor], factor: Any) -> None:
    torch._foreach_mul_(tensors, _tensors(factor, tensors) if isinstance(factor, TrialNumber) else factor)


def _tensors(number: TrialNumber, beside: Sequence[Tensor]) -> list[Tensor]:
    return [numbers_of(number, one.dtype, one.device, one.ndim) for one in beside]


def _of_trials(tensor: Tensor) -> Tensor:
    tensor.__class__ = TrialTensor
    return tensor
