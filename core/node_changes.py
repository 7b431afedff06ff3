"""Read `--nodes "+4x a100:8, -1x t4:4"`: which nodes would come and go. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .emulated_nodes import EmulationError, parse
from .errors import WhatIfError

MOST_NODES = 1000


@dataclass(frozen=True)
class NodeChange:
    """So many nodes of a form come; below 0: go."""

    count: int
    gpu_type: str
    gpus: int
    pool: str = ""

    @property
    def text(self) -> str:
        """Return it as it is written."""
        pool = f"@{self.pool}" if self.pool else ""
        return f"{self.count:+d}x {self.gpu_type}:{self.gpus}{pool}"


def node_changes(text: str) -> tuple[NodeChange, ...]:
    """Read `+4x a100:8, -1x t4:4@pool`; without a sign nodes come. Raises: WhatIfError, in one sentence."""
    found: list[NodeChange] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        sign = -1 if part.startswith("-") else 1
        try:
            nodes = parse(part.lstrip("+-").strip(), known=(), most_nodes=MOST_NODES, field="nodes")
        except EmulationError as error:
            raise WhatIfError(str(error)) from None
        found.append(NodeChange(sign * len(nodes), nodes[0].gpu_type, nodes[0].gpus, nodes[0].pool))
    if not found:
        raise WhatIfError("nodes: names none; the form is '+4x a100:8' (nodes x GPU type : GPUs per node)")
    if (total := sum(abs(one.count) for one in found)) > MOST_NODES:
        raise WhatIfError(f"nodes: {total} nodes are more than {MOST_NODES}; at most {MOST_NODES} are accepted")
    return tuple(found)
