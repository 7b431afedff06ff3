"""Runs of a sweep: each has a folder of its own, and finished ones are left as they are."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..core.ray_noise import without_ray_noise
from ..policies.catalogue import make_policy
from .derived import derived
from .engine.errors import RunFailed
from .replay import baseline_of, column_of, kept, simulation, source_of
from .results.isolated_baseline import IsolatedBaseline
from .results.saved import describe, load, save
from .sweep_file import Cell, TraceChoice
from .synthetic import synthetic
from .traces.cluster_file import read_cluster
from .traces.deadlines import with_deadlines
from .traces.readers import read_trace
from .traces.workload import Workload


@dataclass(frozen=True)
class Done:
    """A run of a sweep.

    `problem`: one sentence that says why there is no run; empty: there is one. `warned`: warnings by topic.
    """

    cell: Cell
    folder: Path
    problem: str = ""
    warned: Mapping[str, str] = field(default_factory=dict)


def folder_of(cell: Cell, out: Path) -> Path:
    """Return a folder with a readable name, which differs for everything that changes the result."""
    digest = hashlib.sha256(json.dumps(cell.about(), sort_keys=True).encode()).hexdigest()[:10]
    words = re.sub(r"[^A-Za-z0-9.=-]+", "_", f"{cell.label}-{Path(cell.trace_shown).stem}-{cell.seed}")
    return out / f"{words[:80].strip('._')}-{digest}"


def is_done(cell: Cell, out: Path) -> bool:
    """Return whether the run is there and whole."""
    folder = folder_of(cell, out)
    try:
        return bool(describe(folder)["about"] == cell.about()) and bool(load(folder).policy)
    except (ValueError, KeyError):
        return False


def check(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Mapping[str, str]]]:
    """Check every policy, trace, cluster and profile before any is run. Yield the warnings of each.

    Raise ValueError for the first problem.
    """
    for cell in {(cell.policy, cell.options): cell for cell in cells}.values():
        make_policy(cell.policy, **json.loads(cell.options))
        cell.under()
    inputs: dict[tuple[Any, ...], Cell] = {}
    for cell in cells:
        inputs.setdefault((cell.trace, cell.seed, cell.cluster, cell.profiles, cell.inputs), cell)
    for cell in inputs.values():
        with _recorded() as warned:
            workload = _workload(cell.trace, cell.seed, cell.inputs)
            _, source, baseline = _source(cell.cluster, cell.profiles, bool(workload.steps.any()), cell.inputs)
            for name in dict.fromkeys(workload.applications):
                if name and baseline is not None:
                    source[name]
        yield cell, warned


def run_cell(cell: Cell, out: Path) -> Done:
    """Run one cell and save it. Its problem and warnings are returned, not raised, so that others go on."""
    done = Done(cell, folder_of(cell, out))
    with _recorded() as warned:
        try:
            workload = _workload(cell.trace, cell.seed, cell.inputs)
            steps = bool(workload.steps.any())
            nodes, source, baseline = _source(cell.cluster, cell.profiles, steps, cell.inputs)
            options, under = json.loads(cell.options), cell.under()
            outcome = simulation(workload, nodes, cell.policy, options, source, under).run()
            column = column_of(make_policy(cell.policy, **options).traits, workload, source, under)
            conditions = column.described(under, nodes.pools, any(workload.virtual_clusters))
            save(kept(cell.label, outcome, baseline, cell.about(), conditions), done.folder)
        except (ValueError, RunFailed) as error:
            done = replace(done, problem=str(error))
    return replace(done, warned=warned)


@contextmanager
def _recorded() -> Iterator[dict[str, str]]:
    """Yield a dict that collects warnings for users by topic, instead of printing them on stderr."""
    told: dict[str, str] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield told
        finally:
            for one in caught:
                told.setdefault(getattr(one.message, "about", str(one.message)), str(one.message))


def here(cells: Sequence[Cell], out: Path) -> Iterator[Done]:
    """Run one cell after the other in this process."""
    for cell in cells:
        yield run_cell(cell, out)


def on_ray(cells: Sequence[Cell], out: Path, num_cpus: int) -> Iterator[Done]:
    """Run cells as tasks of a local Ray, which is started for them and stopped afterwards.

    Yield results in the order in which the runs end.
    """
    import ray

    # Each task gets one BLAS thread, because the tasks themselves run in parallel.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with without_ray_noise():
        ray.init(
            address="local",
            num_cpus=num_cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": threads},
        )
    try:
        task: Any = ray.remote(num_cpus=1)(run_cell)
        waiting = {task.remote(cell, out): cell for cell in cells}
        while waiting:
            (first, *_), _ = ray.wait(list(waiting), num_returns=1)
            cell = waiting.pop(first)
            try:
                yield ray.get(first)
            except ray.exceptions.RayError as error:  # out of memory, or a defect of ours
                yield Done(cell, folder_of(cell, out), " ".join(str(error).split())[-300:])
    finally:
        ray.shutdown()


@lru_cache(maxsize=4)
def _workload(trace: TraceChoice, seed: int, inputs: object) -> Workload:
    """Return the jobs of a trace. `inputs`: digests, so that a changed file is read again."""
    if trace.derived is not None:
        found = derived(trace.derived, seed)
    elif trace.path is None:
        found = synthetic(trace.jobs, trace.rate, seed)
    else:
        found = read_trace(Path(trace.path), trace.format)
    return found if trace.rule is None else with_deadlines(found, trace.rule, seed)


@lru_cache(maxsize=8)
def _source(
    cluster: str, profiles: str | None, steps: bool, inputs: object
) -> tuple[Any, Any, IsolatedBaseline | None]:
    """Return nodes, applications and jobs alone. They are kept for later runs in this process."""
    nodes = read_cluster(cluster)
    source = source_of(steps, None if profiles is None else Path(profiles), nodes)
    return nodes, source, baseline_of(source)
