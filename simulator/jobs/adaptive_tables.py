"""Jobs of tabulated goodput under policies that choose sizes and see the goodput of each configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.job import JobSpec, ResourceRequest
from ...core.placement import Placement
from ...core.training_config import Adaptivity, TrainingConfig
from ...core.wording import n_gpus
from ...estimators.tabulated import ANY_NODES, TabulatedConfigurations, TabulatedModel, scaled
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .goodput_tables import GoodputTable
from .shapes import shape_of
from .told import ToldNothing
from .world import ProgressRate


@dataclass(frozen=True, eq=False)
class _Phases:
    """A table on the GPU types of a cluster; neighbouring rows with the same rates are one phase.

    `ends`: (phases,) progress.
    `rates`: (phases, configurations) progress/s.
    """

    table: GoodputTable
    configurations: TabulatedConfigurations
    ends: Floats
    rates: Floats

    @classmethod
    def of(cls, table: GoodputTable, gpu_types: Collection[str]) -> _Phases:
        """Return the phases of a table. Raise ValueError if its application runs on none of the types."""
        keys = sorted(key for key in table.rates if key[0] in gpu_types)
        if not keys:
            raise ValueError(f"{table.name}: has no goodputs on {', '.join(sorted(gpu_types))}")
        rates = np.stack([table.rates[key] for key in keys], axis=1)
        last = np.append((rates[1:] != rates[:-1]).any(axis=1), True)
        items = tuple((t, table.nodes.get((t, gpus), ANY_NODES), gpus) for t, gpus in keys)
        return cls(table, TabulatedConfigurations(items), table.ends[last], rates[last])

    @cached_property
    def place(self) -> Mapping[tuple[str, int], tuple[int, int]]:
        """By GPU type and count: the number of nodes, and the position in `configurations`."""
        return {(t, gpus): (nodes, i) for i, (t, nodes, gpus) in enumerate(self.configurations.items)}

    @cached_property
    def models(self) -> Sequence[TabulatedModel]:
        """One model per phase, which all jobs in the phase share."""
        return [TabulatedModel(self.configurations, rates) for rates in self.rates]

    def item(self, placement: Placement) -> int:
        """Return the position of a placement's configuration. Raise ValueError if the table lacks it."""
        nodes, item = self.place.get((placement.gpu_type, placement.gpus), (ANY_NODES, -1))
        if item < 0 or nodes not in (ANY_NODES, placement.nodes):
            raise ValueError(
                f"{self.table.name}: has no goodput of {placement.gpus} {placement.gpu_type} on "
                f"{placement.nodes} nodes, which the policy gave it"
            )
        return item


class AdaptiveTableWorld:
    """Jobs whose progress is what their table says of the configuration they hold, row by row.

    Policies know the row where a job is. Each of its goodputs is off by up to `noise`, drawn once per job.
    COpter's code does so with 0.005. Among jobs that are exactly alike optima are not unique, and then seldom
    integral.

    A start costs the table's `restart_s`, and so does another shape or GPU type. Other nodes alone cost
    nothing.

    Args:
        tables: one per job.
        gpu_types: the GPU types of the cluster.
        noise: largest relative deviation, at least 0 and less than 1.

    Raises:
        ValueError: a job can run on none of the types, or not with the GPUs that it asks for.
    """

    learns = False

    def __init__(
        self,
        workload: Workload,
        tables: Sequence[GoodputTable],
        gpu_types: Collection[str],
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        if not 0 <= noise < 1:
            raise ValueError(f"noise: {noise} must be at least 0 and less than 1")
        self.workload = workload
        self._noise, self._seed = noise, seed
        phases = {table: _Phases.of(table, gpu_types) for table in dict.fromkeys(tables)}
        self._phases = [phases[table] for table in tables]  # one per job
        self._specs: dict[tuple[_Phases, int, int, bool], JobSpec] = {}
        self._models: dict[int, tuple[TabulatedModel, TabulatedModel]] = {}  # without and with noise
        # Flat columns hold the phases of all tables in turn, and their rates by configuration and phase.
        first = dict(zip(phases, np.cumsum([0, *(len(p.ends) for p in phases.values())]).tolist(), strict=False))
        self._rates_from = dict(
            zip(phases, np.cumsum([0, *(p.rates.size for p in phases.values())]).tolist(), strict=False)
        )
        self._ends = np.concatenate([p.ends for p in phases.values()] or [np.zeros(0)])
        self._rates = np.concatenate([p.rates.T.ravel() for p in phases.values()] or [np.zeros(0)])
        self._first = np.array([first[table] for table in tables], np.int64)
        self._count = np.array([len(p.ends) for p in self._phases], np.int64)
        self._phase = np.zeros(len(workload), np.int64)  # where each job is
        self._rates_at = np.zeros(len(workload), np.int64)  # start of its configuration in `_rates`
        self.told = ToldRows(self)
        for job in range(len(workload)):
            self.spec(job)

    def spec(self, job: int) -> JobSpec:
        """Return what the job's user wrote. Raise ValueError if its table lacks the GPUs it asks for."""
        workload, phases = self.workload, self._phases[job]
        rigid = workload.adaptivity[job] is Adaptivity.RIGID
        asked = int(workload.gpus[job]) if rigid else 0
        key = phases, asked, int(workload.max_gpus[job]), bool(workload.preemptible[job])
        if key not in self._specs:
            self._specs[key] = _spec(workload.ids[job], *key)
        return self._specs[key]

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        """Return the seconds of a start for another shape or GPU type; other nodes cost nothing more."""
        if old is not None and old.gpu_type == new.gpu_type and shape_of(old) == shape_of(new):
            return left_s
        return self.restart_s(job)

    def keeps_s(self, job: int) -> float | None:
        return None

    def restart_s(self, job: int) -> float:
        """Return the seconds without progress of a start."""
        return self._phases[job].table.restart_s

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        """Return the rate in the row where the job is. Raise ValueError if the table lacks the placement."""
        phases = self._phases[job]
        phase = min(int(phases.ends.searchsorted(progress, side="right")), len(phases.ends) - 1)
        item = phases.item(placement)
        self._phase[job] = phase
        self._rates_at[job] = self._rates_from[phases.table] + item * len(phases.ends)
        return ProgressRate(float(phases.rates[phase, item]), float(phases.ends[phase]))

    def crosses(self, jobs: Ints, placements: Sequence[Placement], progress: Floats) -> tuple[Floats, Floats]:
        phase = self._phase[jobs] + 1
        ended = phase >= self._count[jobs]
        phase[ended] -= 1
        self._phase[jobs] = phase
        for job in jobs[ended].tolist():
            self._models.pop(job, None)
        rates = np.where(ended, np.nan, self._rates[self._rates_at[jobs] + phase])
        return rates, self._ends[self._first[jobs] + phase]

    def trained(self, job: int, placement: Placement) -> None:
        pass

    def known(self, job: int) -> TabulatedModel:
        """Return the goodputs of the job's row, with the noise of the world."""
        exact = self._phases[job].models[self._phase[job]]
        if not self._noise:
            return exact
        known = self._models.get(job)
        if known is None or known[0] is not exact:
            # The seed gives the same numbers in every phase of a job, so they need not be kept.
            rng = np.random.default_rng((self._seed, job))
            factor = rng.uniform(1 - self._noise, 1 + self._noise, len(exact.goodput))
            known = self._models[job] = exact, scaled(exact, factor)
        return known[1]

    def ends(self, jobs: Ints) -> Floats:
        return self._ends[self._first[jobs] + self._count[jobs] - 1]

    def left(self, job: int, progress: float) -> float:
        """Return the progress that is left to the job's end."""
        return max(float(self._phases[job].ends[-1]) - progress, 0.0)


class ToldRows(ToldNothing):
    """Tell the row of the table where a job is, with the noise of its world, and the true work left.

    Policies that choose sizes do not ask how long a job still needs, so that is not told.
    """

    def __init__(self, world: AdaptiveTableWorld) -> None:
        super().__init__(world.restart_s)
        self._world = world

    def model(self, job: int) -> TabulatedModel:
        """Return the goodputs of the job's row."""
        return self._world.known(job)

    def remaining(self, job: int, progress: float) -> float:
        """Return the progress left, in the table's unit."""
        return self._world.left(job, progress)


def _spec(id: str, phases: _Phases, asked: int, most: int, preemptible: bool) -> JobSpec:
    """Return a job's spec. Raise ValueError if its table lacks such counts of GPUs.

    `asked`: the GPUs of a rigid job, else 0.
    `most`: the GPUs to which the job may grow.
    """
    counts = sorted({gpus for _, gpus in phases.place})
    if asked and asked not in counts:
        raise ValueError(f"trace: job {id}: {phases.table.name} has no goodputs with {n_gpus(asked)}")
    if not asked and most < counts[0]:
        least = n_gpus(counts[0])
        raise ValueError(f"trace: job {id}: {phases.table.name} needs {least}, more than max_gpus {most}")
    return JobSpec(
        name="trace-job",
        script="trace",
        preemptible=preemptible,
        resources=ResourceRequest(
            gpus=asked or None,
            min_gpus=1 if asked else counts[0],
            max_gpus=max(asked, min(most, counts[-1])),
            gpu_types=sorted({t for t, _ in phases.place}),
            cpus_per_gpu=0.0,
        ),
        training=TrainingConfig(adaptivity=Adaptivity.RIGID if asked else Adaptivity.ADAPTIVE),
    )
