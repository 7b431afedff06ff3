"""One tensor that stands for those of all trials of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import roster
from .errors import CannotFuse
from .rules import Stacks
from .trial_number import TrialNumber, agreed

_T: Any = Tensor  # whose properties are asked for by name


def _named(*names: str) -> set[Any]:
    """Return methods of tensors, and what reads properties, as torch hands them over."""
    found = (getattr(_T, name) for name in names)
    return {one if callable(one) else one.__get__ for one in found}


FACTORS = ("alpha", "value")  # of `add`, `addcmul` and their kind
_AGE = "_coadapt_age"  # of a tensor: how often trials had been dropped when it was made

# As each trial has it.
_SHAPED = _named(
    "shape", "ndim", "itemsize", "size", "dim", "ndimension", "numel", "nelement", "__len__", "stride"
)
_SHAPED.add(torch.numel)
# As the stack of all has it.
_ALIKE = _named("dtype", "device", "requires_grad", "is_leaf", "retains_grad", "layout", "is_cuda", "is_sparse")
_ALIKE |= _named("is_quantized", "is_meta", "grad_fn", "is_nested", "output_nr", "_version", "is_contiguous")
_ALIKE |= _named("is_floating_point", "is_complex", "element_size", "get_device", "is_signed", "__hash__")
_ALIKE |= _named("requires_grad_", "retain_grad")
_ALIKE |= {torch.is_floating_point, torch.is_complex}
_ALIKE |= {_T.requires_grad.__set__, _T.grad.__set__, _T.grad.__delete__}
_ATTENTION = (F.multi_head_attention_forward, F.scaled_dot_product_attention)
_REFUSED = {Tensor.numpy: "numpy", Tensor.__array__: "numpy", Tensor.data_ptr: "data_ptr"}


class TrialTensor(Tensor):
    """The tensors of all trials, stacked in a first dimension that the script does not see.

    Common operations run for all at once by `rules`, and all others by `torch.func.vmap`. What has no rule there
    raises CannotFuse.
    """

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _POINTWISE and (given := _side_by_side(args, kwargs)) is not None:
            with torch._C.DisableTorchFunctionSubclass():
                return wrapped(func(*given[0], **given[1]))
        for name in FACTORS if kwargs else ():
            if isinstance(kwargs.get(name), TrialNumber):
                args, kwargs = _multiplied(args, kwargs, name)
        if (found := _SPECIAL.get(func)) is not None:
            return found(*args, **kwargs)
        if func in _SHAPED:
            return func(stacked(args[0])[0], *args[1:], **kwargs)
        if func in _ALIKE:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if (rule := _RULES.get(func)) is not None:
            with torch._C.DisableTorchFunctionSubclass():
                if (ruled := rule(*args, **kwargs)) is not None:
                    return wrapped(ruled)
        if func in _REFUSED:
            raise CannotFuse(
                f"{_REFUSED[func]}: it needs the memory of one tensor, and there is one for each trial"
            )
        return for_each_trial(func, args, kwargs)


# What optimizers do with a parameter and its state. Each number of the result has its own operands.
_POINTWISE = _named("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "lerp_", "addcmul_", "addcdiv_")
_POINTWISE |= _named("sqrt", "sqrt_", "neg", "clone", "detach", "conj", "copy_", "zero_")
_POINTWISE |= _named("__mul__", "__add__", "__truediv__") | {torch.clone, torch.maximum, torch.sqrt}


def _side_by_side(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """Return arguments as stacks whose numbers lie side by side, so that no rule for trials is needed.

    A factor must be a plain number for torch, so one of trials is multiplied in before.
    None: they are not tensors of trials of one shape, and numbers.
    """
    if not isinstance(args[0], TrialTensor):
        return None
    like, of_trials = stacked(args[0]), False
    shape = like.shape
    given: list[Any] = []
    for value in args:
        if isinstance(value, TrialTensor):
            value = stacked(value)
            if value.shape != shape:
                return None
        elif isinstance(value, Tensor):
            return None
        elif isinstance(value, TrialNumber):
            value, of_trials = _column(value, like), True
        given.append(value)
    named = {}
    for name, value in kwargs.items():
        if isinstance(value, TrialNumber) and name in FACTORS:
            given[1], of_trials = given[1] * _column(value, like), True
        elif isinstance(value, Tensor | TrialNumber):
            return None
        else:
            named[name] = value
    # A whole number becomes one with a fraction, as torch decides.
    return None if of_trials and not like.is_floating_point() else (given, named)


def _column(number: TrialNumber, like: Tensor) -> Tensor:
    """Return the numbers of trials as a tensor that meets a stack."""
    numbers = torch.tensor(number.values, dtype=like.dtype, device=like.device)
    return numbers.view(-1, *(1,) * (like.ndim - 1))


def stacked(tensor: Tensor) -> Tensor:
    """Return the tensor with the dimension of trials, as a plain one.

    Raises: CannotFuse, for one that was computed before trials were dropped, and of which gradients are asked.
    """
    with torch._C.DisableTorchFunctionSubclass():
        if tensor.__dict__.get(_AGE, roster.age()) != roster.age():
            _cut(tensor)
        return tensor.as_subclass(Tensor)


def _cut(tensor: Tensor) -> None:
    """Leave the trials that are left, in place: whoever else holds the tensor sees the same."""
    left = roster.places_left(tensor.shape[0], tensor.__dict__[_AGE])
    if left is not None and tensor.grad_fn is not None:
        raise CannotFuse("trials: some were dropped between the forward and the backward pass of a step")
    if left is not None:
        tensor.data = tensor.detach().as_subclass(Tensor)[left].clone()
    tensor.__dict__[_AGE] = roster.age()


def _aged(tensor: Any) -> Any:
    """Mark a tensor as of the trials there are now."""
    tensor.__dict__[_AGE] = roster.age()
    return tensor


def plain_of(tensor: Tensor, trial: int) -> Tensor:
    """Return a copy of the tensor of one trial."""
    return stacked(tensor)[trial].detach().clone()


def stack(tensors: Sequence[Tensor]) -> TrialTensor:
    """Return one tensor that stands for those of trials, as a leaf."""
    with torch._C.DisableTorchFunctionSubclass():
        return _aged(torch.Tensor._make_subclass(TrialTensor, torch.stack([one.detach() for one in tensors])))


def parameter_of(tensors: Sequence[Tensor], requires_grad: bool) -> TrialTensor:
    """Return a parameter that stands for those of trials."""
    with torch._C.DisableTorchFunctionSubclass():
        data = torch.stack([one.detach() for one in tensors])
        found = torch.Tensor._make_subclass(TrialTensor, data, requires_grad)
    _aged(found)._is_param = True  # by which `isinstance(found, nn.Parameter)` holds
    return found


def wrapped(tensor: Tensor) -> TrialTensor:
    """Return a tensor, whose first dimension is of trials, as one that stands for all of them."""
    with torch._C.DisableTorchFunctionSubclass():
        return _aged(tensor.as_subclass(TrialTensor))


def for_each_trial(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return what a function of torch gives for each trial. Numbers of trials become tensors."""
    leaves, form = tree_flatten((tuple(args), kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (TrialTensor, TrialNumber))]
    given = [_as_stacked(leaves[i], leaves, at) for i in at]

    plain: list[Any] = []  # what is given back, with None in place of tensors
    shape: list[Any] = []

    def one(*own: Tensor) -> tuple[Tensor, ...]:
        filled = list(leaves)
        for i, value in zip(at, own, strict=True):
            filled[i] = value
        own_args, own_kwargs = tree_unflatten(filled, form)
        found, back = tree_flatten(func(*own_args, **own_kwargs))
        plain[:], shape[:] = [None if isinstance(value, Tensor) else value for value in found], [back]
        tensors[:] = [i for i, value in enumerate(found) if isinstance(value, Tensor)]
        return tuple(found[i] for i in tensors)

    tensors: list[int] = []
    exact = sdpa_kernel(SDPBackend.MATH) if func in _ATTENTION else nullcontext()  # the others have no rule
    try:
        with torch._C.DisableTorchFunctionSubclass(), exact:
            found = torch.func.vmap(one, randomness="different")(*given)
    except (RuntimeError, ValueError) as error:
        raise CannotFuse(
            f"{_name(func)}: it cannot run for several trials at once: {_first_line(error)}"
        ) from error
    for i, value in zip(tensors, found, strict=True):
        plain[i] = wrapped(value)
    return tree_unflatten(plain, shape[0])


def _as_stacked(leaf: Any, leaves: Sequence[Any], at: Sequence[int]) -> Tensor:
    if isinstance(leaf, TrialTensor):
        return stacked(leaf)
    beside = [leaves[i] for i in at] + list(leaves)
    like = next((stacked(one) for one in beside if isinstance(one, Tensor)), None)
    if like is None or not like.is_floating_point():
        return torch.tensor(leaf.values)
    return torch.tensor(leaf.values, dtype=like.dtype, device=like.device)


def _multiplied(args: Sequence[Any], kwargs: dict[str, Any], name: str) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the arguments of `add`, `addcmul` and their kind without a factor, which the second operand has."""
    first, second, *rest = args
    return (first, second * kwargs[name], *rest), {key: one for key, one in kwargs.items() if key != name}


def _like(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes a tensor like another one, with memory of its own for each trial."""

    def make(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return wrapped(func(stacked(tensor), *args, **kwargs))

    return make


def _numbers(tensor: Tensor) -> TrialNumber:
    own = stacked(tensor)
    if own.ndim == 0 or own[0].numel() != 1:
        raise CannotFuse("item: a tensor of one number is accepted")
    return TrialNumber(own.reshape(len(own)).tolist())


def _register_hook(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Any:
    """Have a hook told the gradients of all trials as one tensor."""

    def told(gradient: Tensor) -> Tensor | None:
        found = hook(wrapped(gradient))
        return None if found is None else stacked(found)

    with torch._C.DisableTorchFunctionSubclass():
        return tensor.register_hook(told)


def _bool(tensor: Tensor) -> bool:
    return agreed("a condition", (bool(value) for value in _numbers(tensor).values))


def _float(tensor: Tensor) -> float:
    return float(_numbers(tensor))  # it raises, and says what to do


def _backward(tensor: Tensor, gradient: Tensor | None = None, *args: Any, **kwargs: Any) -> None:
    """Add the gradients of each trial's own loss: that of the sum, as no trial is in another's."""
    own = stacked(tensor)
    if gradient is None:
        if own.ndim != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        own.sum().backward(None, *args, **kwargs)
    else:
        own.backward(stacked(gradient) if isinstance(gradient, TrialTensor) else gradient, *args, **kwargs)


def _grad(tensor: Tensor) -> Tensor | None:
    with torch._C.DisableTorchFunctionSubclass():
        found = tensor.grad
    return None if found is None else wrapped(found)


def _repr(tensor: Tensor, **_: Any) -> str:
    return f"TrialTensor({stacked(tensor)!r})"


def _iter(tensor: Tensor) -> Any:
    own = stacked(tensor)
    return (wrapped(own[:, i]) for i in range(own.shape[1]))


def _data(tensor: Tensor) -> Tensor:
    return wrapped(stacked(tensor).data)


_SPECIAL: dict[Any, Callable[..., Any]] = {
    **{func: _like(func) for func in (torch.zeros_like, torch.ones_like, torch.empty_like, torch.full_like)},
    Tensor.item: _numbers,
    Tensor.register_hook: _register_hook,
    Tensor.__float__: _float,
    Tensor.__int__: _float,
    Tensor.__index__: _float,
    Tensor.__bool__: _bool,
    Tensor.backward: _backward,
    _T.grad.__get__: _grad,
    Tensor.__repr__: _repr,
    Tensor.__iter__: _iter,
    _T.data.__get__: _data,
}


_RULES = Stacks(lambda value: isinstance(value, TrialTensor), stacked).rules()


def _name(func: Any) -> str:
    return str(getattr(func, "__name__", func))


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
