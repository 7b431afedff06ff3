"""States in types that `torch.load` takes with `weights_only`, so that no code runs from a file.

They hold tensors, plain Python values and containers of them; numpy arrays and scalars are packed on the way.
"""

from __future__ import annotations

import io
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ..sharding.stored import Stored
from .checkpoint_errors import CheckpointError

_PACKED = "__coadapt_packed__"  # key of a dict that stands for a value which torch.load would not take


def pack(value: Any, where: str = "state") -> Any:
    """Return `value` in types that torch.load takes with weights_only.

    numpy values and plain subclasses are converted. Raises CheckpointError that names the place of any other
    value.
    """
    if value is None or isinstance(value, torch.Tensor):
        return value
    kind = type(value)
    if kind in (bool, int, float, str, bytes, complex, torch.Size, torch.dtype, torch.device):
        return value
    if isinstance(value, Stored):
        return {_PACKED: "stored", "data": [value.name, value.shape, value.dtype, value.like]}
    if isinstance(value, np.ndarray | np.generic):
        return _pack_numpy(value, where)
    if isinstance(value, Mapping):
        return _pack_mapping(value, where)
    if isinstance(value, list):
        return [pack(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return tuple(pack(item, f"{where}[{i}]") for i, item in enumerate(value))
    if isinstance(value, set | frozenset):
        items = [pack(item, f"{where}{{…}}") for item in value]
        return {_PACKED: "frozenset" if isinstance(value, frozenset) else "set", "data": items}
    # The value of an Enum member or the like counts, whatever it prints as.
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, str):
        return str.__str__(value)
    raise CheckpointError(
        f"{where} is a {kind.__module__}.{kind.__qualname__}, which a checkpoint cannot hold; "
        "save tensors, arrays and plain Python values, such as its state_dict()"
    )


def unpack(value: Any) -> Any:
    """Return what `pack` was given."""
    if isinstance(value, dict):
        if _PACKED in value:
            return _unpack_marked(value)
        items = ((unpack(key), unpack(item)) for key, item in value.items())
        if type(value) is dict:
            return dict(items)
        return Counter(dict(items)) if isinstance(value, Counter) else OrderedDict(items)
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if type(value) is tuple:
        return tuple(unpack(item) for item in value)
    return value


def _pack_mapping(value: Mapping[Any, Any], where: str) -> Any:
    items = {_pack_key(key, where): pack(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, Counter):
        return Counter(items)
    return OrderedDict(items) if isinstance(value, OrderedDict) else items


def _pack_key(key: Any, where: str) -> Any:
    if isinstance(key, np.generic):
        return key.item()
    packed = pack(key, f"key of {where}")
    if packed == _PACKED or isinstance(packed, dict):
        raise CheckpointError(f"{where} has the key {key!r}, which a checkpoint cannot hold")
    return packed


def _pack_numpy(value: Any, where: str) -> dict[str, Any]:
    buffer = io.BytesIO()
    try:
        np.save(buffer, value, allow_pickle=False)
    except ValueError as error:
        raise CheckpointError(f"{where} is a numpy array of objects, which a checkpoint cannot hold") from error
    return {_PACKED: "scalar" if isinstance(value, np.generic) else "array", "data": buffer.getvalue()}


def _unpack_marked(value: Mapping[str, Any]) -> Any:
    kind, data = value[_PACKED], value["data"]
    if kind in ("set", "frozenset"):
        items = [unpack(item) for item in data]
        return set(items) if kind == "set" else frozenset(items)
    if kind == "stored":
        return Stored(*data)
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return array[()] if kind == "scalar" else array
