"""The jobs of a trace: when each was submitted, and what it asks for."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from ...core.rewards import Rewards
from ...core.training_config import Adaptivity
from ...estimators.sensitivity.measured import MeasuredSensitivity
from ...estimators.sensitivity.model import Sensitivity
from .final_state import FinalState
from .recorded import RecordedModel, RecordedProfile, RecordedUse
from .tables import DAY_S, Floats

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TraceCurve:
    """What a metric of a job is after each of its epochs, and the value with which it ends.

    rises: whether it rises to its target. name: of the script; "": that of the job.

    Raise ValueError, in one sentence, for a curve that does not reach its target.
    """

    values: tuple[float, ...]
    target: float
    rises: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        if not np.isfinite([*self.values, self.target]).all():
            raise ValueError("curve: values and target must be finite")
        if self._first is None:
            raise ValueError(f"curve: none of its {len(self.values)} values reaches the target {self.target:g}")

    @property
    def _first(self) -> int | None:
        sign = 1.0 if self.rises else -1.0
        return next((i for i, value in enumerate(self.values) if sign * value >= sign * self.target), None)

    @property
    def reached(self) -> int:
        """The epoch, from 1 on, that first reaches the target."""
        return 1 + (self._first or 0)


@dataclass(frozen=True)
class TraceJob:
    """One submission.

    `application`: the model that it trains, whose profiles say how fast.
    `duration_s`: how long a job without an application takes on `gpus`.
    `gpus`, `batch_size`: what schedulers that cannot choose give it ("TunedJobs").
    `model`: the job's own measured model, which replaces an application.
    `steps`: optimizer steps that it trains; 0: as many as its application takes.
    `name`: what its user called it. `cpus`: of all its GPUs together; 0: not known.
    `state`: how it ended, which nobody knows before. `waited_s`: how long it waited for its GPUs where it ran.
    `uses`: what it uses of its GPUs. `restart_s`: what a start elsewhere costs it; None: what it costs all.
    `input`: samples/s that it reads and prepares; None: its GPUs never wait for input.
    `rewards`: what ending by when is worth; None: it has no deadline.
    `curve`: of the metric that ends it; its duration is that until then. None: no metric does.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    id: str
    submit_s: float
    gpus: int = 1
    duration_s: float | None = None
    application: str = ""
    batch_size: int = 0
    adaptivity: Adaptivity = Adaptivity.RIGID
    virtual_cluster: str = ""
    user: str = ""
    ready_after_s: float = 0.0  # time of its profile runs, from submission until it may be scheduled
    max_gpus: int = 64  # the most that a job may grow to
    model: RecordedModel | None = None  # what a live cluster measured of it
    steps: int = 0
    preemptible: bool = True  # False: once it has GPUs it keeps them to its end
    profiles: tuple[RecordedProfile, ...] = ()  # its profile runs on a live cluster
    name: str = ""
    cpus: float = 0.0
    state: FinalState | None = None
    waited_s: float | None = None
    uses: RecordedUse | None = None
    restart_s: float | None = None
    input: MeasuredSensitivity | None = None
    rewards: Rewards | None = None
    curve: TraceCurve | None = None


@dataclass(frozen=True, eq=False)
class Workload:
    """Jobs as columns, in order of submission. Ties keep the order of the trace."""

    ids: tuple[str, ...]
    submit_s: Floats
    gpus: Ints
    duration_s: Floats  # nan: the application decides
    applications: tuple[str, ...]
    batch_size: Ints
    steps: Ints  # 0: the application decides
    adaptivity: tuple[Adaptivity, ...]
    virtual_clusters: tuple[str, ...]
    users: tuple[str, ...]
    ready_after_s: Floats
    max_gpus: Ints
    models: tuple[RecordedModel | None, ...]
    preemptible: NDArray[np.bool_]
    profiles: tuple[tuple[RecordedProfile, ...], ...]
    names: tuple[str, ...]
    cpus: Floats  # of all GPUs of a job together; 0: not known
    states: tuple[FinalState | None, ...]
    waited_s: Floats  # from submission to the first GPUs, where it ran; nan: not known
    uses: tuple[RecordedUse | None, ...]
    restart_s: Floats  # nan: what a start costs all
    inputs: tuple[Sensitivity | None, ...]  # in samples/s; None: GPUs never wait for input
    rewards: tuple[Rewards | None, ...]
    curves: tuple[TraceCurve | None, ...]
    began_s: float = 0.0  # seconds since 1970 at second 0 of the trace, by the clock of its cluster

    @classmethod
    def of(cls, jobs: Iterable[TraceJob], began_s: float = 0.0) -> Workload:
        """Return jobs as columns. Warn if they are not sorted by time.

        Raise ValueError, in one sentence with id, field and value, for a job that cannot be.
        """
        rows = list(jobs)
        for row in rows:
            _check(row)
        for id, count in Counter(row.id for row in rows).most_common(1):
            if count > 1:
                raise ValueError(f"trace: job id {id!r} stands {count} times; ids must differ")
        submit_s = np.array([row.submit_s for row in rows], float)
        if (np.diff(submit_s) < 0).any():
            at = int(np.flatnonzero(np.diff(submit_s) < 0)[0])
            warnings.warn(
                f"trace: job {rows[at + 1].id} was submitted before job {rows[at].id} above it; sorted by time",
                stacklevel=2,
            )
        order = np.argsort(submit_s, kind="stable")
        rows = [rows[i] for i in order]
        return cls(
            ids=tuple(row.id for row in rows),
            submit_s=submit_s[order],
            gpus=np.array([row.gpus for row in rows], np.int64),
            duration_s=_known([row.duration_s for row in rows]),
            applications=tuple(row.application for row in rows),
            batch_size=np.array([row.batch_size for row in rows], np.int64),
            steps=np.array([row.steps for row in rows], np.int64),
            adaptivity=tuple(row.adaptivity for row in rows),
            virtual_clusters=tuple(row.virtual_cluster for row in rows),
            users=tuple(row.user for row in rows),
            ready_after_s=np.array([row.ready_after_s for row in rows], float),
            max_gpus=np.array([row.max_gpus for row in rows], np.int64),
            models=tuple(row.model for row in rows),
            preemptible=np.array([row.preemptible for row in rows], np.bool_),
            profiles=tuple(row.profiles for row in rows),
            names=tuple(row.name for row in rows),
            cpus=np.array([row.cpus for row in rows], float),
            states=tuple(row.state for row in rows),
            waited_s=_known([row.waited_s for row in rows]),
            uses=tuple(row.uses for row in rows),
            restart_s=_known([row.restart_s for row in rows]),
            inputs=tuple(row.input for row in rows),
            rewards=tuple(row.rewards for row in rows),
            curves=tuple(row.curve for row in rows),
            began_s=began_s,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def clock_s(self) -> float:
        """Seconds since midnight at second 0 of the trace."""
        return self.began_s % DAY_S

    def tuned(self) -> Workload:
        """Return the workload with rigid jobs, which keep the GPUs and batch size they ask for ("TunedJobs")."""
        return replace(self, adaptivity=(Adaptivity.RIGID,) * len(self))

    def by_durations(self) -> Workload:
        """Return the jobs by how long they take alone on the GPUs they ask for, where that of all is known."""
        if np.isnan(self.duration_s).any():
            return self
        nothing = (None,) * len(self)
        return replace(self, applications=("",) * len(self), models=nothing, inputs=nothing)

    def and_also(self, more: Workload) -> Workload:
        """Return the jobs of both, in order of submission."""
        joined: dict[str, Any] = {}
        for f in fields(self):
            column, other = getattr(self, f.name), getattr(more, f.name)
            if isinstance(column, np.ndarray):
                joined[f.name] = np.concatenate([column, other])
            elif isinstance(column, tuple):
                joined[f.name] = column + other
        both = replace(self, **joined)
        return both.select(np.argsort(both.submit_s, kind="stable"))

    def select(self, at: Sequence[int] | Ints | NDArray[np.bool_]) -> Workload:
        """Return the jobs at these positions, or those for which a mask holds."""
        index = np.arange(len(self))[np.asarray(at)]
        taken: dict[str, Any] = {}
        for f in fields(self):
            column = getattr(self, f.name)
            if isinstance(column, np.ndarray):
                taken[f.name] = column[index]
            elif isinstance(column, tuple):
                taken[f.name] = tuple(column[i] for i in index)
        return replace(self, **taken)


MOST_S = 1e11  # about 3,000 years; a later 64-bit clock cannot tell rounds apart
MOST_GPUS = 1_000_000
MOST_COUNT = 2**53
# Field -> (least, most, unit).
_RANGES: dict[str, tuple[float, float, str]] = {
    "submit_s": (0, MOST_S, " s"),
    "duration_s": (0, MOST_S, " s"),
    "ready_after_s": (0, MOST_S, " s"),
    "gpus": (1, MOST_GPUS, ""),
    "max_gpus": (1, MOST_GPUS, ""),
    "batch_size": (0, MOST_COUNT, ""),
    "steps": (0, MOST_COUNT, ""),
    "cpus": (0, MOST_GPUS, ""),
    "waited_s": (0, MOST_S, " s"),
    "restart_s": (0, MOST_S, " s"),
}


def _known(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], float)


def _check(job: TraceJob) -> None:
    """Raise ValueError, in one sentence with id, field and value, for a job that cannot be."""
    for name, (least, most, unit) in _RANGES.items():
        value = getattr(job, name)
        if value is not None and not least <= value <= most:
            raise ValueError(
                f"trace: job {job.id}: {name} {value} is not accepted, must be from {least:g} to {most:g}{unit}"
            )
    if job.duration_s is None and not job.application and job.model is None:
        raise ValueError(f"trace: job {job.id} has neither a duration nor an application nor a model")
