"""A loss whose graph does not tell what it does over samples, like losses of compiled kernels."""

from typing import Any

import torch
from torch import Tensor


class OpaqueMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return x.mean()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad.expand(ctx.shape) / ctx.shape.numel()
