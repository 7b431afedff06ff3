"""Six tasks: arrivals, lengths of jobs, pair speeds, and three tables that scikit-learn ships."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from datetime import datetime
from functools import cache

import numpy as np
from coadapt.estimators.durations.features import COLUMNS, START
from coadapt.estimators.durations.sums import NAMES, SETTINGS, features
from coadapt.estimators.interpretable.additive_fit import AdditiveSettings
from coadapt.estimators.interpretable.table import Feature, Floats, Table, named
from coadapt.estimators.job_history import EndedJob
from coadapt.scheduler.services.contract import Fact
from coadapt.scheduler.services.durations import Durations
from coadapt.scheduler.services.host import ServiceHost
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.replay import simulation, source_of

from ..duration_prediction import jobs_of
from ..harness import DATA
from ..qssf_replay import VENUS, VENUS_NODES, venus

ARRIVALS = DATA / "lucid" / "venus_cluster_throughput_10min.csv.gz"
PAIRS = DATA / "lucid" / "colocate_info.csv"
NEEDED = (ARRIVALS, PAIRS, VENUS, VENUS_NODES)
NAMES_OF_TASKS = ("arrivals", "durations", "pairs", "diabetes", "breast_cancer", "wine")
SEPTEMBER_S = datetime(2020, 9, 1).timestamp()
TAUGHT = 0.7  # of the rows without a date that divides them


@dataclass(frozen=True)
class Task:
    """Rows to fit and rows to judge.

    starts: (rows to judge,) logs that the target goes on from, as the service fits them; errors are of what the
        sums are logs of. None: the target is what is wanted.
    """

    name: str
    taught: Table
    judged: Table
    settings: AdditiveSettings
    starts: Floats | None = None

    def error(self, said: Floats) -> float:
        """Return the mean absolute error, or the share of wrong classes; lower is better."""
        if self.taught.classes:
            return float((said != self.judged.target).mean())
        if self.starts is not None:
            return float(np.abs(np.exp(self.logs(said)) - np.exp(self.logs(self.judged.target))).mean())
        return float(np.abs(said - self.judged.target).mean())

    def logs(self, said: Floats) -> Floats:
        """Return logs from what is said over the starts."""
        assert self.starts is not None
        return self.starts + said


@cache
def task(name: str) -> Task:
    """Return a task by name."""
    return {"arrivals": _arrivals, "durations": _durations, "pairs": _pairs}.get(name, lambda: shipped(name))()


def _divided(name: str, table: Table, first: np.ndarray, settings: AdditiveSettings) -> Task:
    return Task(name, table.of(first), table.of(~first), settings)


def _arrivals() -> Task:
    """Return GPU jobs of the next ten minutes: fitted to April to August of 2020, judged by September."""
    with gzip.open(ARRIVALS, "rt") as file:
        rows = list(csv.DictReader(file))
    at_s = np.array([datetime.fromisoformat(row["time"]).timestamp() for row in rows])
    jobs, gpus, ends = (
        np.array([float(row[name]) for row in rows])
        for name in ("submit_gpu_job", "submit_gpu_num", "end_gpu_job")
    )
    columns: dict[str, Floats] = {
        "hour": at_s % 86_400 / 3600, "weekday": (at_s // 86_400 + 3) % 7,
        **{f"jobs_{lag}_before": _before(jobs, lag) for lag in (1, 2, 3, 6, 144, 1008)},
        **{f"jobs_mean_{width}": _mean_before(jobs, width) for width in (6, 18, 72, 144, 1008)},
        "gpus_1_before": _before(gpus, 1), "gpus_mean_6": _mean_before(gpus, 6),
        "ends_1_before": _before(ends, 1), "ends_mean_6": _mean_before(ends, 6),
    }  # fmt: skip
    table = Table(named(list(columns)), np.column_stack(list(columns.values())), jobs, "jobs", (), at_s)
    settings = AdditiveSettings(bins=64, pair_bins=16, interactions=8, learning_rate=0.03, bags=4, rounds=300,
                                least_rows=50)  # fmt: skip
    return _divided("arrivals", table, at_s < SEPTEMBER_S, settings)


def _before(values: Floats, lag: int) -> Floats:
    return np.concatenate([np.full(lag, np.nan), values[:-lag]])


def _mean_before(values: Floats, width: int) -> Floats:
    sums = np.cumsum(np.concatenate([[0.0], values]))
    found = np.full(len(values), np.nan)
    found[width:] = (sums[width:-1] - sums[: -width - 1]) / width
    return found


class _Never:
    """Fits nothing: rows alone are wanted."""

    def begin(self, *_: object) -> None:
        pass

    def ended(self) -> list[tuple[str, object]]:
        return []


@dataclass(frozen=True)
class Lengths:
    """What was known of Venus' jobs at their submissions, with ids and ends.

    table: its target is the log of the length over `starts`, what like jobs took: the form that the service fits.
    """

    table: Table
    starts: Floats
    ids: tuple[str, ...]
    ended_s: Floats

    @property
    def cut_s(self) -> float:
        """Return the moment that divides what is fitted from what is judged."""
        assert self.table.times_s is not None
        return float(np.quantile(self.table.times_s, TAUGHT))


@cache
def lengths() -> Lengths:
    """Return the rows that the service `durations` learns from, of jobs served by `sjf`."""
    told = list[EndedJob]()

    class Noting(Durations):
        def observe(self, fact: Fact) -> None:
            super().observe(fact)
            if isinstance(fact, EndedJob):
                told.append(fact)

    workload, nodes = venus()
    under = Conditions(Timing(events=True))
    ran = simulation(workload, nodes, "sjf", {}, source_of(False, None, nodes), under).run()
    service = Noting()
    host = ServiceHost({"durations": service}, _Never())
    for one in jobs_of(workload, ran.finished_s):
        host.submitted(one.job)
        host.ended(one)
    host.advance(1e12)
    kept = service._rows.newest()
    rows = np.ascontiguousarray(kept.rows[:, [COLUMNS.index(name) for name in NAMES]])
    at_s = np.array([one.job.submitted_s for one in told])
    starts = np.ascontiguousarray(kept.rows[:, START])
    over = np.log(np.maximum(kept.seconds, 1.0)) - starts
    table = Table(features(service._features.codes), rows, over, "log over like jobs", (), at_s)
    return Lengths(table, starts, tuple(one.job.id for one in told), np.array([one.ended_s for one in told]))


def _durations() -> Task:
    """Return logs of lengths over those of like jobs.

    What is fitted had ended when the jobs that judge had not been submitted.
    """
    known = lengths()
    assert known.table.times_s is not None
    taught, judged = known.ended_s <= known.cut_s, known.table.times_s > known.cut_s
    return Task("durations", known.table.of(taught), known.table.of(judged), SETTINGS, known.starts[judged])


def _pairs() -> Task:
    """Return the speed of one of two jobs on one GPU, beside what each uses alone."""
    with PAIRS.open() as file:
        rows = list(csv.DictReader(file))
    models = sorted({row[f"model{i}"] for row in rows for i in "12"})
    sets = sorted({row[f"dataset{i}"] for row in rows for i in "12"})
    found, speeds = [], []
    for row in rows:
        for one, other in (("1", "2"), ("2", "1")):
            found.append([
                models.index(row[f"model{one}"]), sets.index(row[f"dataset{one}"]), float(row[f"batchsize{one}"]),
                float(row[f"amp{one}"]), models.index(row[f"model{other}"]), sets.index(row[f"dataset{other}"]),
                float(row[f"batchsize{other}"]), float(row[f"amp{other}"]),
                float(row["gpu_util"]), float(row["gmem_util"]), float(row["gmem"]),
            ])  # fmt: skip
            speeds.append(float(row[f"speed{one}"]))
    columns = (
        Feature("model", tuple(models)), Feature("dataset", tuple(sets)), Feature("batch"), Feature("amp"),
        Feature("other_model", tuple(models)), Feature("other_dataset", tuple(sets)), Feature("other_batch"),
        Feature("other_amp"), Feature("gpu_util"), Feature("memory_util"), Feature("memory"),
    )  # fmt: skip
    table = Table(columns, np.array(found, float), np.array(speeds), "speed")
    apart = np.random.default_rng(0).uniform(size=len(rows)) < TAUGHT  # both sides of a pair stay together
    return _divided("pairs", table, np.repeat(apart, 2), AdditiveSettings(bins=64, rounds=1500, bags=2))


def shipped(name: str) -> Task:
    """Return a task of a table that scikit-learn ships."""
    from sklearn import datasets

    loaded = {
        "diabetes": datasets.load_diabetes, "breast_cancer": datasets.load_breast_cancer,
        "wine": datasets.load_wine, "digits": datasets.load_digits,
    }[name]()  # fmt: skip
    classes = () if name == "diabetes" else tuple(map(str, loaded.target_names))
    names = [str(one) for one in loaded.feature_names]
    table = Table(named(names), loaded.data.astype(float), loaded.target.astype(float), name, classes)
    first = np.random.default_rng(0).uniform(size=len(table.target)) < TAUGHT
    return _divided(name, table, first, AdditiveSettings(bins=64, interactions=5, rounds=1000, bags=4))
