"""Jobs whose speed was tabulated: goodput by progress, for each GPU type and count of GPUs.

The layout is that of COpter's public code (suhasjs/continuous-scheduling @ 201dd9b), converted:

* `<model>.csv` has a column of progress and one per configuration `<gpu type>:<nodes>n<gpus>g`. A row holds up to
  its progress.
* `synthetic_*.json` lists goodputs by count of GPUs.
* `batch_inference.json` has the throughput of the fewest GPUs that hold a model. Any number of these run side by
  side.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.job import JobSpec, ResourceRequest
from ...core.placement import Placement
from ...core.training_config import Adaptivity, TrainingConfig
from ...core.wording import n_gpus
from ..traces.tables import Floats, numbers, read_rows
from ..traces.text_file import read_text
from ..traces.workload import Ints, Workload
from .fixed_size import FixedSizeWorld
from .world import ProgressRate

MOST_GPUS = 64  # the most that a fixed request may be
LEAST_EFFICIENCY = 0.5
_CONFIGURATION = re.compile(r"^([\w-]+):(\d+)n(\d+)g$")
# The constants of that code: how much slower a model trains than its table says, and seconds of a start.
_SLOWDOWN = {"cifar10": 1.8, "ncf": 1.5, "imagenet": 1.2, "yolov3": 1.2, "bert": 1.2, "deepspeech2": 1.2}
_RESTART_S = {"cifar10": 50.0, "imagenet": 250.0, "yolov3": 80.0, "bert": 120.0, "deepspeech2": 25.0, "ncf": 15.0}
_OTHER_RESTART_S = 90.0
_MOST_UNITS = 32  # replicas of batch inference
_MOST_SYNTHETIC = 128  # GPUs of synthetic jobs; larger counts in the table are ignored
_SYNTHETIC_TYPES = {
    "dgx-ext": "DGX-A100-40GB",
    "azure": "DGX-V100-32GB",
    "a100-pcie": "A100-40GB-PCIe",
    "a10-pcie": "A10-24GB-PCIe",
    "rtx": "RTX-2080Ti-11GB",
    "quad": "RTX-2080Ti-11GB",
    "aws": "T4-16GB",
}


@dataclass(frozen=True, eq=False)
class GoodputTable:
    """Progress per second of one application.

    `ends`: (rows,) the progress up to which each row holds, rising; the last is the job's length.
    `rates`: (rows,) by GPU type and count of GPUs, all above 0.
    `restart_s`: seconds without progress after every start.
    `nodes`: nodes over which the GPUs of a rate are spread; a rate without an entry holds for any spread.

    Raise ValueError for progress that does not rise, and for a rate that is not above 0.
    """

    name: str
    ends: Floats
    rates: Mapping[tuple[str, int], Floats]
    restart_s: float
    nodes: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.ends) or not (np.diff(self.ends, prepend=0.0) > 0).all():
            raise ValueError(f"{self.name}: progress must rise from above 0")
        for (gpu_type, gpus), rates in self.rates.items():
            if rates.shape != self.ends.shape or not (np.isfinite(rates) & (rates > 0)).all():
                raise ValueError(f"{self.name}: {gpu_type} with {n_gpus(gpus)}: goodputs must all be above 0")

    def duration_s(self, gpu_type: str, gpus: int) -> float:
        """Return the seconds of the whole job."""
        return float((np.diff(self.ends, prepend=0.0) / self.rates[gpu_type, gpus]).sum())

    def request(self, gpu_types: Collection[str], least_efficiency: float = LEAST_EFFICIENCY) -> int:
        """Return the GPUs for which a user who tuned the job would ask.

        This is the largest count, up to `MOST_GPUS`, that is efficient on one GPU type. The type is that of
        median speed per GPU; of two, the slower. A count is efficient if its speed per GPU over the whole job
        is at least `least_efficiency` of that of the fewest GPUs.

        Raise ValueError if the job runs on none of the types.
        """
        of_type: dict[str, list[int]] = {}
        for gpu_type, gpus in self.rates:
            if gpu_type in gpu_types and gpus <= MOST_GPUS:
                of_type.setdefault(gpu_type, []).append(gpus)
        if not of_type:
            raise ValueError(f"{self.name}: has no goodputs on {', '.join(sorted(gpu_types))}")

        def per_gpu(gpu_type: str, gpus: int) -> float:
            return 1.0 / self.duration_s(gpu_type, gpus) / gpus

        ranked = sorted(of_type, key=lambda t: (per_gpu(t, min(of_type[t])), t))
        median = ranked[(len(ranked) - 1) // 2]
        best = per_gpu(median, min(of_type[median]))
        return max(n for n in of_type[median] if per_gpu(median, n) >= least_efficiency * best)


def read_tables(folder: Path) -> dict[str, GoodputTable]:
    """Read every table of a folder, by application. Raise ValueError for a file that is not accepted."""
    found = {path.stem: _profiled(path) for path in sorted(folder.glob("*.csv"))}
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(read_text(path))
            if path.stem == "batch_inference":
                found |= {name: _batch_inference(name, model) for name, model in content.items()}
            else:
                found[path.stem] = _synthetic(path.stem, content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if not found:
        raise ValueError(f"{folder}: no goodput tables")
    return found


def tables_of(workload: Workload, tables: Mapping[str, GoodputTable]) -> list[GoodputTable]:
    """Return the table of each job. Raise ValueError for an unknown application."""
    for id, name in zip(workload.ids, workload.applications, strict=True):
        if name not in tables:
            have = ", ".join(sorted(tables))
            raise ValueError(f"trace: job {id}: application {name!r} has no goodput table; there are {have}")
    return [tables[name] for name in workload.applications]


def requested(
    workload: Workload, tables: Mapping[str, GoodputTable], gpu_types: Collection[str]
) -> tuple[Workload, list[GoodputTable]]:
    """Return the workload with fixed requests, and the table of each job. Raise ValueError as `tables_of` does."""
    found = tables_of(workload, tables)
    asked = {name: tables[name].request(gpu_types) for name in sorted(set(workload.applications))}
    gpus = np.array([asked[name] for name in workload.applications], np.int64)
    return replace(workload, gpus=gpus).tuned(), found


class GoodputTableWorld(FixedSizeWorld):
    """Jobs of a fixed size that progress as their table says, on the GPU types tabulated for that size.

    Every start costs `restart_s`, even the first. No policy is told how long a job takes. Raise ValueError if a
    table lacks the size of a job.
    """

    def __init__(self, workload: Workload, tables: Sequence[GoodputTable]) -> None:
        super().__init__(workload)
        self._tables = tables  # one per job
        self._row = np.zeros(len(workload), np.int64)  # position of the job in `_rates`
        self._rows: dict[tuple[GoodputTable, str, int], tuple[int, int]] = {}
        self._specs: dict[tuple[GoodputTable, int], JobSpec] = {}
        ends, rates, start = [], [], 0
        for table, gpus in dict.fromkeys(zip(tables, workload.gpus.tolist(), strict=True)):
            types = sorted(t for t, n in table.rates if n == gpus)
            if not types:
                raise ValueError(f"{table.name}: has no goodputs with {n_gpus(gpus)}")
            self._specs[table, gpus] = _spec(table.name, gpus, types)
            for gpu_type in types:
                column = table.rates[gpu_type, gpus]
                last = np.append(column[1:] != column[:-1], True)  # rows with the same rate become one
                ends.append(table.ends[last])
                rates.append(column[last])
                self._rows[table, gpu_type, gpus] = start, start + len(ends[-1])
                start += len(ends[-1])
        self._ends = np.concatenate(ends) if ends else np.zeros(0)
        self._rates = np.concatenate(rates) if rates else np.zeros(0)
        self._last = np.zeros(start, bool)
        self._last[[stop - 1 for _, stop in self._rows.values()]] = True

    def spec(self, job: int) -> JobSpec:
        return self._specs[self._tables[job], int(self.workload.gpus[job])]

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        """Return the seconds of a start, which every new placement costs."""
        return self.restart_s(job)

    def restart_s(self, job: int) -> float:
        return self._tables[job].restart_s

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        start, stop = self._rows[self._tables[job], placement.gpu_type, placement.gpus]
        at = start + int(self._ends[start:stop].searchsorted(progress, side="right"))
        row = self._row[job] = min(at, stop - 1)
        return ProgressRate(float(self._rates[row]), float(self._ends[row]))

    def ends(self, jobs: Ints) -> Floats:
        return np.array([self._tables[job].ends[-1] for job in jobs.tolist()], float)

    def crosses(self, jobs: Ints, placements: Sequence[Placement], progress: Floats) -> tuple[Floats, Floats]:
        row = self._row[jobs]
        ended = self._last[row]
        row = np.where(ended, row, row + 1)
        self._row[jobs] = row
        return np.where(ended, np.nan, self._rates[row]), self._ends[row]


def _spec(name: str, gpus: int, types: list[str]) -> JobSpec:
    return JobSpec(
        name=name,
        script="trace",
        resources=ResourceRequest(gpus=gpus, max_gpus=max(gpus, 64), gpu_types=types, cpus_per_gpu=0.0),
        training=TrainingConfig(adaptivity=Adaptivity.RIGID),
    )


def _profiled(path: Path) -> GoodputTable:
    rows = read_rows(path, ("progress",))
    slow = _SLOWDOWN.get(path.stem, 1.0)
    rates, nodes = {}, {}
    for name in rows[0]:
        if name == "progress":
            continue
        match = _CONFIGURATION.match(name or "")
        if match is None:
            raise ValueError(f"{path}: column {name!r} is not of the form 'azure:1n2g'")
        nodes[match[1], int(match[3])] = int(match[2])
        rates[match[1], int(match[3])] = numbers(path, rows, name, least=0) / slow
    rates = {key: column for key, column in rates.items() if (column > 0).all()}
    restart_s = _RESTART_S.get(path.stem, _OTHER_RESTART_S)
    return GoodputTable(path.stem, numbers(path, rows, "progress", least=0), rates, restart_s, nodes)


def _synthetic(name: str, content: Mapping[str, Any]) -> GoodputTable:
    counts = content["goodputs"]["num_gpus"]
    rates = {
        (gpu_type, int(gpus)): np.array([float(rate)])
        for gpu_type, column in _SYNTHETIC_TYPES.items()
        for gpus, rate in zip(counts, content["goodputs"][column], strict=True)
        if rate > 0 and gpus <= _MOST_SYNTHETIC
    }
    return GoodputTable(name, np.array([float(content["max_progress"])]), rates, _OTHER_RESTART_S)


def _batch_inference(name: str, model: Mapping[str, Any]) -> GoodputTable:
    rates = {
        ("quad" if gpu_type == "quadro" else gpu_type, units * int(profile["min_gpus"])): np.array(
            [float(units * profile["throughput"] * model["sim_speedup"])]
        )
        for gpu_type, profile in model["gpu_profiles"].items()
        for units in range(1, _MOST_UNITS + 1)
    }
    return GoodputTable(name, np.array([float(model["num_iters"])]), rates, _OTHER_RESTART_S)
