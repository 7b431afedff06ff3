"""How much slower models are on more nodes than they need, from a file: model -> GPUs -> nodes -> speed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .text_file import read_text


@dataclass(frozen=True, eq=False)
class NodeSpeeds:
    """Speeds by model, GPUs and number of nodes, each over that on one node."""

    table: Mapping[str, Mapping[int, Mapping[int, float]]]

    def of(self, model: str, gpus: int, fewest: int) -> Mapping[int, float]:
        """Return the speed of a job by its number of nodes, over that on the fewest; {}: nobody measured it.

        A count that was not measured is as the next larger one, or else the largest. A job that needs several
        nodes is, on twice as many, as one of the largest count on two.
        """
        counts = self.table.get(model, {})
        if gpus < 2 or not counts:
            return {}
        at = min((count for count in counts if count >= gpus), default=max(counts))
        known = {nodes * fewest: speed for nodes, speed in sorted(counts[at].items())}
        found, last = dict[int, float](), 1.0
        for nodes in range(fewest, gpus + 1):
            larger = [speed for count, speed in known.items() if count >= nodes]
            last = min(last, larger[0] if larger else min(known.values()))
            found[nodes] = 1.0 if nodes == fewest else last
        return found


def read_node_speeds(path: Path) -> NodeSpeeds:
    """Read `{"vgg16": {"4": {"1": 1.0, "2": 0.576}}}`.

    Raise ValueError, one sentence with model, field and value, for a file that is not accepted.
    """
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is no JSON: {error}") from None
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path}: has no models with speeds by GPUs and nodes")
    return NodeSpeeds({str(model): _counts(path, str(model), found) for model, found in content.items()})


def _counts(path: Path, model: str, found: object) -> dict[int, dict[int, float]]:
    if not isinstance(found, dict) or not found:
        raise ValueError(f"{path}: {model}: has no speeds by GPUs and nodes")
    counts: dict[int, dict[int, float]] = {}
    for gpus, by_nodes in found.items():
        if not isinstance(by_nodes, dict) or not str(gpus).isdigit():
            raise ValueError(f"{path}: {model}: {gpus!r} is no number of GPUs with speeds by nodes")
        speeds: dict[int, float] = {}
        for nodes, speed in by_nodes.items():
            fits = str(nodes).isdigit() and isinstance(speed, int | float) and math.isfinite(speed) and speed > 0
            if not fits:
                raise ValueError(
                    f"{path}: {model}: {gpus} GPUs: {nodes!r}: {speed!r} is no speed above 0 by nodes"
                )
            speeds[int(nodes)] = float(speed)
        if speeds.get(1) != 1.0:
            raise ValueError(
                f"{path}: {model}: {gpus} GPUs: the speed on one node is not 1, to which others relate"
            )
        counts[int(gpus)] = speeds
    return counts
