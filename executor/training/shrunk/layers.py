"""What is known of each kind of layer: its sizes, which of them may be widths, and how torch begins it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from .errors import AS_IS, CannotShrink
from .width import divided

Layer = Any  # a module of a known kind, whose attributes are asked for by name
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Start:
    """How torch draws a parameter: `uniform` in ±scale, `normal` with that deviation, or the `constant` scale."""

    kind: str
    scale: float

    @property
    def deviation(self) -> float:
        return {"uniform": self.scale / math.sqrt(3), "normal": self.scale, "constant": 0.0}[self.kind]


@dataclass(frozen=True)
class Part:
    """One parameter or buffer of a layer: what it sums over (`fan_in`), and how many of these sums there are."""

    shape: tuple[int, ...]
    fan_in: int | None
    fan_out: int | None
    start: Start


@dataclass(frozen=True)
class Kind:
    """A kind of layer.

    sizes: the sizes that it has now.
    parts: what it holds, by name, if it has such sizes.
    narrow: its sizes where widths are divided by a number, given its name, which inputs have a width, and whether
        its output has one.
    is_norm: it keeps the width of what it is given.
    """

    types: tuple[type[nn.Module], ...]
    sizes: Callable[[Layer], dict[str, int]]
    parts: Callable[[Layer, Sizes], dict[str, Part]]
    narrow: Callable[[str, Sizes, Sequence[bool], bool, int], dict[str, int]]
    is_norm: bool = False


def _attributes(*names: str) -> Callable[[Layer], dict[str, int]]:
    return lambda layer: {name: getattr(layer, name) for name in names}


def _uniform(fan: int) -> Start:
    return Start("uniform", 1 / math.sqrt(max(fan, 1)))  # He's rule with a = √5


def _xavier(fan_in: int, fan_out: int) -> Start:
    return Start("uniform", math.sqrt(6 / (fan_in + fan_out)))


def xavier(part: Part) -> Part:
    """Return a weight of two dimensions as Xavier's rule draws it."""
    return replace(part, start=_xavier(*part.shape))


ONES, ZEROS = Start("constant", 1.0), Start("constant", 0.0)


def _linear(layer: Layer, sizes: Sizes) -> dict[str, Part]:
    fan_in, out = sizes["in_features"], sizes["out_features"]
    start = _uniform(fan_in)
    return {"weight": Part((out, fan_in), fan_in, out, start), "bias": Part((out,), None, out, start)}


def _conv(layer: Layer, sizes: Sizes) -> dict[str, Part]:
    groups, out = sizes["groups"], sizes["out_channels"]
    channels, space = sizes["in_channels"] // groups, math.prod(layer.kernel_size)
    if isinstance(layer, _ConvTransposeNd):
        shape = (sizes["in_channels"], out // groups)
    else:
        shape = (out, channels)
    start = _uniform(shape[1] * space)  # torch takes the second size, also where that is the output's
    weight = Part((*shape, *layer.kernel_size), channels, out, start)
    return {"weight": weight, "bias": Part((out,), None, out, start)}


def _norm(size: str, *names: str) -> Callable[[Layer, Sizes], dict[str, Part]]:
    starts = {"weight": ONES, "bias": ZEROS, "running_mean": ZEROS, "running_var": ONES}

    def parts(layer: Layer, sizes: Sizes) -> dict[str, Part]:
        return {name: Part((sizes[size],), None, sizes[size], starts[name]) for name in names}

    return parts


def _prelu(layer: Layer, sizes: Sizes) -> dict[str, Part]:
    count = sizes["num_parameters"]
    return {"weight": Part((count,), None, count, Start("constant", layer.init))}


def _embedding(layer: Layer, sizes: Sizes) -> dict[str, Part]:
    out = sizes["embedding_dim"]
    return {"weight": Part((layer.num_embeddings, out), None, out, Start("normal", 1.0))}


def _attention(layer: Layer, sizes: Sizes) -> dict[str, Part]:
    width = sizes["embed_dim"]
    found = {
        "in_proj_bias": Part((3 * width,), None, width, ZEROS),
        "out_proj.weight": Part((width, width), width, width, _uniform(width)),
        "out_proj.bias": Part((width,), None, width, ZEROS),
    }
    if layer._qkv_same_embed_dim:
        return found | {"in_proj_weight": Part((3 * width, width), width, width, _xavier(width, 3 * width))}
    for name, fan_in in (("q", width), ("k", sizes["kdim"]), ("v", sizes["vdim"])):
        found[f"{name}_proj_weight"] = Part((width, fan_in), fan_in, width, _xavier(fan_in, width))
    return found


def _narrow_linear(name: str, sizes: Sizes, ins: Sequence[bool], out: bool, by: int) -> dict[str, int]:
    return {
        key: divided(f"{key} of {name}", size, by) if has_width else size
        for (key, size), has_width in zip(sizes.items(), (any(ins), out), strict=True)
    }


def _narrow_conv(name: str, sizes: Sizes, ins: Sequence[bool], out: bool, by: int) -> dict[str, int]:
    channels = {key: sizes[key] for key in ("in_channels", "out_channels")}
    found = _narrow_linear(name, channels, ins, out, by) | {"groups": sizes["groups"]}
    # Groups keep their size, so that depthwise convolutions stay what they are.
    if sizes["groups"] > 1 and any(ins):
        found["groups"] = divided(f"groups of {name}", sizes["groups"], by, least=1)
    if found["out_channels"] % found["groups"]:
        raise CannotShrink(
            f"shrink: out_channels of {name} would be {found['out_channels']}, which {found['groups']} groups "
            "cannot share"
        )
    return found


def _narrow_all(name: str, sizes: Sizes, ins: Sequence[bool], out: bool, by: int) -> dict[str, int]:
    return {key: divided(f"{key} of {name}", size, by) if any(ins) else size for key, size in sizes.items()}


def _narrow_prelu(name: str, sizes: Sizes, ins: Sequence[bool], out: bool, by: int) -> dict[str, int]:
    return dict(sizes) if sizes["num_parameters"] == 1 else _narrow_all(name, sizes, ins, out, by)


def _narrow_embedding(name: str, sizes: Sizes, ins: Sequence[bool], out: bool, by: int) -> dict[str, int]:
    return _narrow_all(name, sizes, [out], out, by)


def _narrow_groups(name: str, sizes: Sizes, ins: Sequence[bool], out: bool, by: int) -> dict[str, int]:
    found = _narrow_all(name, {"num_channels": sizes["num_channels"]}, ins, out, by)
    groups = sizes["num_groups"]
    if any(ins) and groups % by == 0:  # groups of the same size as in the target
        groups //= by
    if found["num_channels"] % groups:
        raise CannotShrink(
            f"shrink: num_channels of {name} would be {found['num_channels']}, which {groups} groups cannot share"
        )
    return found | {"num_groups": groups}


def _narrow_attention(name: str, sizes: Sizes, ins: Sequence[bool], out: bool, by: int) -> dict[str, int]:
    given = dict(zip(("embed_dim", "kdim", "vdim"), (*ins, False, False), strict=False))
    found = {key: divided(f"{key} of {name}", sizes[key], by) if given[key] else sizes[key] for key in given}
    heads = sizes["num_heads"]
    if given["embed_dim"]:
        divided(f"the width of a head of {name}", sizes["embed_dim"] // heads, by)
    return found | {"num_heads": heads}


def _layer_norm_sizes(layer: Layer) -> dict[str, int]:
    if len(layer.normalized_shape) != 1:
        raise CannotShrink(
            f"shrink: a {type(layer).__name__} over {tuple(map(int, layer.normalized_shape))} has no rule; one "
            "over the last dimension is accepted"
        )
    return {"normalized_shape": layer.normalized_shape[0]}


def _norm_kind(types: tuple[type[nn.Module], ...], size: str, *names: str) -> Kind:
    return Kind(types, _attributes(size), _norm(size, *names), _narrow_all, is_norm=True)


KINDS = (
    Kind((nn.Linear,), _attributes("in_features", "out_features"), _linear, _narrow_linear),
    Kind((_ConvNd,), _attributes("in_channels", "out_channels", "groups"), _conv, _narrow_conv),
    Kind((nn.Embedding, nn.EmbeddingBag), _attributes("embedding_dim"), _embedding, _narrow_embedding),
    Kind(
        (nn.MultiheadAttention,),
        _attributes("embed_dim", "kdim", "vdim", "num_heads"),
        _attention,
        _narrow_attention,
    ),
    _norm_kind((_NormBase,), "num_features", "weight", "bias", "running_mean", "running_var"),
    Kind(
        (nn.LayerNorm, nn.RMSNorm),
        _layer_norm_sizes,
        _norm("normalized_shape", "weight", "bias"),
        _narrow_all,
        is_norm=True,
    ),
    Kind(
        (nn.GroupNorm,),
        _attributes("num_channels", "num_groups"),
        _norm("num_channels", "weight", "bias"),
        _narrow_groups,
        is_norm=True,
    ),
    Kind((nn.PReLU,), _attributes("num_parameters"), _prelu, _narrow_prelu, is_norm=True),
)


def kind_of(layer: nn.Module) -> Kind | None:
    """Return the kind of a layer; None if it is none, or has no rule."""
    return next((kind for kind in KINDS if isinstance(layer, kind.types)), None)


def resize(layer: Layer, sizes: Sizes) -> None:
    """Let a layer say that it has these sizes; its parameters follow."""
    for name, size in sizes.items():
        setattr(layer, name, (size,) if name == "normalized_shape" else size)
    if isinstance(layer, nn.MultiheadAttention):
        layer.head_dim = layer.embed_dim // layer.num_heads
        layer.out_proj.in_features = layer.out_proj.out_features = layer.embed_dim


def told(name: str, layer: nn.Module) -> str:
    """Return what people know a layer by."""
    return f"layer '{name}' ({type(layer).__name__})" if name else f"the model ({type(layer).__name__})"


def layers_of(module: nn.Module) -> dict[str, nn.Module]:
    """Return all layers of known kinds by name, each once.

    Raises: CannotShrink, for layers that have parameters and no rule.
    """
    found: dict[str, nn.Module] = {}
    inside: set[nn.Module] = set()  # of an attention, which has a rule as a whole
    for name, layer in module.named_modules():
        if layer in inside:
            continue
        if kind_of(layer) is not None:
            found[name] = layer
            inside.update(layer.modules())
        elif isinstance(layer, (nn.RNNBase, nn.RNNCellBase, nn.Bilinear, nn.AdaptiveLogSoftmaxWithLoss)):
            raise CannotShrink(f"shrink: {told(name, layer)} has no rule for a narrower one; {AS_IS}")
    return found


def check_supported(name: str, layer: Layer) -> None:
    """Raise CannotShrink for options of a layer that have no rule."""
    if getattr(layer, "max_norm", None) is not None:
        raise CannotShrink(f"shrink: {told(name, layer)} has max_norm, which has no rule; {AS_IS}")
    if getattr(layer, "bias_k", None) is not None:
        raise CannotShrink(f"shrink: {told(name, layer)} has add_bias_kv, which has no rule; {AS_IS}")
