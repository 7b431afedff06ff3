"""Which sizes of a model are widths: found by one batch and the graph that autograd keeps of it.

A layer's input has a width if another layer's output goes into it; else it is data. A layer is the model's output
if what the model returns comes from it and no other layer takes it in. All other outputs have a width. Norms and
whatever has no parameters hand widths on. No tracing of the code is needed, so it may branch as it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from ..data.alone import seen_alone
from ..data.batches import length_of
from ..data.drawn import Batches
from ..variables import script_random
from ..variables.rng import RandomState
from .errors import WIDTH, CannotShrink
from .layers import kind_of, told

Call = tuple[tuple[Any, ...], dict[str, Any]]  # arguments of the model
SAMPLES = 2  # enough for statistics over a batch


@dataclass
class Roles:
    """What one batch tells of a model.

    ins: for each layer, by name, which of the tensors it is given have a width.
    outputs: names of layers that make what the model returns.
    call: how the model was called.
    returned: the shapes of what it returned.
    heads: the widths of heads in attention that the script computes itself.
    """

    ins: dict[str, list[bool]]
    outputs: set[str]
    call: Call
    returned: list[tuple[int, ...]]
    heads: list[int] = field(default_factory=list)


class _Heads(TorchFunctionMode):
    """Notes the widths of heads that attention of the script's own is given."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[int] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention and (kwargs or {}).get("scale") is None:
            self.found.append((args[0] if args else kwargs["query"]).shape[-1])
        return func(*args, **kwargs or {})


def find(module: nn.Module, layers: Mapping[str, nn.Module], batch: Any) -> Roles:
    """Return the roles of layers. The model and the random state stay as they are.

    Raises: CannotShrink, if the model cannot be called with the batch, or does not run some layer.
    """
    failed: Exception | None = None
    for call in calls(batch):
        try:
            return _of_call(module, layers, call)
        except CannotShrink:
            raise
        except Exception as error:  # of the script: another way to call it may be the right one
            failed = failed or error
    reason = str(failed).strip().splitlines()[0].rstrip(".") if str(failed).strip() else type(failed).__name__
    raise CannotShrink(
        f"shrink: {type(module).__name__} cannot be called with the inputs of a batch ({reason}), so that the "
        f"places of its layers are unknown; {WIDTH}"
    )


def _of_call(module: nn.Module, layers: Mapping[str, nn.Module], call: Call) -> Roles:
    made: dict[Any, str] = {}  # by node of the graph
    entered: dict[str, list[list[Any]]] = {name: [] for name in layers}

    def before(name: str) -> Callable[..., None]:
        def hook(layer: nn.Module, args: Any, kwargs: Any) -> None:
            entered[name].append([one.grad_fn for one in tensors((args, kwargs))])

        return hook

    def after(name: str) -> Callable[..., None]:
        def hook(layer: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            made.update({one.grad_fn: name for one in tensors(output) if one.grad_fn is not None})

        return hook

    handles = []
    for name, layer in layers.items():
        handles.append(layer.register_forward_pre_hook(before(name), with_kwargs=True))
        if (kind := kind_of(layer)) is not None and not kind.is_norm:
            handles.append(layer.register_forward_hook(after(name), with_kwargs=True))
    try:
        output, heads = run(module, call)
    finally:
        for handle in handles:
            handle.remove()
    if missing := [name for name, times in entered.items() if not times]:
        raise CannotShrink(
            f"shrink: {told(missing[0], layers[missing[0]])} does not run on a batch as a module, so its place is "
            f"unknown; {WIDTH}"
        )
    sources = {
        name: [[producers(node, made) for node in nodes] for nodes in times] for name, times in entered.items()
    }
    taken = {
        one
        for name, times in sources.items()
        if not _is_norm(layers[name])
        for nodes in times
        for found in nodes
        for one in found
    }
    returned = tensors(output)
    reached = {one for tensor in returned for one in producers(tensor.grad_fn, made)}
    outputs = reached - taken
    if not outputs:
        raise CannotShrink(f"shrink: no layer of {type(module).__name__} makes what it returns; {WIDTH}")
    for name in set(made.values()) - reached - taken:
        raise CannotShrink(
            f"shrink: {told(name, layers[name])} makes nothing that the model returns, so its "
            f"place is unknown; {WIDTH}"
        )
    # Called several times, a layer has a width where any call says so: first states are often made of zeros.
    ins = {
        name: [any(bool(found - outputs) for found in of) for of in zip(*times, strict=False)]
        for name, times in sources.items()
    }
    return Roles(ins, outputs, call, [tuple(one.shape) for one in returned], heads)


def run(module: nn.Module, call: Call) -> tuple[Any, list[int]]:
    """Return what a model gives, with its graph, and widths of heads; its buffers and the random state stay."""
    parameters = {
        name: one.detach().requires_grad_(one.is_floating_point()) for name, one in module.named_parameters()
    }
    buffers = {name: one.clone() for name, one in module.named_buffers()}
    with RandomState(0).borrowed(), torch.enable_grad(), _Heads() as mode:
        output = torch.func.functional_call(module, {**parameters, **buffers}, *call)
    return output, mode.found


def tensors(value: Any) -> list[Tensor]:
    return [one for one in tree_leaves(value) if isinstance(one, Tensor)]


def producers(node: Any, made: Mapping[Any, str]) -> set[str]:
    """Return the layers whose outputs a node of the graph is computed from, without a layer between them."""
    found: set[str] = set()
    seen: set[Any] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one is None or one in seen:
            continue
        seen.add(one)
        if one in made:
            found.add(made[one])
        else:
            waiting += [before for before, _ in one.next_functions]
    return found


def _is_norm(layer: nn.Module) -> bool:
    return (kind := kind_of(layer)) is not None and kind.is_norm


def calls(batch: Any) -> Iterator[Call]:
    """Yield how scripts call a model with a batch, the most likely way first."""
    if isinstance(batch, Mapping):
        yield (), dict(batch)
        yield from (((value,), {}) for value in list(batch.values())[:1])
    elif isinstance(batch, (tuple, list)) and batch:
        yield (batch[0],), {}
        if len(batch) > 2:
            yield tuple(batch[:-1]), {}
        yield tuple(batch), {}
    yield (batch,), {}


def few_samples(loader: Any, device: torch.device) -> Any:
    """Return a batch of two samples. What the script draws afterwards stays the same.

    Raises: CannotShrink, where there is none.
    """
    with RandomState(0).borrowed(), seen_alone(), _put_back(loader):
        if isinstance(loader, Batches):
            batch = loader.first
        elif loader.batch_sampler is not None and hasattr(loader.dataset, "__getitem__"):
            drawn: Any = next(iter(loader.batch_sampler), [])  # what workers would read, and no more of it
            batch = loader.collate_fn([loader.dataset[i] for i in list(drawn)[:SAMPLES]]) if drawn else None
        else:
            batch = next(iter(loader), None)
    if batch is None:
        raise CannotShrink(f"shrink: there is no first batch to find the places of layers with; {WIDTH}")
    return _first_of(batch, device)


@contextmanager
def _put_back(loader: Any) -> Iterator[None]:
    """Put the random generators of a loader back to where they were."""
    things = [one for name in ("dataset", "sampler", "batch_sampler") if (one := getattr(loader, name, None))]
    before = [script_random.capture(one) for one in things]
    try:
        yield
    finally:
        for one, state in zip(things, before, strict=True):
            script_random.restore(one, state)


def _first_of(batch: Any, device: torch.device) -> Any:
    count = length_of(batch)

    def cut(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return (value[:SAMPLES] if value.ndim and len(value) == count else value).to(device)

    return tree_map(cut, batch)
