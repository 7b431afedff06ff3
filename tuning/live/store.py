"""What a study keeps on disk, in an sqlite of its own: its file, its state, its jobs and their metrics."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..state import StudyState
from ..study_file import StudyFile, from_values

FILE = "study.sqlite"
_TABLES = """
create table if not exists told (name text primary key, value text not null);
create table if not exists jobs (grp text primary key, job text not null, gpu_s real not null default 0);
create table if not exists epochs (
    grp text not null, epoch integer not null, time_s real not null, trials integer not null,
    primary key (grp, epoch)
);
create table if not exists metrics (
    grp text not null, run integer not null, epoch integer not null, name text not null, value real,
    primary key (grp, run, epoch, name)
);
create table if not exists memory (
    grp text not null, trials integer not null, gib real not null, gpu_gib real not null, primary key (grp, trials)
);
create table if not exists left_runs (grp text not null, run integer not null, primary key (grp, run));
"""


@dataclass(frozen=True)
class Asked:
    """What a user asked for: the study, and the job that each trial is of.

    told: what the service is told of that job: `spec`, `package` and `script_key`.
    """

    id: str
    owner: str
    began_s: float
    file: dict[str, Any]
    told: dict[str, Any]

    @property
    def study(self) -> StudyFile:
        return from_values(self.file)


@dataclass
class Known:
    """What groups have told so far.

    jobs: group -> its job. gpu_s: the GPU-seconds of these. metrics: group -> run -> epoch -> name -> value.
    epochs: group -> (epoch, when it ended, trials in it), in order. left: runs that have left a group, and whose
    states it keeps. memory: group -> trials -> the most memory that so many took, and that of the GPU, GiB.
    """

    jobs: dict[str, str] = field(default_factory=dict)
    gpu_s: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, dict[int, dict[int, dict[str, float]]]] = field(default_factory=dict)
    epochs: dict[str, list[tuple[int, float, int]]] = field(default_factory=dict)
    left: dict[str, set[int]] = field(default_factory=dict)
    memory: dict[str, dict[int, tuple[float, float]]] = field(default_factory=dict)


class StudyStore:
    """The file of one study. Each change is one transaction."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self._database.execute("pragma journal_mode=wal")
        self._database.execute("pragma synchronous=full")
        self._database.executescript(_TABLES)

    @classmethod
    def begin(cls, folder: Path, asked: Asked, token: str) -> StudyStore:
        """Write down a new study, which only this machine's user can read."""
        folder.mkdir(parents=True, mode=0o700)
        store = cls(folder)
        store.path.chmod(0o600)
        store._tell({"asked": vars(asked), "token": token})
        return store

    @property
    def asked(self) -> Asked:
        return Asked(**self._told("asked"))

    @property
    def token(self) -> str:
        """The token by which it acts as its user."""
        return str(self._told("token"))

    @property
    def state(self) -> StudyState:
        found = self._told("state")
        return StudyState() if found is None else StudyState.from_json(json.dumps(found))

    @property
    def cancelled(self) -> bool:
        """Whether its user has ended it."""
        return bool(self._told("cancelled"))

    @property
    def notes(self) -> list[str]:
        """Sentences that its user is told, such as why trials run apart."""
        return list(self._told("notes") or [])

    def save(self, state: StudyState) -> None:
        self._tell({"state": json.loads(state.to_json())})

    def cancel(self) -> None:
        """Note that its user ends it."""
        self._tell({"cancelled": True})

    def note(self, sentence: str) -> None:
        """Add a sentence for its user, once."""
        if sentence and sentence not in (notes := self.notes):
            self._tell({"notes": [*notes, sentence]})

    @property
    def target_epoch_s(self) -> float | None:
        """Seconds that an epoch of the target took at least; None: it was not timed."""
        found = self._told("target_epoch_s")
        return None if found is None else float(found)

    def target_took(self, epoch_s: float) -> None:
        """Note the seconds of an epoch of the target, unless one was shorter."""
        if (known := self.target_epoch_s) is None or epoch_s < known:
            self._tell({"target_epoch_s": epoch_s})

    def submitted(self, group: str, job: str) -> None:
        """Note the job of a group."""
        self._database.execute("insert or replace into jobs values (?, ?, 0)", (group, job))

    def used(self, gpu_s: Mapping[str, float]) -> None:
        """Add to the GPU-seconds of groups."""
        rows = [(seconds, group) for group, seconds in gpu_s.items() if seconds]
        self._database.executemany("update jobs set gpu_s = gpu_s + ? where grp = ?", rows)

    def hear(self, group: str, events: Iterable[Mapping[str, Any]]) -> None:
        """Take what a group's log tells of its epochs, and its notes; what is told again changes nothing."""
        database = self._database
        database.execute("begin")
        try:
            for event in events:
                if "epoch" not in event:
                    continue
                epoch, trials = event["epoch"], event["trials"]
                for note in event.get("notes", ()):
                    self.note(note)
                database.executemany(
                    "insert or ignore into left_runs values (?, ?)", [(group, run) for run in event["left"]]
                )
                if event["metrics"]:
                    row = (group, epoch, event["time_s"], len(trials))
                    database.execute("insert or replace into epochs values (?, ?, ?, ?)", row)
                if event.get("gpu_gib"):
                    most = "on conflict do update set gib = max(gib, excluded.gib)"
                    row = (group, len(trials), event["memory_gib"], event["gpu_gib"])
                    database.execute(f"insert into memory values (?, ?, ?, ?) {most}", row)
                for name, values in event["metrics"].items():
                    rows = [
                        (group, run, epoch, name, _number(one)) for run, one in zip(trials, values, strict=True)
                    ]
                    database.executemany("insert or replace into metrics values (?, ?, ?, ?, ?)", rows)
            database.execute("commit")
        except BaseException:
            database.execute("rollback")
            raise

    def known(self) -> Known:
        """Return what groups have told so far."""
        found = Known()
        for group, job, gpu_s in self._database.execute("select grp, job, gpu_s from jobs"):
            found.jobs[group], found.gpu_s[group] = job, gpu_s
        epochs: defaultdict[str, list[tuple[int, float, int]]] = defaultdict(list)
        for group, epoch, time_s, trials in self._database.execute("select * from epochs order by grp, epoch"):
            epochs[group].append((epoch, time_s, trials))
        found.epochs = dict(epochs)
        for group, run in self._database.execute("select * from left_runs"):
            found.left.setdefault(group, set()).add(run)
        for group, trials, gib, gpu_gib in self._database.execute("select * from memory"):
            found.memory.setdefault(group, {})[trials] = gib, gpu_gib
        for group, run, epoch, name, value in self._database.execute("select * from metrics"):
            of_run = found.metrics.setdefault(group, {}).setdefault(run, {})
            of_run.setdefault(epoch, {})[name] = float("nan") if value is None else value
        return found

    def close(self) -> None:
        self._database.close()

    def _told(self, name: str) -> Any:
        row = self._database.execute("select value from told where name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def _tell(self, values: Mapping[str, Any]) -> None:
        rows = [(name, json.dumps(value)) for name, value in values.items()]
        self._database.executemany("insert or replace into told values (?, ?)", rows)


def _number(value: Any) -> float | None:
    """Return a metric as sqlite has it: NaN, and what came as a text for a number that is not finite, is null."""
    if isinstance(value, str):
        return {"Infinity": float("inf"), "-Infinity": float("-inf")}.get(value)
    return None if value is None or value != value else float(value)
