"""Runs in files: each has a folder, with its description in `run.json` and its data in `columns.npz`.

`run.json` is written last and holds the digest of the columns. So a folder is whole or refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.cluster import Cluster, Node
from ...core.rewards import Rewards
from ...core.training_config import Adaptivity
from ..engine.outcome import AllocationChange, Outcome
from ..traces.final_state import FinalState
from ..traces.tables import Floats
from ..traces.workload import Workload
from .deadlines import deadline_figures
from .metrics import figures, held_counts

FORMAT, VERSION = "coadapt-run", 6
DESCRIPTION, COLUMNS = "run.json", "columns.npz"

_JOBS = (
    "started_s", "finished_s", "held_s", "attained_gpu_s", "restarts", "preemptions", "failures",
    "measuring_wait_s",
)  # fmt: skip
_TEXTS = ("ids", "applications", "virtual_clusters", "users", "adaptivity", "names", "states", "rewards")
_WORKLOAD = (
    "submit_s", "gpus", "duration_s", "batch_size", "ready_after_s", "max_gpus", "steps", "preemptible", "cpus",
    "waited_s",
)  # fmt: skip
_NUMBERS = (*_WORKLOAD, *_JOBS, "rho", "work_gpu_s")


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A run and its description.

    `about`: trace, seed, timing and so on, as JSON values.
    `conditions`: the conditions of its policy, in words.
    """

    policy: str  # its label: the name, and options that are not the defaults
    outcome: Outcome
    rho: Floats  # finish-time fairness of each job; nan: not known
    work_gpu_s: Floats  # seconds of one GPU; nan: not known
    about: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)

    def figures(self) -> dict[str, float]:
        """Return the figures of the run."""
        return figures(self.outcome, self.rho, self.work_gpu_s) | deadline_figures(self.outcome)


def save(run: SavedRun, folder: Path) -> None:
    """Write a run and replace one that was there. Raise ValueError if the folder cannot be written."""
    outcome, workload = run.outcome, run.outcome.workload
    written = replace(workload, rewards=tuple(map(_steps, workload.rewards)))  # type: ignore[arg-type]
    columns: dict[str, np.ndarray] = {f"job_{name}": _text(getattr(written, name)) for name in _TEXTS}
    columns |= {f"job_{name}": np.asarray(getattr(workload, name)) for name in _WORKLOAD}
    columns |= {f"job_{name}": getattr(outcome, name) for name in _JOBS}
    columns |= {"job_rho": run.rho, "job_work_gpu_s": run.work_gpu_s}
    columns |= {"policy_s": outcome.policy_s, "contention": outcome.contention}
    columns |= {
        "holding_job": np.array([h.job for h in outcome.holdings], np.int64),
        "holding_time_s": np.array([h.time_s for h in outcome.holdings], float),
        "holding_gpus": held_counts(outcome.holdings),
        "holding_gpu_type": _text([h.gpu_type for h in outcome.holdings]),
    }
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **columns)
    description = {
        "format": FORMAT,
        "version": VERSION,
        "policy": run.policy,
        "about": dict(run.about),
        "conditions": dict(run.conditions),
        "figures": {k: v if np.isfinite(v) else None for k, v in run.figures().items()},
        "began_s": workload.began_s,
        "nodes": _nodes(outcome.cluster),
        "parts": None if outcome.parts is None else {k: _nodes(v) for k, v in outcome.parts.items()},
        "columns_sha256": hashlib.sha256(packed.getvalue()).hexdigest(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / DESCRIPTION).unlink(missing_ok=True)
        _write(folder / COLUMNS, packed.getvalue())
        _write(folder / DESCRIPTION, (json.dumps(description, indent=1) + "\n").encode())
    except OSError as error:
        raise ValueError(f"{folder}: cannot be written: {error.strerror or error}") from None


def load(folder: Path) -> SavedRun:
    """Read a run back. Raise ValueError, in one sentence, for a folder that is no run, is torn or was changed."""
    about = describe(folder)
    try:
        data = (folder / COLUMNS).read_bytes()
    except OSError as error:
        raise ValueError(f"{folder}: {COLUMNS} cannot be read: {error.strerror or error}; run it again") from None
    if hashlib.sha256(data).hexdigest() != about.get("columns_sha256"):
        raise ValueError(f"{folder}: {COLUMNS} is torn or of another run, its digest differs; run it again")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            columns = {name: file[name] for name in file.files}
        outcome = _outcome(about, columns)
        return SavedRun(
            str(about["policy"]),
            outcome,
            columns["job_rho"],
            columns["job_work_gpu_s"],
            dict(about["about"]),
            {str(name): str(told) for name, told in about.get("conditions", {}).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{folder}: is no whole run of this version: {' '.join(str(error).split())}") from None


def describe(folder: Path) -> dict[str, Any]:
    """Return what is in `run.json`. Raise ValueError if there is none, or it is of another kind."""
    path = folder / DESCRIPTION
    if not path.is_file():
        torn = (folder / COLUMNS).exists()
        raise ValueError(
            f"{folder}: the run was not written to its end; run it again"
            if torn
            else f"{folder}: no saved run, there is no {DESCRIPTION}; `coadapt simulate --out` writes one"
        )
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f'{path}: is no saved run, its "format" is not "{FORMAT}"')
    if found.get("version") != VERSION:
        raise ValueError(
            f"{path}: is of version {found.get('version')!r}; this version of Coadapt reads {VERSION}"
        )
    return found


def find(path: Path) -> list[Path]:
    """Return the folder itself if it is a run, or all runs below it, sorted. Raise ValueError if there are
    none.
    """
    if (path / DESCRIPTION).is_file() or (path / COLUMNS).is_file():
        return [path]
    below = sorted(file.parent for file in path.rglob(DESCRIPTION)) if path.is_dir() else []
    if not below:
        raise ValueError(f"{path}: no saved run; `coadapt simulate --out {path}` writes one")
    return below


def _outcome(about: Mapping[str, Any], columns: Mapping[str, np.ndarray]) -> Outcome:
    count = len(columns["job_ids"])
    for name in (*_TEXTS, *_NUMBERS):
        column, wanted = columns[f"job_{name}"], "U" if name in _TEXTS else "b" if name == "preemptible" else "if"
        if column.shape != (count,) or column.dtype.kind not in wanted:
            raise ValueError(f"column job_{name} is not what it should be")
    holdings = [columns[f"holding_{name}"].tolist() for name in ("job", "time_s", "gpu_type", "gpus")]
    if not all(0 <= job < count for job in holdings[0]):
        raise ValueError("column holding_job names a job that is not there")
    texts: dict[str, Any] = {name: tuple(columns[f"job_{name}"].tolist()) for name in _TEXTS}
    texts["adaptivity"] = tuple(Adaptivity(name) for name in texts["adaptivity"])
    texts["rewards"] = tuple(Rewards(*map(tuple, json.loads(text))) if text else None for text in texts["rewards"])
    texts["states"] = tuple(FinalState(name) if name else None for name in texts["states"])
    rest: dict[str, Any] = {name: columns[f"job_{name}"] for name in _WORKLOAD}
    parts = about["parts"]
    return Outcome(
        workload=Workload(
            **texts,
            **rest,
            models=(None,) * count,
            profiles=((),) * count,
            uses=(None,) * count,
            restart_s=np.full(count, np.nan),
            inputs=(None,) * count,
            curves=(None,) * count,
            began_s=float(about["began_s"]),
        ),
        cluster=_cluster(about["nodes"]),
        policy_s=columns["policy_s"],
        contention=columns["contention"].reshape(-1, 2),
        holdings=tuple(AllocationChange(*row) for row in zip(*holdings, strict=True)),
        parts=None if parts is None else {name: _cluster(nodes) for name, nodes in parts.items()},
        **{name: columns[f"job_{name}"] for name in _JOBS},
    )


def _steps(rewards: Rewards | None) -> str:
    """Return deadlines as a text; "": there are none."""
    return "" if rewards is None else json.dumps([rewards.by_s, rewards.worth])


def _nodes(cluster: Cluster) -> list[list[Any]]:
    return [[node.id, node.gpu_type, node.gpus] for node in cluster.nodes]


def _cluster(rows: list[list[Any]]) -> Cluster:
    return Cluster(tuple(Node(str(id), str(gpu_type), int(gpus)) for id, gpu_type, gpus in rows))


def _text(values: Any) -> np.ndarray:
    return np.array(["" if value is None else str(value) for value in values], dtype=np.str_)


def _write(path: Path, data: bytes) -> None:
    """Write a file, all of it or nothing."""
    beside = path.with_name(f".{path.name}.part")
    beside.write_bytes(data)
    os.replace(beside, path)
