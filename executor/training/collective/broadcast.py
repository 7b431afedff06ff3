"""Sends a state, its structure and its tensors, from one rank to all others."""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch
from torch import Tensor, nn

from .group import Group


def broadcast_state(group: Group, state: dict[str, Any] | None, source: int) -> dict[str, Any]:
    """Return the state of rank `source` on every rank; the others pass None.

    The structure travels pickled. The tensors travel as they are: those on a GPU go from GPU to GPU.
    """
    if state is not None:
        skeleton, tensors = _take_out_tensors(state, group.device)
        group.broadcast_ints([len(skeleton)], source)
        group.broadcast_tensors([torch.frombuffer(bytearray(skeleton), dtype=torch.uint8)], source)
        group.broadcast_tensors(tensors, source)
        return state
    (length,) = group.broadcast_ints([0], source)
    buffer = torch.empty(length, dtype=torch.uint8)
    group.broadcast_tensors([buffer], source)
    received: list[Tensor] = []
    result = _Reader(io.BytesIO(buffer.numpy().tobytes()), received, group.device).load()
    group.broadcast_tensors(received, source)
    return result


class _Writer(pickle.Pickler):
    """Pickles the structure and puts tensors aside; `device`, this rank's, may have another name elsewhere."""

    def __init__(self, file: io.BytesIO, device: torch.device) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[Tensor] = []
        self._device = device

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) in (Tensor, nn.Parameter) and obj.layout is torch.strided and not obj.is_quantized:
            self.tensors.append(obj.detach())
            return obj.dtype, tuple(obj.shape), None if obj.device == self._device else str(obj.device)
        return None


class _Reader(pickle.Unpickler):
    """Puts an empty tensor where each one will arrive."""

    def __init__(self, file: io.BytesIO, tensors: list[Tensor], device: torch.device) -> None:
        super().__init__(file)
        self._tensors = tensors
        self._device = device

    def persistent_load(self, pid: Any) -> Tensor:
        dtype, shape, elsewhere = pid
        tensor = torch.empty(shape, dtype=dtype, device=elsewhere or self._device)
        self._tensors.append(tensor)
        return tensor


def _take_out_tensors(state: dict[str, Any], device: torch.device) -> tuple[bytes, list[Tensor]]:
    file = io.BytesIO()
    writer = _Writer(file, device)
    writer.dump(state)
    return file.getvalue(), writer.tensors
