"""The sizes that a model's layers have in the target and in a narrow model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from . import layers as known_layers
from .errors import WIDTH, CannotShrink
from .layers import Kind, Part, check_supported, kind_of, layers_of, told, xavier
from .roles import Roles
from .width import LEAST, known, wide_of


@dataclass(frozen=True)
class Sized:
    """One layer of a model: its sizes in the target (`wide`) and in the narrow model.

    by_xavier: weights were drawn by Xavier's rule, as `nn.Transformer` does for all layers in it.
    """

    name: str
    layer: nn.Module
    kind: Kind
    wide: Mapping[str, int]
    narrow: Mapping[str, int]
    by_xavier: bool = False

    def parts(self) -> Iterator[tuple[str, Tensor, Part, Part]]:
        """Yield what it holds: the name there, the tensor, and what is known of it, wide and narrow."""
        wide, narrow = (self.kind.parts(self.layer, sizes) for sizes in (self.wide, self.narrow))
        for name in wide:
            if (held := _held(self.layer, name)) is not None:
                pair = wide[name], narrow[name]
                if self.by_xavier and held.ndim == 2:
                    pair = xavier(pair[0]), xavier(pair[1])
                yield name, held, *pair


@dataclass(frozen=True)
class Bare:
    """A parameter that no layer with a rule holds, and its sizes."""

    name: str
    parameter: Tensor
    wide: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """All layers and other parameters of a model."""

    layers: Sequence[Sized]
    bare: Sequence[Bare]


def by_rules(module: nn.Module, roles: Roles, by: int) -> Plan:
    """Return the plan in which all widths of the model as it is are divided by a number.

    Raises: CannotShrink, with the first layer that cannot be narrower and how many others cannot.
    """
    found, wrong = divided_layers(module, roles, by)
    if wrong:
        others = f"; {len(wrong) - 1} more layers cannot either" if len(wrong) > 1 else ""
        raise CannotShrink(wrong[0] + others)
    bare = _bare(module, found)
    for one in bare:
        if one.parameter.numel() > 1:
            raise CannotShrink(f"shrink: parameter '{one.name}' is of no layer with a rule; {WIDTH}")
    return Plan(found, bare)


def divided_layers(module: nn.Module, roles: Roles, by: int) -> tuple[list[Sized], list[str]]:
    """Return the layers with their widths divided, and one sentence for each that cannot be divided."""
    found: list[Sized] = []
    wrong: list[str] = []
    by_xavier = _by_xavier(module)
    for name, layer in layers_of(module).items():
        kind = kind_of(layer)
        assert kind is not None
        try:
            check_supported(name, layer)
            wide = kind.sizes(layer)
            narrow = kind.narrow(told(name, layer), wide, roles.ins[name], name not in roles.outputs, by)
        except CannotShrink as error:
            wrong.append(str(error))
        else:
            found.append(Sized(name, layer, kind, wide, narrow, name in by_xavier))
    return found, wrong


def by_marks(modules: Sequence[nn.Module]) -> Plan:
    """Return the plan of models that the script built narrow, with widths of `coadapt.width`.

    Raises: CannotShrink, where no layer has such a width, or a parameter's sizes have two meanings.
    """
    found: list[Sized] = []
    bare: list[Bare] = []
    for module in modules:
        of, by_xavier = list[Sized](), _by_xavier(module)
        for name, layer in layers_of(module).items():
            kind = kind_of(layer)
            assert kind is not None
            check_supported(name, layer)
            sizes = kind.sizes(layer)
            wide = {key: wide_of(size) for key, size in sizes.items()}
            of.append(Sized(name, layer, kind, wide, sizes, name in by_xavier))
        found += of
        plain = {
            size
            for one in of
            for key, size in one.narrow.items()
            if one.wide[key] == size and key in ("in_features", "out_features", "in_channels", "embedding_dim")
        }
        bare += [Bare(one.name, one.parameter, _wide_shape(one, plain)) for one in _bare(module, of)]
    if not any(one.wide != one.narrow for one in found):
        raise CannotShrink("shrink: the script calls coadapt.width, and no layer has its widths")
    return Plan(found, bare)


def _wide_shape(bare: Bare, plain: set[int]) -> tuple[int, ...]:
    """Return the sizes of a parameter in the target. Only numbers tell which of them are widths."""
    shape, widths = [], 0
    for size in bare.wide:
        wide = known().get(size, {size})
        if wide == {size} or size < LEAST:  # such as 1, though there may be one head as well
            shape.append(size)
            continue
        if len(wide) > 1 or size in plain:
            raise CannotShrink(
                f"shrink: parameter '{bare.name}' has a size of {size}, which is a width and also another number; "
                "keep it in a layer of torch.nn, such as an Embedding"
            )
        shape.append(*wide)
        widths += 1
    if widths > 1:
        raise CannotShrink(
            f"shrink: parameter '{bare.name}' has {widths} widths and an initialiser of its own, which cannot be "
            "known; keep it in a layer of torch.nn"
        )
    return tuple(shape)


def _bare(module: nn.Module, found: Sequence[Sized]) -> list[Bare]:
    held = {id(tensor) for one in found for _, tensor, _, _ in one.parts()}
    return [Bare(name, one, tuple(one.shape)) for name, one in module.named_parameters() if id(one) not in held]


def _by_xavier(module: nn.Module) -> set[str]:
    """Return names of what is in a whole Transformer."""
    return {
        f"{outer}.{name}" if outer else name
        for outer, layer in module.named_modules()
        if isinstance(layer, nn.Transformer)
        for name, _ in layer.named_modules()
    }


def _held(layer: nn.Module, name: str) -> Tensor | None:
    """Return a parameter or buffer of a layer, by its name there; None if it has none."""
    holder, _, last = name.rpartition(".")
    inner = layer.get_submodule(holder)
    found: Tensor | None = inner._parameters.get(last)
    return inner._buffers.get(last) if found is None else found


def resize(plan: Plan, to: str) -> None:
    """Let layers say that they have the sizes of the "narrow" model or of the target ("wide")."""
    for one in plan.layers:
        known_layers.resize(one.layer, one.narrow if to == "narrow" else one.wide)
