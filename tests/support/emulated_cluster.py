"""The local Ray cluster that `conftest.py` starts for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coadapt.core.slot import Slot

NAMESPACE = "coadapt"


@dataclass(frozen=True)
class EmulatedCluster:
    """Two nodes with two emulated GPUs each, of types `a100` and `t4`."""

    cluster: Any
    nodes: dict[str, str]  # GPU type -> Ray node id
    leases: dict[str, str]  # GPU type -> placement group id

    def slot(self, gpu_type: str, index: int = 0) -> Slot:
        return Slot(self.nodes[gpu_type], self.leases[gpu_type], (index,), gpu_type, emulated=True, cpus=0.5)
