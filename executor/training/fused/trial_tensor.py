"""One tensor that stands for those of all trials of a group."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import roster
from .errors import CannotFuse
from .trial_number import TrialNumber, agreed

Rule = Callable[[Any, Sequence[Any], dict[str, Any]], Any]
DIRECT: dict[Any, Rule] = {}  # of `direct_rules`
_T: Any = Tensor  # whose properties are asked for by name


def named(*names: str) -> set[Any]:
    """Return methods of tensors, and what reads properties, as torch hands them over."""
    found = (getattr(_T, name) for name in names)
    return {one if callable(one) else one.__get__ for one in found}


_AGE = "_coadapt_age"  # of a tensor: how often trials had been dropped when it was made

# As each trial has it.
_SHAPED = named("shape", "ndim", "itemsize", "size", "dim", "ndimension", "numel", "nelement", "__len__", "stride")
_SHAPED.add(torch.numel)
# As the stack of all has it.
_ALIKE = named("dtype", "device", "requires_grad", "is_leaf", "retains_grad", "layout", "is_cuda", "is_sparse")
_ALIKE |= named("is_quantized", "is_meta", "grad_fn", "is_nested", "output_nr", "_version", "is_contiguous")
_ALIKE |= named("is_floating_point", "is_complex", "element_size", "get_device", "is_signed", "__hash__")
_ALIKE |= named("requires_grad_", "retain_grad", "register_post_accumulate_grad_hook")
_ALIKE |= {torch.is_floating_point, torch.is_complex, torch._has_compatible_shallow_copy_type}
_ALIKE |= {_T.requires_grad.__set__, _T.grad.__set__, _T.grad.__delete__}
_ATTENTION = (F.multi_head_attention_forward, F.scaled_dot_product_attention)
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")  # without a rule, and worth no refusal
_WITH_FACTOR = ("add", "sub", "addcmul", "addcdiv")
_REFUSED = {Tensor.numpy: "numpy", Tensor.__array__: "numpy", Tensor.data_ptr: "data_ptr"}


class TrialTensor(Tensor):
    """The tensors of all trials, stacked in a first dimension that the script does not see.

    Every operation of torch runs for each trial, by `torch.func.vmap`. What has no rule there raises CannotFuse.
    """

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return run(func, args, kwargs or {})


def run(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return what a function of torch gives for trials, of which are some of its arguments."""
    if roster.age():
        for given in (*args, *kwargs.values()):
            for one in given if isinstance(given, (list, tuple)) else (given,):
                if isinstance(one, TrialTensor):
                    stacked(one)  # cut to the trials that are left
    if args and isinstance(args[0], TrialTensor) and "is_copy" in args[0].__dict__ and is_in_place(func, kwargs):
        told = "it would change what a view shows, which a group has as a copy; change the tensor itself"
        raise CannotFuse(f"{_name(func)}: {told}")
    if torch._C._are_functorch_transforms_active():
        raise CannotFuse(f"{_name(func)}: a script's own `torch.func` cannot run for several trials at once")
    if (rule := DIRECT.get(func)) is not None and args:
        with torch._C.DisableTorchFunctionSubclass():
            direct = rule(func, args, kwargs)
        if direct is not NotImplemented:
            direct.__class__ = TrialTensor  # it is a new tensor, or was one of trials
            aged(direct)
            return direct
    for name in ("alpha", "value"):  # a factor must be a plain number, so it is multiplied in before
        if isinstance(kwargs.get(name), TrialNumber) and _name(func).rstrip("_") in _WITH_FACTOR:
            return run(func, *_multiplied(args, kwargs, name))
    if (found := _SPECIAL.get(func) or _of_autograd(func)) is not None:
        return found(*args, **kwargs)
    if func in _SHAPED:
        return func(stacked(args[0])[0], *args[1:], **kwargs)
    if func in _ALIKE:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if func in _REFUSED:
        raise CannotFuse(f"{_REFUSED[func]}: it needs the memory of one tensor, and there is one for each trial")
    return for_each_trial(func, args, kwargs)


def _of_number(
    cls: type, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    return run(func, args, kwargs or {})


TrialNumber.__torch_function__ = classmethod(_of_number)  # type: ignore[attr-defined]  # as of a tensor


def stacked(tensor: Tensor) -> Tensor:
    """Return the tensor with the dimension of trials, as a plain one.

    Raises: CannotFuse, for one that was computed before trials were dropped, and of which gradients are asked.
    """
    with torch._C.DisableTorchFunctionSubclass():
        if roster.age():
            cut(tensor)
        return tensor.as_subclass(Tensor)


def cut(tensor: Tensor) -> None:
    """Leave in a tensor the trials that are left, in place: whoever else holds it sees the same."""
    since = tensor.__dict__.get(_AGE, roster.age())
    if since == roster.age():
        return
    left = roster.places_left(tensor.shape[0], since)
    if left is not None and tensor.grad_fn is not None:
        raise CannotFuse("trials: some were dropped between the forward and the backward pass of a step")
    if left is not None:
        tensor.data = tensor.detach().as_subclass(Tensor)[left].clone()
    tensor.__dict__[_AGE] = roster.age()


def aged(tensor: Any) -> Any:
    """Mark a tensor as of the trials there are now."""
    tensor.__dict__[_AGE] = roster.age()
    return tensor


def told_copy(tensor: Tensor, seen: Tensor) -> Tensor:
    """Return what is a view for a trial alone, and tell if it is a copy, which is not to be changed in place."""
    if seen.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr():
        seen.is_copy = True  # type: ignore[attr-defined]
    return seen


def trials_of(tensor: Tensor) -> int:
    """Return how many trials a tensor stands for; 1 if it is a plain one."""
    return len(stacked(tensor)) if isinstance(tensor, TrialTensor) else 1


def plain_of(tensor: Tensor, trial: int) -> Tensor:
    """Return a copy of the tensor of one trial."""
    return stacked(tensor)[trial].detach().clone()


def stack(tensors: Sequence[Tensor]) -> TrialTensor:
    """Return one tensor that stands for those of trials, as a leaf."""
    with torch._C.DisableTorchFunctionSubclass():
        return aged(torch.Tensor._make_subclass(TrialTensor, torch.stack([one.detach() for one in tensors])))


def parameter_of(tensors: Sequence[Tensor], requires_grad: bool) -> TrialTensor:
    """Return a parameter that stands for those of trials."""
    with torch._C.DisableTorchFunctionSubclass():
        data = torch.stack([one.detach() for one in tensors])
        found = torch.Tensor._make_subclass(TrialTensor, data, requires_grad)
    aged(found)._is_param = True  # by which `isinstance(found, nn.Parameter)` holds
    return found


def wrapped(tensor: Tensor) -> TrialTensor:
    """Return a tensor, whose first dimension is of trials, as one that stands for all of them."""
    with torch._C.DisableTorchFunctionSubclass():
        return aged(tensor.as_subclass(TrialTensor))


def for_each_trial(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return what a function of torch gives for each trial. Numbers of trials become tensors."""
    leaves, form = tree_flatten((tuple(args), kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (TrialTensor, TrialNumber))]
    beside = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    given = [
        _tensor_of(leaves[i], beside) if isinstance(leaves[i], TrialNumber) else stacked(leaves[i]) for i in at
    ]
    if any(len(one) != len(given[0]) for one in given):
        raise CannotFuse(_met(*dict.fromkeys(map(len, given))))

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
    except (RuntimeError, ValueError, TypeError) as error:
        numbers = any(isinstance(leaf, TrialNumber) for leaf in leaves)
        if (numbers or _name(func) in _RECURRENT) and not is_in_place(func, kwargs):
            return _one_by_one(func, leaves, form, len(given[0]))
        raise CannotFuse(
            f"{_name(func)}: it cannot run for several trials at once: {_first_sentence(error)}"
        ) from error
    for i, value in zip(tensors, found, strict=True):
        plain[i] = wrapped(value)
    return tree_unflatten(plain, shape[0])


def _one_by_one(func: Callable[..., Any], leaves: Sequence[Any], form: Any, trials: int) -> Any:
    """Return what a function gives for trials one after the other; it needs a plain number or has no rule."""
    found = list[list[Any]]()
    for trial in range(trials):
        args, kwargs = tree_unflatten([_of_one(leaf, trial) for leaf in leaves], form)
        own, shape = tree_flatten(func(*args, **kwargs))
        found.append(own)
    columns = [list(column) for column in zip(*found, strict=True)]
    for column in columns:
        if not all(isinstance(one, Tensor) and one.shape == column[0].shape for one in column):
            raise CannotFuse(f"{_name(func)}: it gives trials other things than tensors of one shape")
    return tree_unflatten([wrapped(torch.stack(column)) for column in columns], shape)


def _of_one(leaf: Any, trial: int) -> Any:
    if isinstance(leaf, TrialNumber):
        return leaf.of(trial)
    return stacked(leaf)[trial] if isinstance(leaf, TrialTensor) else leaf


def is_in_place(func: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    name = _name(func)
    changes = name.endswith("_") != name.endswith("__") or name.startswith("__i") or name == "__setitem__"
    return changes or "out" in kwargs or bool(kwargs.get("inplace"))


def numbers_of(number: TrialNumber, kind: torch.dtype, device: torch.device, depth: int) -> Tensor:
    """Return the numbers of trials as a tensor of this kind and depth, which is made once."""
    made: dict[Any, Tensor] = number.__dict__.setdefault("tensors", {})
    found = made.get((kind, device, depth))
    if found is None:
        found = torch.tensor(number.values, dtype=kind, device=device).view(-1, *(1,) * (depth - 1))
        made[kind, device, depth] = found
    return found


def _tensor_of(number: TrialNumber, beside: Sequence[Tensor]) -> Tensor:
    """Return the numbers of trials as a tensor, which takes part beside these as plain numbers would.

    Broken numbers beside whole ones have the default kind.
    """
    with torch._C.DisableTorchFunctionSubclass():
        broken = [one.dtype for one in beside if one.is_floating_point() or one.is_complex()]
        whole = [one.dtype for one in beside if one.dtype != torch.bool]
        device = beside[0].device if beside else None
    kinds = broken or (whole if all(isinstance(value, int) for value in number.values) else [])
    kind = functools.reduce(torch.promote_types, kinds) if kinds else None
    return torch.tensor(number.values, dtype=kind, device=device)


def _met(one: int, other: int, *_: int) -> str:
    return f"values of {one} trials and of {other} meet; some were kept from before the group changed"


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


def _bool(tensor: Tensor) -> bool:
    return agreed("a condition", (bool(value) for value in _numbers(tensor).values))


def _float(tensor: Tensor) -> float:
    numbers = _numbers(tensor)
    if not tensor.is_floating_point() and len(set(numbers.values)) == 1:  # a count of steps or batches
        return float(numbers.values[0])
    return float(numbers)  # it raises, and says what to do


def _int(tensor: Tensor) -> int:
    return int(_float(tensor))


def _backward(tensor: Tensor, gradient: Tensor | None = None, *args: Any, **kwargs: Any) -> None:
    """Add the gradients of each trial's own loss: that of the sum, as no trial is in another's."""
    own = stacked(tensor)
    check_graph([own])
    if gradient is None:
        if own.ndim != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        own.backward(torch.ones_like(own), *args, **kwargs)
    else:
        own.backward(stacked(gradient) if isinstance(gradient, TrialTensor) else gradient, *args, **kwargs)


def _backward_all(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
    """Add the gradients of several losses, as `torch.autograd.backward`."""
    losses = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if grad_tensors is not None or not all(isinstance(one, TrialTensor) for one in losses):
        raise CannotFuse("backward: several losses are accepted where each is of trials and has no gradient given")
    for at, loss in enumerate(losses):
        _backward(loss, None, *args, **(kwargs if at + 1 == len(losses) else {**kwargs, "retain_graph": True}))


def _gradients(outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return gradients of each trial's own outputs, as `torch.autograd.grad`."""
    of = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    by = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if not all(isinstance(one, TrialTensor) for one in (*of, *by)):
        raise CannotFuse("grad: outputs and inputs must be of each trial, and one of them is the same for all")
    check_graph(of)
    given = [grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs or [None] * len(of)
    with torch._C.DisableTorchFunctionSubclass():
        if any(one is None and out.ndim != 1 for one, out in zip(given, of, strict=True)):
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        ones = [
            torch.ones_like(out) if one is None else one.expand_as(out) for one, out in zip(given, of, strict=True)
        ]
        found = torch.autograd.grad(of, by, ones, *args, **kwargs)
    return tuple(None if one is None else wrapped(one) for one in found)


def check_graph(outputs: Sequence[Tensor]) -> None:
    """Raise CannotFuse, if gradients of these would not be those of each trial alone.

    Gradients of a tensor that all trials have would be summed over them. The backward of a function of the script
    would see one tensor with the dimension of trials.
    """
    with torch._C.DisableTorchFunctionSubclass():
        waiting: list[Any] = [one.grad_fn for one in outputs if one.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            name = type(node).__name__.removesuffix("Backward")
            raise CannotFuse(f"backward: {name} is no function of torch, or a module has a backward hook")
        before = node.next_functions
        if not before and not isinstance(getattr(node, "variable", waiting), (TrialTensor, list)):
            raise CannotFuse(
                "backward: a tensor that is the same for all trials requires a gradient; "
                "give `prepare` all models, and no input may require one"
            )
        for one, _ in before:
            if one is not None and one not in seen:
                seen.add(one)
                waiting.append(one)


def _register_hook(tensor: Tensor, hook: Callable[[Tensor], Any]) -> Any:
    """Let a hook see the gradient of each trial."""

    def of_trials(grad: Tensor) -> Tensor | None:
        found = hook(wrapped(grad))
        return stacked(found) if isinstance(found, TrialTensor) else found

    with torch._C.DisableTorchFunctionSubclass():
        return tensor.register_hook(of_trials)


def _deepcopy(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(tensor) in memo:
        found: Tensor = memo[id(tensor)]
        return found
    if not tensor.is_leaf:
        raise RuntimeError("deepcopy: a tensor that was computed is accepted only after `detach`")
    made = restored(stacked(tensor).detach().clone(), tensor.requires_grad, isinstance(tensor, torch.nn.Parameter))
    if (grad := tensor.grad) is not None:
        made.grad = wrapped(stacked(grad).clone())
    memo[id(tensor)] = made
    return made


def _reduce(tensor: Tensor, protocol: int) -> Any:
    own = stacked(tensor).detach(), tensor.requires_grad and tensor.is_leaf, isinstance(tensor, torch.nn.Parameter)
    return restored, own


def restored(stack: Tensor, requires_grad: bool, is_parameter: bool) -> TrialTensor:
    """Return the tensor of trials that has this stack, as from a file."""
    with torch._C.DisableTorchFunctionSubclass():
        found = torch.Tensor._make_subclass(TrialTensor, stack, requires_grad)
    if is_parameter:
        found._is_param = True
    return found


def _grad(tensor: Tensor) -> Tensor | None:
    with torch._C.DisableTorchFunctionSubclass():
        found = tensor.grad
    return None if found is None else wrapped(found)


def _dropout(tensor: Any, p: Any = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Drop numbers at the rate of each trial. As always in a group, each trial draws for itself."""
    if not isinstance(p, TrialNumber):
        return for_each_trial(F.dropout, (tensor, p, training, inplace), {})
    if inplace:
        raise CannotFuse("dropout: it cannot be done in place at a rate of each trial")
    if any(not 0 <= rate <= 1 for rate in p.values):
        raise ValueError(f"dropout: probabilities are {p}, and numbers between 0 and 1 are accepted")
    if not training:
        return tensor
    keep = TrialNumber(1 - rate for rate in p.values)
    scale = TrialNumber(1 / rate if rate else 0.0 for rate in keep.values)

    def dropped(own: Tensor, keep: Tensor, scale: Tensor) -> Tensor:
        return own * ((torch.rand_like(own) < keep) * scale)

    return for_each_trial(dropped, (tensor, keep, scale), {})


def _repr(tensor: Tensor, **_: Any) -> str:
    return f"TrialTensor({stacked(tensor)!r})"


def _format(tensor: Tensor, spec: str) -> str:
    return format(_numbers(tensor), spec) if stacked(tensor).ndim == 1 else str(tensor)


def _tolist(tensor: Tensor) -> Any:
    def one(values: Sequence[Any]) -> Any:
        return (
            [one(parts) for parts in zip(*values, strict=True)]
            if isinstance(values[0], list)
            else TrialNumber(values)
        )

    return one(stacked(tensor).tolist())


def _set_data(tensor: Tensor, data: Tensor) -> None:
    if not isinstance(data, TrialTensor):
        raise CannotFuse("data: a tensor of all trials cannot become one that is the same for each")
    with torch._C.DisableTorchFunctionSubclass():
        tensor.data = stacked(data)


def _iter(tensor: Tensor) -> Any:
    own = stacked(tensor)
    return (wrapped(own[:, i]) for i in range(own.shape[1]))


def _type(tensor: Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    found = stacked(tensor).type(dtype, *args, **kwargs) if dtype is not None else stacked(tensor).type()
    return wrapped(found) if isinstance(found, Tensor) else found


def _data(tensor: Tensor) -> Tensor:
    return wrapped(stacked(tensor).data)


_SPECIAL: dict[Any, Callable[..., Any]] = {
    **{func: _like(func) for func in (torch.zeros_like, torch.ones_like, torch.empty_like, torch.full_like)},
    Tensor.item: _numbers,
    Tensor.__float__: _float,
    Tensor.__int__: _int,
    Tensor.__index__: _int,
    Tensor.__bool__: _bool,
    Tensor.backward: _backward,
    Tensor.__format__: _format,
    Tensor.tolist: _tolist,
    _T.data.__set__: _set_data,
    Tensor.register_hook: _register_hook,
    Tensor.__deepcopy__: _deepcopy,
    Tensor.__reduce_ex__: _reduce,
    _T.grad.__get__: _grad,
    Tensor.__repr__: _repr,
    Tensor.__iter__: _iter,
    _T.data.__get__: _data,
    Tensor.type: _type,
    F.dropout: _dropout,
    torch.dropout: _dropout,
}


def _of_autograd(func: Any) -> Callable[..., Any] | None:
    """Return what stands for functions of `torch.autograd`, which sessions replace by their own now and then."""
    if func is torch.autograd.grad:
        return _gradients
    return _backward_all if func is torch.autograd.backward else None


def _name(func: Any) -> str:
    return str(getattr(func, "__name__", func))


def _first_sentence(error: BaseException) -> str:
    return str(error).strip().splitlines()[0].split(". ")[0].rstrip(".").removeprefix("vmap: ")
