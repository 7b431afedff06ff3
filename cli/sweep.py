"""`coadapt sweep`: runs many simulations, and shows a table of their figures over traces and seeds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ..policies.warm_up import COMPILING, telling, warm_up
from ..simulator.conditions import shared
from ..simulator.results.deadlines import MEANING_OF_DEADLINES
from ..simulator.results.metrics import MEANING, spread
from ..simulator.results.saved import SavedRun, load
from ..simulator.sweep import Done, check, folder_of, here, is_done, on_ray
from ..simulator.sweep_file import Cell, cells, read_sweep
from .show import PlainConsole
from .simulate import columns_of


@dataclass(frozen=True)
class Swept:
    """The result of a sweep. A column is a policy on a cluster.

    `figures`: (mean, standard deviation) of each figure, by column.
    `conditions`: the conditions of each column, in words.
    `same`: the file asks for the same conditions.
    `failed`: a line for each run that failed, with the reason.
    """

    figures: Mapping[str, Mapping[str, tuple[float, float]]]
    conditions: Mapping[str, Mapping[str, str]]
    same: bool
    failed: Sequence[str]


def run(file: Path, out: Path, use_ray: bool, num_cpus: int | None, tell: Callable[[str], None]) -> Swept:
    """Run what is not there yet. `tell` is given a line if compiling takes a while.

    Raise ValueError, before anything is run, for a file that is not accepted.
    """
    if num_cpus is not None and num_cpus < 1:
        raise ValueError(f"--num-cpus: {num_cpus} must be at least 1")
    sweep = read_sweep(file)
    console = PlainConsole(stderr=True)
    try:
        every = list(cells(sweep, file.parent))
        warnings = Warnings(console, _several(every))
        for cell, told in check(every):
            warnings.tell(cell, told)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    missing = [cell for cell in every if not is_done(cell, out)]
    with telling(lambda: tell(COMPILING)):
        # Otherwise every process would compile, which would use up the time limits of the first rounds.
        for policy, options in sorted({(cell.policy, cell.options) for cell in missing}):
            warm_up(policy, json.loads(options))
        failed = _run(every, missing, out, use_ray, num_cpus or os.cpu_count() or 1, console, warnings)
    gone = {done.folder for done in failed}
    problems = [f"{named(done.cell, _several(every))}: {done.problem}" for done in failed]
    columns = _columns([cell for cell in every if folder_of(cell, out) not in gone], out)
    figures = {label: spread([run.figures() for run in runs]) for label, runs in columns.items()}
    conditions = {label: shared([run.conditions for run in runs]) for label, runs in columns.items()}
    return Swept(figures, conditions, sweep.same_conditions, problems)


class Warnings:
    """The warnings of runs on stderr, each of them once, with the name of the run that gave it first."""

    def __init__(self, console: Console, several: bool) -> None:
        self._console, self._several = console, several
        self._told: set[str] = set()

    def tell(self, cell: Cell, warnings: Mapping[str, str]) -> None:
        """Print the warnings of a run that are new. `warnings`: texts by topic."""
        for about, text in warnings.items():
            if about not in self._told:
                self._told.add(about)
                line = f"coadapt: warning: {named(cell, self._several)}: {text}"
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def named(cell: Cell, several: bool) -> str:
    """Return the name of a run in words. `several`: the sweep has more than one cluster."""
    where = f" on {cell.cluster_shown}" if several else ""
    return f"{cell.label}{where}, {cell.trace_shown}, seed {cell.seed}"


def _several(cells: Sequence[Cell]) -> bool:
    return len({cell.cluster_shown for cell in cells}) > 1


def _run(
    every: Sequence[Cell],
    missing: Sequence[Cell],
    out: Path,
    use_ray: bool,
    num_cpus: int,
    console: Console,
    warnings: Warnings,
) -> list[Done]:
    failed = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("runs", total=len(every), completed=len(every) - len(missing))
        if missing:
            for done in on_ray(missing, out, num_cpus) if use_ray else here(missing, out):
                progress.advance(task)
                warnings.tell(done.cell, done.warned)
                progress.update(task, description=f"runs, last {done.cell.label}")
                if done.problem:
                    failed.append(done)
    return failed


def _columns(finished: Sequence[Cell], out: Path) -> dict[str, list[SavedRun]]:
    several = _several(finished)
    found: dict[str, list[SavedRun]] = {}
    for cell in finished:
        label = f"{cell.label} on {cell.cluster_shown}" if several else cell.label
        found.setdefault(label, []).append(load(folder_of(cell, out)))
    return found


def table(figures: Mapping[str, Mapping[str, tuple[float, float]]]) -> RenderableType:
    """Return a table with mean and standard deviation over traces and seeds, one column per policy and cluster."""
    view = columns_of(figures)
    for key, (meaning, _) in (MEANING | MEANING_OF_DEADLINES).items():
        if key in MEANING_OF_DEADLINES and not all(key in found for found in figures.values()):
            continue
        view.add_row(meaning, *[f"{found[key][0]:.4g} ± {found[key][1]:.2g}" for found in figures.values()])
    return view
