"""Makes the models of a script narrower, in place, before they are trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from . import activations, initial, roles
from .errors import AS_IS, WIDTH, CannotShrink
from .first_values import drawn
from .initial import Origin
from .layers import layers_of, told
from .parametrise import prepare_layers, rate_factors
from .plan import Plan, by_marks, by_rules, resize
from .rates import LayerRates, family_of
from .width import begins_at_zero, divisor, known


def shrink(
    modules: Sequence[nn.Module], companions: Sequence[nn.Module], optimizers: Sequence[Optimizer], loader: Any
) -> None:
    """Make models as many times narrower as `COADAPT_SHRINK` says, and let optimizers follow; 1 changes nothing.

    Models, parameters and optimizers stay the same objects. Models are narrowed by the rules of their layers,
    unless the script built them narrow with `coadapt.width`. Either way they are parametrised by maximal update
    and drawn anew, from the seed of the script.

    Raises: CannotShrink, in one sentence, for what cannot be narrowed; models are as they were then.
    """
    if (by := divisor()) > 1:
        _shrink(modules, companions, optimizers, loader, by)
    activations.record_as_asked(modules, optimizers, by)


def _shrink(
    modules: Sequence[nn.Module],
    companions: Sequence[nn.Module],
    optimizers: Sequence[Optimizer],
    loader: Any,
    by: int,
) -> None:
    families = [family_of(optimizer) for optimizer in optimizers]
    modules = [getattr(module, "_orig_mod", module) for module in modules]  # of torch.compile, which runs later
    marked = bool(known())
    _check(modules, companions, optimizers, marked)
    plan = as_marked(modules) if marked else narrowed(modules[0], by, loader)
    for optimizer, family in zip(optimizers, families, strict=True):
        LayerRates(optimizer, rate_factors(plan, family))


def as_marked(modules: Sequence[nn.Module]) -> Plan:
    """Parametrise models that the script built narrow. Return what was done.

    Raises: CannotShrink; the models are as they were then.
    """
    plan = by_marks(modules)
    origins = initial.origins(plan, "narrow")
    for module in modules:
        _let_containers_follow(module)
    fill(plan, origins)
    prepare_layers(plan)
    return plan


def narrowed(module: nn.Module, by: int, loader: Any) -> Plan:
    """Make a model narrower by the rules of its layers, in place. Return what was done.

    Raises: CannotShrink; the model is as it was then.
    """
    layers = layers_of(module)
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    found = roles.find(module, layers, roles.few_samples(loader, device))
    plan = by_rules(module, found, by)
    origins = initial.origins(plan, "wide")
    before = [origin.tensor.data for origin in origins]
    resize(plan, "narrow")
    fill(plan, origins)
    handles = prepare_layers(plan)
    _let_containers_follow(module)
    try:
        _try(module, found)
    except CannotShrink:
        resize(plan, "wide")
        _let_containers_follow(module)
        for origin, data in zip(origins, before, strict=True):
            origin.tensor.data = data
        for handle in handles:
            handle.remove()
        raise
    return plan


def _let_containers_follow(module: nn.Module) -> None:
    """Tell whole Transformers their width, and keep encoders from nested tensors.

    Only kernels take these that know no other scale of logits.
    """
    for layer in module.modules():
        if isinstance(layer, nn.TransformerEncoder):
            layer.use_nested_tensor = False
        if isinstance(layer, nn.Transformer):
            layer.d_model = next(
                one for one in layer.modules() if isinstance(one, nn.MultiheadAttention)
            ).embed_dim


def fill(plan: Plan, origins: Sequence[Origin]) -> None:
    """Give all parameters and buffers the first values of the narrow model, drawn by the seed of the script."""
    for origin, values in zip(origins, drawn(plan, origins, torch.initial_seed(), begins_at_zero()), strict=True):
        origin.tensor.data = values
        origin.tensor.grad = None


def _try(module: nn.Module, found: roles.Roles) -> None:
    """Run the narrow model as the wide one was. Raises: CannotShrink, where widths are written in the code."""
    with _inner(module) as running:
        try:
            output, heads = roles.run(module, found.call)
        except Exception as error:  # of the script, at any place
            name, layer = running[-1] if running else ("", module)
            reason = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
            raise CannotShrink(
                f"shrink: the narrow model fails in {told(name, layer)}: {reason}; {WIDTH}"
            ) from error
    returned = [tuple(one.shape) for one in roles.tensors(output)]
    if returned != found.returned:
        raise CannotShrink(
            f"shrink: the narrow {type(module).__name__} returns shapes {returned}, not {found.returned}; {WIDTH}"
        )
    if heads != found.heads:
        raise CannotShrink(
            f"shrink: {type(module).__name__} computes attention itself, whose logits would need another scale; "
            "write its number of heads as coadapt.width(…, least=1), and its widths too"
        )


@contextmanager
def _inner(module: nn.Module) -> Iterator[list[tuple[str, nn.Module]]]:
    """Keep the modules that run, the innermost last. One that fails stays in the list."""
    running: list[tuple[str, nn.Module]] = []

    def enter(name: str) -> Any:
        return lambda layer, args: running.append((name, layer))

    handles = []
    for name, layer in module.named_modules():
        handles.append(layer.register_forward_pre_hook(enter(name)))
        handles.append(layer.register_forward_hook(lambda layer, args, output: running.pop() and None))
    try:
        yield running
    finally:
        for handle in handles:
            handle.remove()


def _check(
    modules: Sequence[nn.Module], companions: Sequence[nn.Module], optimizers: Sequence[Optimizer], marked: bool
) -> None:
    if len(modules) > 1 and not marked:
        raise CannotShrink(f"shrink: prepare was given {len(modules)} models, whose places are unknown; {WIDTH}")
    for module in companions:
        if any(True for _ in module.parameters()):
            raise CannotShrink(
                f"shrink: prepare was given a {type(module).__name__} that is not trained, such as an average or "
                f"a teacher; {AS_IS}"
            )
    own = {id(parameter) for module in modules for parameter in module.parameters()}
    held = [
        parameter for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]
    ]
    if any(id(parameter) not in own for parameter in held):
        raise CannotShrink("shrink: the optimizer steps parameters of no model that `prepare` was given")
    for module in modules:
        if any(type(parameter.data) is not Tensor for parameter in module.parameters()):
            raise CannotShrink(f"shrink: {type(module).__name__} has tensors of another kind, as sharded ones")
