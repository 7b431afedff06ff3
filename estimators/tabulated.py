"""Goodput that was measured or computed beforehand, configuration by configuration, instead of fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .goodput import Array, ConfigurationArrays, Ints

ANY_NODES = 0  # in place of a number of nodes: the goodput is the same however the GPUs are spread


@dataclass(frozen=True, eq=False)
class TabulatedConfigurations:
    """What a table has goodputs for, (GPU type, nodes, GPUs) each; shared by every model of an application.

    Raises ValueError for what stands twice, and for counts that cannot be.
    """

    items: tuple[tuple[str, int, int], ...]
    # Where the last configurations that were asked for stand in the table: a policy asks for the same ones every
    # round, for thousands of models.
    _found: list[tuple[ConfigurationArrays, Ints]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(set(self.items)) != len(self.items):
            raise ValueError(f"items: {max(self.items, key=self.items.count)} stands twice")
        for gpu_type, nodes, gpus in self.items:
            if nodes < ANY_NODES or gpus < max(nodes, 1):
                raise ValueError(f"items: {gpus} {gpu_type} on {nodes} nodes; accepted: a GPU a node or more")

    def __len__(self) -> int:
        return len(self.items)

    def at(self, configurations: ConfigurationArrays) -> Ints:
        """Return (configurations,) the item of each: that of its number of nodes, then that of any; -1: none."""
        if self._found and self._found[0][0] is configurations:
            return self._found[0][1]
        place = {item: i for i, item in enumerate(self.items)}
        found = np.full(len(configurations), -1, np.int64)
        columns = (configurations.type_index, configurations.nodes, configurations.gpus)
        for i, (t, nodes, gpus) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            gpu_type = configurations.gpu_types[t]
            any_nodes = place.get((gpu_type, ANY_NODES, gpus), -1)
            found[i] = place.get((gpu_type, nodes, gpus), any_nodes)
        self._found[:] = [(configurations, found)]
        return found


@dataclass(frozen=True, eq=False)
class TabulatedModel:
    """A job's goodput where it stands now; a configuration that is not in the table cannot be used.

    goodput: (items of `configurations`,) in samples/s at the initial batch size or any other unit of progress, all
    of one job alike; 0: cannot run. Jobs may share a model, and one that is the same object has not changed.
    """

    configurations: TabulatedConfigurations
    goodput: NDArray[np.float64]

    def __post_init__(self) -> None:
        goodput = np.array(self.goodput, np.float64)
        if goodput.shape != (len(self.configurations),):
            raise ValueError(f"goodput: has shape {goodput.shape}, not ({len(self.configurations)},)")
        if not (np.isfinite(goodput) & (goodput >= 0)).all():
            raise ValueError("goodput: must be finite and 0 or more")
        goodput.flags.writeable = False
        object.__setattr__(self, "goodput", goodput)

    @staticmethod
    def fill(
        models: Sequence[TabulatedModel], configurations: ConfigurationArrays, rows: Ints, result: Array
    ) -> None:
        """Write the goodput of each model into its row of `result`, (jobs, configurations)."""
        of: dict[TabulatedConfigurations, list[int]] = {}
        for i, model in enumerate(models):
            of.setdefault(model.configurations, []).append(i)
        for table, mine in of.items():
            at = table.at(configurations)
            known = np.flatnonzero(at >= 0)
            goodput = np.stack([models[i].goodput for i in mine])
            result[np.ix_(rows[mine], known)] = goodput[:, at[known]]


def scaled(model: TabulatedModel, factor: float | NDArray[np.float64]) -> TabulatedModel:
    """Return the table with every goodput multiplied, or each by its own factor. Raises: ValueError."""
    return TabulatedModel(model.configurations, model.goodput * factor)
