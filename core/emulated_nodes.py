"""Read `--emulate "1x a100:4, 2x t4:4/16/128"`: which nodes a laptop cluster pretends to have. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_GROUP = re.compile(
    r"^(?:(-?\d+)\s*x\s*)?([A-Za-z][\w.-]*)\s*:\s*(-?\d+)"
    r"(?:\s*/\s*(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?))?(?:\s*@\s*([A-Za-z0-9][\w.-]{0,62}))?$",
    re.ASCII,
)
PACE_PROFILES = Path(__file__).with_name("pace_profiles.json")
MAX_NODES = 32
MAX_GPUS_PER_NODE = 64
MAX_CPUS, MAX_MEMORY_GIB = 4096, 1_000_000


class EmulationError(ValueError):
    """One sentence on what is wrong with the description."""


@dataclass(frozen=True)
class EmulatedNode:
    """A node that is pretended; of CPUs and memory 0 means that it has what Ray says."""

    gpu_type: str
    gpus: int
    pool: str = ""  # "": no pool
    cpus: float = 0.0
    memory_gib: float = 0.0


@cache
def known_gpu_types() -> tuple[str, ...]:
    """Return the GPU types with a measured pace: those of core/pace_profiles.json."""
    document = json.loads(PACE_PROFILES.read_text())
    models = document.get("profiles", document.get("models", document))
    types = {t for model in models.values() if isinstance(model, dict) for t in model.get("gpu_types", model)}
    return tuple(sorted(types))


def parse(
    text: str, known: tuple[str, ...] | None = None, most_nodes: int = MAX_NODES, field: str = "emulate"
) -> tuple[EmulatedNode, ...]:
    """Read nodes in the order given: `COUNTx TYPE:GPUS/CPUS/GIB@POOL`, comma-separated.

    A count of 1, CPUs with memory, and the pool may be left out.

    `known`: GPU types that are accepted, by default those with a measured pace; empty: any.

    Raises: EmulationError for another form, an unknown GPU type, counts below 1 or too many.
    """
    known = known_gpu_types() if known is None else known
    nodes: list[EmulatedNode] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _GROUP.match(part)
        if match is None:
            raise EmulationError(
                f"{field}: {part!r} is not of the form '2x t4:4' (nodes x GPU type : GPUs per node), "
                "'2x t4:4/16/128' (GPUs/CPUs/GiB) or '2x t4:4@pool'"
            )
        count, gpu_type, gpus = int(match[1] or 1), match[2].lower(), int(match[3])
        if known and gpu_type not in known:
            raise EmulationError(f"{field}: GPU type {gpu_type!r} is unknown; known: {', '.join(known)}")
        if not 1 <= count <= most_nodes:
            raise EmulationError(f"{field}: {part!r} asks for {count} nodes; accepted: 1 to {most_nodes}")
        if not 1 <= gpus <= MAX_GPUS_PER_NODE:
            raise EmulationError(
                f"{field}: {part!r} asks for {gpus} GPUs per node; accepted: 1 to {MAX_GPUS_PER_NODE}"
            )
        cpus, memory_gib = float(match[4] or 0.0), float(match[5] or 0.0)
        if match[4] is not None and not (0 < cpus <= MAX_CPUS and 0 < memory_gib <= MAX_MEMORY_GIB):
            raise EmulationError(
                f"{field}: {part!r} asks for {cpus:g} CPUs and {memory_gib:g} GiB per node; "
                f"accepted: more than 0, up to {MAX_CPUS} CPUs and {MAX_MEMORY_GIB} GiB"
            )
        nodes += [EmulatedNode(gpu_type, gpus, match[6] or "", cpus, memory_gib)] * count
    if not nodes:
        raise EmulationError(f"{field}: no nodes; write for example '1x a100:4, 2x t4:4'")
    if len(nodes) > most_nodes:
        fit = " fit on one machine" if most_nodes == MAX_NODES else ""
        raise EmulationError(f"{field}: {len(nodes)} nodes in all; at most {most_nodes}{fit or ' are accepted'}")
    return tuple(nodes)
