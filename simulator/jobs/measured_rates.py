"""Jobs of a number of steps, whose speed was measured on each GPU type with the GPUs they ask for."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ...core.job import JobSpec
from ...core.placement import Placement
from ...core.wording import n_gpus
from ..traces.tables import Floats
from ..traces.text_file import read_text
from ..traces.workload import Ints, Workload
from .fixed_size import FixedSizeWorld, RestartS, half_a_minute, rigid_spec
from .told import ToldByTrace
from .world import ProgressRate

# (application, GPUs) -> GPU type -> steps per second of the whole job.
Rates = Mapping[tuple[str, int], Mapping[str, float]]


def read_rates(path: Path) -> Rates:
    """Read the rates of jobs that have their GPUs to themselves, from a file of Gavel's.

    The file is JSON by GPU type and `"('MODEL', GPUS)"`, with steps per second under `"null"`. Raise
    ValueError, in one sentence, for a file that cannot be read or has no such rates.
    """
    text = read_text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is no JSON: {error}") from None
    found: dict[tuple[str, int], dict[str, float]] = {}
    for gpu_type, jobs in content.items() if isinstance(content, dict) else ():
        for key, rates in jobs.items() if isinstance(jobs, dict) else ():
            rate = rates.get("null") if isinstance(rates, dict) else None
            if not isinstance(rate, int | float) or not math.isfinite(rate) or rate < 0:
                raise ValueError(f"{path}: {gpu_type}: {key}: 'null' {rate!r} must be steps per second, 0 or more")
            found.setdefault(_job(path, gpu_type, key), {})[gpu_type] = float(rate)
    if not found:
        raise ValueError(f"{path}: has no steps per second by GPU type and job")
    return found


def _job(path: Path, gpu_type: str, key: str) -> tuple[str, int]:
    """Return the model and the GPUs of a key. Raise ValueError for a key of another form."""
    try:
        model, gpus = ast.literal_eval(key)
    except (ValueError, SyntaxError, TypeError):
        model, gpus = None, None
    if not isinstance(model, str) or not isinstance(gpus, int) or gpus < 1:
        raise ValueError(f"{path}: {gpu_type}: {key!r} is no job like \"('ResNet-18 (batch size 16)', 1)\"")
    return model, gpus


class ToldSteps(ToldByTrace):
    """Tell the measured speeds, and how long the steps left take at the fastest of them."""

    def __init__(
        self, restart_s: Callable[[int], float], workload: Workload, rates: Sequence[Mapping[str, float]]
    ) -> None:
        super().__init__(restart_s)
        self._workload, self._rates = workload, rates
        self._fastest = np.array([max(known.values()) for known in rates], float)

    def rates(self, job: int) -> Mapping[str, float]:
        """Return the job's steps per second by GPU type."""
        return self._rates[job]

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the seconds left on the fastest GPU type of each job; nan: it can run on none."""
        with np.errstate(divide="ignore"):
            left_s = (self._workload.steps[jobs] - progress) / self._fastest[jobs]
        return np.where(np.isfinite(left_s), left_s, np.nan)


class MeasuredRatesWorld(FixedSizeWorld):
    """Jobs whose progress is steps. The GPU type of a placement matters, its nodes do not.

    `restart_s`: seconds without progress when a job starts again elsewhere, by the GPUs it asks for.

    Raise ValueError, in one sentence, for a job without steps or of unknown speed.
    """

    def __init__(self, workload: Workload, rates: Rates, restart_s: RestartS = half_a_minute) -> None:
        super().__init__(workload, restart_s)
        self._rates: list[Mapping[str, float]] = []
        for id, application, gpus, steps in zip(
            workload.ids, workload.applications, workload.gpus.tolist(), workload.steps.tolist(), strict=True
        ):
            if steps < 1:
                raise ValueError(f"trace: job {id} does not say how many steps it trains")
            if (application, gpus) not in rates:
                raise ValueError(f"trace: job {id}: no measured speed of {application!r} on {n_gpus(gpus)}")
            self._rates.append(rates[application, gpus])
        self.told = ToldSteps(self.restart_s, workload, self._rates)

    def spec(self, job: int) -> JobSpec:
        """Return a job that may run on the GPU types on which its speed was measured."""
        known = tuple(t for t, rate in self._rates[job].items() if rate > 0)
        return rigid_spec(int(self.workload.gpus[job]), bool(self.workload.preemptible[job]), known)

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        """Return the rate at the measured speed. Raise ValueError if there is none on this GPU type."""
        rate = self._rates[job].get(placement.gpu_type, 0.0)
        if rate <= 0:
            raise ValueError(
                f"trace: job {self.workload.ids[job]} was placed on {placement.gpu_type}, "
                "where it has no measured speed"
            )
        return ProgressRate(rate, float(self.workload.steps[job]))

    def ends(self, jobs: Ints) -> Floats:
        return self.workload.steps[jobs].astype(float)
