"""The commonest operations of torch on stacks of trials, each by one call and without `torch.func.vmap`.

A rule returns NotImplemented for arguments that it does not know; `vmap` then runs the operation. Rules compute
with the stacks: torch does not hand over to trials while they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .trial_number import TrialNumber
from .trial_tensor import DIRECT, TrialTensor, is_in_place, named, numbers_of, told_copy

# Each number of the result has its own operands. What a script and an optimizer do with whole tensors.
_ELEMENTWISE = named("abs", "neg", "exp", "log", "sqrt", "rsqrt", "relu", "relu_", "tanh", "sigmoid", "clamp_min")
_ELEMENTWISE |= named("pow", "__pow__", "square", "abs_", "sqrt_", "neg_", "zero_", "fill_", "isnan", "isfinite")
_ELEMENTWISE |= named("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "lerp", "lerp_", "addcmul")
_ELEMENTWISE |= named("addcmul_", "addcdiv", "addcdiv_", "copy_", "clamp_", "clamp", "float", "double", "clone")
_ELEMENTWISE |= named(
    "__mul__", "__add__", "__sub__", "__truediv__", "__rmul__", "__radd__", "__neg__", "__iadd__"
)
_ELEMENTWISE |= named(
    "eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"
)
_ELEMENTWISE |= named("maximum", "minimum", "detach", "conj")
_ELEMENTWISE |= {torch.relu, torch.tanh, torch.sigmoid, torch.exp, torch.log, torch.sqrt, torch.abs, torch.clone}
_ELEMENTWISE |= {
    torch.add,
    torch.sub,
    torch.mul,
    torch.div,
    torch.maximum,
    torch.minimum,
    torch.clamp,
    torch.relu_,
}
_ELEMENTWISE |= {F.relu, F.gelu, F.silu, F.leaky_relu, F.elu, F.softplus, F.sigmoid, F.tanh, torch.lerp, torch.pow}


_WITH_NUMBERS = ("add", "sub", "mul", "div", "truediv", "pow", "lerp", "rmul", "radd", "iadd", "addcmul")


def _elementwise(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    first = args[0]
    if type(first) is TrialTensor:  # mostly all are alike, which is seen at once
        shape, kind = first.shape, first.dtype
        for value in (*args[1:], *kwargs.values()):
            if type(value) is TrialTensor:
                if value.shape != shape or value.dtype != kind:
                    break
            elif type(value) is not float and type(value) is not int:
                break
        else:
            return func(*args, **kwargs)
    return _broadcast(func, args, kwargs)


def _broadcast(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run an operation on tensors of one kind and numbers, side by side from the last dimension on."""
    if isinstance(factor := kwargs.get("alpha", kwargs.get("value")), TrialNumber):
        return _with_factor(func, args, kwargs, factor)
    given = [value for value in (*args, *kwargs.values()) if isinstance(value, (Tensor, TrialNumber))]
    stacks = [value for value in given if isinstance(value, TrialTensor)]
    if not stacks:
        return NotImplemented
    like = max(stacks, key=_depth)
    depth, kind, trials = like.ndim, like.dtype, like.shape[0]
    for value in given:
        if isinstance(value, TrialNumber):
            name = func.__name__.strip("_")
            if len(value.values) != trials or not kind.is_floating_point or name not in _WITH_NUMBERS:
                return NotImplemented
        elif value.dtype != kind:
            return NotImplemented
        elif isinstance(value, TrialTensor):
            if value.shape[0] != trials:
                return NotImplemented
        elif value.ndim >= depth:
            return NotImplemented
    first = given[0]
    if is_in_place(func, kwargs) and not (isinstance(first, TrialTensor) and first.ndim == depth):
        return NotImplemented  # there is no place for the results of all trials

    def beside(value: Any) -> Any:
        if isinstance(value, TrialNumber):
            return numbers_of(value, kind, like.device, depth)
        if isinstance(value, TrialTensor) and value.ndim < depth:
            return value.reshape(trials, *(1,) * (depth - value.ndim), *value.shape[1:])
        return value

    return func(*map(beside, args), **{name: beside(value) for name, value in kwargs.items()})


def _with_factor(func: Any, args: Sequence[Any], kwargs: dict[str, Any], factor: TrialNumber) -> Any:
    """Add or subtract a tensor times a number of each trial, which torch takes as one more tensor."""
    like = args[0]
    alike = all(type(one) is TrialTensor and one.shape == like.shape and one.dtype == like.dtype for one in args)
    if len(kwargs) > 1 or not alike or not like.is_floating_point() or len(factor.values) != like.shape[0]:
        return NotImplemented
    numbers = numbers_of(factor, like.dtype, like.device, like.ndim)
    if len(args) == 3:  # addcmul and addcdiv
        return func(like, args[1] * numbers, args[2])
    added, sign = _FACTORS.get(func.__name__, (None, 0))
    return NotImplemented if added is None else added(*args, numbers, value=sign)


_FACTORS: dict[str, tuple[Any, int]] = {
    "add": (Tensor.addcmul, 1),
    "add_": (Tensor.addcmul_, 1),
    "sub": (Tensor.addcmul, -1),
    "sub_": (Tensor.addcmul_, -1),
}


def _depth(tensor: Tensor) -> int:
    return tensor.ndim


def _linear(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    x, weight, bias = _filled(args, kwargs, ("input", "weight", "bias"), (None,))
    if not isinstance(weight, TrialTensor) or not (bias is None or isinstance(bias, TrialTensor)):
        return NotImplemented
    trials, outputs, inputs = weight.shape
    if isinstance(x, TrialTensor):
        rows, inner = x.reshape(trials, -1, x.shape[-1]), x.shape[1:-1]
    else:
        rows, inner = x.reshape(-1, x.shape[-1]).expand(trials, -1, -1), x.shape[:-1]
    if rows.shape[-1] != inputs:
        return NotImplemented
    turned = weight.transpose(1, 2)
    found = torch.bmm(rows, turned) if bias is None else torch.baddbmm(bias.unsqueeze(1), rows, turned)
    return found if len(inner) == 1 else found.reshape(trials, *inner, outputs)


def _conv(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    x, weight, bias, stride, padding, dilation, groups = _filled(args, kwargs, names, (None, 1, 0, 1, 1))
    if not isinstance(weight, TrialTensor) or not (bias is None or isinstance(bias, TrialTensor)):
        return NotImplemented
    trials, of_all = weight.shape[0], not isinstance(x, TrialTensor)
    if x.ndim != weight.ndim - of_all or (of_all and groups != 1):
        return NotImplemented
    filters, images = weight.flatten(0, 1), x if of_all else _beside(x)
    if _is_fast_with_channels_last(images):
        images, filters = images.contiguous(memory_format=_LAST), filters.contiguous(memory_format=_LAST)
    own = None if bias is None else bias.flatten()
    found = func(images, filters, own, stride, padding, dilation, groups if of_all else trials * groups)
    return _apart(found, trials)


def _batch_norm(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    x, mean, var, weight, bias, training, momentum, eps = _filled(
        args, kwargs, names, (None, None, None, None, False, 0.1, 1e-5)
    )
    own = [mean, var, weight, bias]
    known = all(one is None or (isinstance(one, TrialTensor) and one.is_contiguous()) for one in own)
    numbers = isinstance(momentum, TrialNumber) or isinstance(eps, TrialNumber)
    if not isinstance(x, TrialTensor) or x.ndim < 3 or not known or numbers:
        return NotImplemented
    flat = [None if one is None else one.view(-1) for one in own]  # statistics are changed in place
    return _apart(func(_beside(x), *flat, training, momentum, eps), x.shape[0])


def _group_norm(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    x, groups, *affine, eps = _filled(
        args, kwargs, ("input", "num_groups", "weight", "bias", "eps"), (None, None, 1e-5)
    )
    if not isinstance(x, TrialTensor) or x.ndim < 3 or isinstance(eps, TrialNumber):
        return NotImplemented
    depth = x.ndim - 3  # of a picture
    return _scaled(func(x.flatten(0, 1), groups, None, None, eps).unflatten(0, x.shape[:2]), affine, depth)


def _layer_norm(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    names = ("input", "normalized_shape", "weight", "bias", "eps")
    x, shape, *affine, eps = _filled(args, kwargs, names, (None, None, 1e-5))
    if not isinstance(x, TrialTensor) or x.ndim <= len(shape) or isinstance(eps, TrialNumber):
        return NotImplemented
    return _scaled(func(x, shape, None, None, eps), affine, 0)


def _scaled(x: Tensor, affine: Sequence[Any], depth: int) -> Any:
    """Return x times a weight and plus a bias of each trial, which lie before the last dimensions of x."""
    weight, bias = affine
    if any(one is not None and not isinstance(one, TrialTensor) for one in affine):
        return NotImplemented
    for one, change in ((weight, torch.mul), (bias, torch.add)):
        if one is not None:
            between = (1,) * (x.ndim - depth - one.ndim)
            x = change(x, one.reshape(len(one), *between, *one.shape[1:], *(1,) * depth))
    return x


def _pool(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    x, *rest = args
    if not isinstance(x, TrialTensor) or x.ndim != 5 or kwargs.get("return_indices"):
        return NotImplemented
    images = _beside(x)
    if _is_fast_with_channels_last(images):
        images = images.contiguous(memory_format=_LAST)
    found = func(images, *rest, **kwargs)
    return _apart(found, x.shape[0]) if isinstance(found, Tensor) else NotImplemented


def _cross_entropy(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Losses of all trials by one call; their mean is over what is not ignored, as torch's."""
    names = (
        "input",
        "target",
        "weight",
        "size_average",
        "ignore_index",
        "reduce",
        "reduction",
        "label_smoothing",
    )
    x, y, weight, average, ignored, reduce, reduction, smoothing = _filled(
        args, kwargs, names, (None, None, -100, None, "mean", 0.0)
    )
    usual = weight is None and average is None and reduce is None and not isinstance(smoothing, TrialNumber)
    if not usual or not isinstance(x, TrialTensor) or x.ndim != 3 or y.dtype != torch.int64:
        return NotImplemented
    trials, rows, _ = x.shape
    counted = y if isinstance(y, TrialTensor) else y[None]
    y = counted.expand(trials, -1)
    if y.shape != (trials, rows):
        return NotImplemented
    found = func(
        x.flatten(0, 1), y.flatten(), ignore_index=ignored, reduction="none", label_smoothing=smoothing
    ).view(trials, rows)
    if reduction == "none":
        return found
    return found.sum(1) / (counted != ignored).sum(1) if reduction == "mean" else found.sum(1)


def _reduced(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Sums and means over all numbers of each trial, or over some dimensions."""
    x, *rest = args
    dims = rest[0] if rest else kwargs.get("dim")
    if not isinstance(x, TrialTensor) or set(kwargs) - {"dim", "keepdim"}:
        return NotImplemented
    if dims is None:
        return NotImplemented if rest or kwargs or x.ndim == 1 else func(x.flatten(1), 1)
    if isinstance(dims, int):
        shifted: Any = _shifted(dims)
    elif isinstance(dims, (tuple, list)) and dims:
        shifted = tuple(map(_shifted, dims))
    else:
        return NotImplemented
    lowest = min(shifted) if isinstance(shifted, tuple) else shifted
    if lowest <= -x.ndim or x.ndim == 1:
        return NotImplemented  # torch tells that there is no such dimension
    return func(x, shifted, *rest[1:], **{key: value for key, value in kwargs.items() if key != "dim"})


def _reshaped(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Give each trial another shape, also where its numbers are not beside each other."""
    x, *shape = args
    shape = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if not isinstance(x, TrialTensor) or kwargs or not shape or not all(isinstance(one, int) for one in shape):
        return NotImplemented
    return told_copy(x, x.reshape(x.shape[0], *shape))


def _flattened(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    x, start, end = _filled(args, kwargs, ("input", "start_dim", "end_dim"), (0, -1))
    if not isinstance(x, TrialTensor) or x.ndim == 1 or min(start, end) < 1 - x.ndim:
        return NotImplemented
    return told_copy(x, x.flatten(_shifted(start), _shifted(end)))


def _dropout(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Each number of each trial is drawn for itself."""
    x, rate, training, inplace = _filled(args, kwargs, ("input", "p", "training", "inplace"), (0.5, True, False))
    if not isinstance(x, TrialTensor) or isinstance(rate, TrialNumber) or inplace:
        return NotImplemented
    return F.dropout(x, rate, training)


def _norm(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    x, *rest = args
    if (
        not isinstance(x, TrialTensor)
        or len(rest) > 1
        or kwargs
        or any(isinstance(one, TrialNumber) for one in rest)
    ):
        return NotImplemented
    return func(x.reshape(x.shape[0], -1), *rest, dim=1)


def _stack(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    parts, dim = _filled(args, kwargs, ("tensors", "dim"), (0,))
    alike = all(isinstance(part, TrialTensor) and part.shape == parts[0].shape for part in parts)
    return torch.stack(list(parts), dim + 1) if alike and dim >= 0 else NotImplemented


_LAST = torch.channels_last


def _is_fast_with_channels_last(images: Tensor) -> bool:
    """Pooling on a CPU is many times faster so, and all else no slower."""
    return images.ndim == 4 and images.device.type == "cpu"


def _beside(x: Tensor) -> Tensor:
    """Return [trials, samples, channels, ...] as [samples, trials · channels, ...]; no copy if it lies so."""
    return x.movedim(0, 1).flatten(1, 2)


def _apart(x: Tensor, trials: int) -> Tensor:
    return x.unflatten(1, (trials, -1)).movedim(1, 0)


def _shifted(dim: int) -> int:
    return dim + 1 if dim >= 0 else dim


def _filled(
    args: Sequence[Any], kwargs: dict[str, Any], names: Sequence[str], defaults: Sequence[Any]
) -> list[Any]:
    """Return arguments in the order of names; the last ones have defaults."""
    first_default = len(names) - len(defaults)
    found = list(args)
    for at in range(len(args), len(names)):
        found.append(kwargs[names[at]] if names[at] in kwargs else defaults[at - first_default])
    return found


DIRECT.update(dict.fromkeys(_ELEMENTWISE, _elementwise))
DIRECT.update(dict.fromkeys((torch.sum, torch.mean, Tensor.sum, Tensor.mean), _reduced))
DIRECT.update(dict.fromkeys((Tensor.argmax, torch.argmax), _reduced))
DIRECT.update(dict.fromkeys((F.conv1d, F.conv2d, F.conv3d), _conv))
DIRECT.update(dict.fromkeys((Tensor.flatten, torch.flatten), _flattened))
DIRECT.update(dict.fromkeys((Tensor.view, Tensor.reshape, torch.reshape), _reshaped))
DIRECT.update(dict.fromkeys((F.max_pool2d, torch.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d), _pool))
DIRECT.update({F.linear: _linear, F.batch_norm: _batch_norm, F.cross_entropy: _cross_entropy, F.dropout: _dropout})
DIRECT.update({F.group_norm: _group_norm, F.layer_norm: _layer_norm})
DIRECT.update({torch.linalg.vector_norm: _norm, torch.stack: _stack})
