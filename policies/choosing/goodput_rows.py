"""Keeps the goodput of every (job, configuration) from round to round, and recomputes only what has moved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...estimators.goodput import ConfigurationArrays, GoodputModel, goodput_matrix
from ..contract.configuration import ConfigurationSet
from ..contract.round import JobView

_PROBES = 6  # configurations of each GPU type at which models are compared
_AT_ONCE = 4096  # jobs whose goodput is computed together, so that a large round needs little memory


class GoodputRows:
    """Rows of goodput by job, each kept while its model agrees at a few configurations of every GPU type.

    A job's model is fitted anew with each report, and mostly stays the same. Computing all goodputs of a large
    cluster takes longer than deciding about them.

    Args:
        tolerance: largest relative change of goodput at the probed configurations for which a row is kept. With 0
            any new model recomputes its row.
    """

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self._configurations: ConfigurationSet | None = None
        self._place: dict[str, int] = {}
        self._free: list[int] = []
        self._models: list[GoodputModel | None] = []  # the one that each row is of
        self._rows = np.zeros((0, 0), np.float32)
        self._probes = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._place)

    @property
    def gib(self) -> float:
        return self._rows.nbytes / 2**30

    def update(self, jobs: Sequence[JobView], configurations: ConfigurationSet) -> np.ndarray:
        """Take in all jobs of a round. Return (jobs,) whether their rows have changed since the last round.

        If the configurations changed, every row counts as changed. Only new configurations are computed.
        """
        # Sorted, so that the place of a row does not depend on the order of a set.
        for id in sorted(self._place.keys() - {job.id for job in jobs}):
            place = self._place.pop(id)
            self._models[place] = None
            self._free.append(place)
        others = configurations is not self._configurations and self._take_over(configurations)
        moved = np.zeros(len(jobs), bool)
        other: list[int] = []
        for i, job in enumerate(jobs):
            place = self._place.get(job.id, -1)
            if place < 0:
                moved[i] = True
            elif self._models[place] is not job.model:
                other.append(i)
        for i in other:
            if self._models[self._place[jobs[i].id]] is None or jobs[i].model is None:
                moved[i] = True
        judged = [i for i in other if not moved[i]]
        moved[judged] = self._moved([jobs[i] for i in judged])
        self._compute([jobs[i] for i in np.flatnonzero(moved).tolist()])
        return moved | others

    def _take_over(self, configurations: ConfigurationSet) -> bool:
        """Make rows for these configurations from the known ones. Return whether the configurations differ."""
        before, self._configurations = self._configurations, configurations
        self._probes = _probes(configurations)
        column = np.full(len(configurations), -1) if before is None else configurations.columns_in(before)
        if before is not None and np.array_equal(column, np.arange(len(before))):
            return False
        kept, new = np.flatnonzero(column >= 0), np.flatnonzero(column < 0)
        arrays = _columns(configurations.arrays, new)
        was, self._rows = self._rows, np.zeros((len(self._rows), len(configurations)), np.float32)
        places = np.array(sorted(self._place.values()), np.int64)
        for at in range(0, len(places), _AT_ONCE):
            some = places[at : at + _AT_ONCE]
            self._rows[np.ix_(some, kept)] = was[np.ix_(some, column[kept])]
            self._rows[np.ix_(some, new)] = _finite(
                goodput_matrix([self._models[i] for i in some.tolist()], arrays)
            )
        return True

    def of(self, jobs: Sequence[JobView]) -> np.ndarray:
        """Return (jobs, configurations) goodput of jobs of this round; 0 if a job cannot run or has no model."""
        return self._rows[[self._place[job.id] for job in jobs]].astype(float)

    def _moved(self, jobs: Sequence[JobView]) -> np.ndarray:
        if not jobs or self.tolerance <= 0:
            return np.ones(len(jobs), bool)
        assert self._configurations is not None
        now = goodput_matrix([job.model for job in jobs], _columns(self._configurations.arrays, self._probes))
        places = np.array([self._place[job.id] for job in jobs], np.int64)
        was = self._rows[np.ix_(places, self._probes)]
        return np.asarray((np.abs(now - was) > self.tolerance * was).any(axis=1))

    def _compute(self, jobs: Sequence[JobView]) -> None:
        assert self._configurations is not None
        new = sum(job.id not in self._place for job in jobs)
        if new > len(self._free):
            had = len(self._rows)
            size = max(2 * had, had + new)
            rows = np.zeros((size, self._rows.shape[1]), np.float32)
            rows[:had] = self._rows
            self._rows = rows
            self._free = [*range(size - 1, had - 1, -1), *self._free]
            self._models += [None] * (size - had)
        for at in range(0, len(jobs), _AT_ONCE):
            some = jobs[at : at + _AT_ONCE]
            found = goodput_matrix([job.model for job in some], self._configurations.arrays)
            places = []
            for job in some:
                if job.id not in self._place:
                    self._place[job.id] = self._free.pop()
                places.append(self._place[job.id])
                self._models[places[-1]] = job.model
            self._rows[places] = _finite(found)


def _finite(goodput: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(goodput), goodput, 0.0)


def _probes(configurations: ConfigurationSet) -> np.ndarray:
    """Return columns of every GPU type, evenly spread over the logarithm of their GPUs."""
    chosen: list[int] = []
    gpus = configurations.arrays.gpus
    for columns in configurations.columns_of.values():
        of_type = gpus[columns]
        if len(of_type):
            wanted = np.geomspace(of_type[0], of_type[-1], _PROBES)
            chosen += (columns.start + np.unique(np.searchsorted(of_type, wanted - 1e-9))).tolist()
    return np.array(chosen, np.int64)


def _columns(arrays: ConfigurationArrays, which: np.ndarray) -> ConfigurationArrays:
    return ConfigurationArrays(
        arrays.gpu_types, arrays.gpus_per_node, arrays.type_index[which], arrays.nodes[which], arrays.gpus[which]
    )
