"""`coadapt simulate`: a trace under a policy in virtual time, and what came of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from ..policies.warm_up import warm_up
from ..simulator import resume
from ..simulator.engine.outcome import Outcome
from ..simulator.replay import Conditions, isolation_of, kept, known_under, simulation, source_of
from ..simulator.results.identity import MADE_BY, check_same, digest, project
from ..simulator.results.metrics import MEANING
from ..simulator.results.saved import DESCRIPTION, SavedRun, describe, load, save
from ..simulator.sweep_file import PolicyChoice
from ..simulator.synthetic import synthetic
from ..simulator.traces.cluster_file import FILES, read_cluster
from ..simulator.traces.readers import read_trace
from ..simulator.traces.workload import Workload
from .exit_codes import Interrupted


def workload_of(trace: Path | None, format: str | None, jobs: int, jobs_per_hour: float, seed: int) -> Workload:
    """The given trace, or one that is made up."""
    return synthetic(jobs, jobs_per_hour, seed) if trace is None else read_trace(trace, format)


def run(
    workload: Workload,
    cluster: str,
    policies: Mapping[str, Mapping[str, Any]],
    under: Conditions,
    profiles: Path | None = None,
) -> dict[str, Outcome]:
    """The same trace under each policy. Raises ValueError in one sentence for whatever is wrong."""
    nodes = read_cluster(cluster)
    source = source_of(bool(workload.steps.any()), profiles, nodes)
    outcomes = {}
    for policy, options in policies.items():
        made = simulation(workload, nodes, policy, options, source, under)
        warm_up(policy, options)  # or the first rounds' time limits pass with compiling
        outcomes[policy] = made.run()
    return outcomes


def run_kept(
    workload: Workload,
    cluster: str,
    policies: Mapping[str, Mapping[str, Any]],
    under: Conditions,
    profiles: Path | None,
    out: Path,
    about: Mapping[str, Any],
) -> dict[str, dict[str, float]]:
    """The same, each saved in a folder of its policy's name; their figures, with fairness and goodput.

    A run that is there is not run again, one that was interrupted goes on. Raises Interrupted after a Ctrl-C, and
    ValueError, before anything is run, where a folder holds a run of other inputs.
    """
    nodes = read_cluster(cluster)
    source = source_of(bool(workload.steps.any()), profiles, nodes)
    isolation = isolation_of(source)
    wanted: dict[str, dict[str, Any]] = {}
    there: dict[str, SavedRun] = {}
    for policy, options in policies.items():
        wanted[policy] = {
            **about,
            "knows": str(under.knows or known_under(policy)),
            "policy_options": dict(options),
            "cluster": cluster,
            "cluster_sha256": digest(Path(cluster)) if Path(cluster).suffix in FILES else None,
            "profiles": None if profiles is None else profiles.name,
            "profiles_sha256": digest(profiles),
            MADE_BY: project(),
        }
        found = _there(out / policy, wanted[policy])
        if found is not None:
            there[policy] = found
    figures = {}
    for policy, options in policies.items():
        folder, point = out / policy, out / policy / resume.NAME
        if policy in there:
            print(f"coadapt: {folder}: is there already, not run again", file=sys.stderr)
            figures[policy] = there[policy].figures()
            continue
        warm_up(policy, options)
        ready = partial(simulation, workload, nodes, policy, options, source, under)
        try:
            outcome = resume.run(ready, point, wanted[policy])
        except resume.Paused as at:
            raise Interrupted(f"interrupted under {policy}, {at}; the same command goes on from there") from None
        label = PolicyChoice(name=policy, options=dict(options)).shown()
        made = kept(label, outcome, isolation, wanted[policy])
        save(made, folder)
        point.unlink(missing_ok=True)
        figures[policy] = made.figures()
    return figures


def _there(folder: Path, about: Mapping[str, Any]) -> SavedRun | None:
    """The run that a folder holds, if this code made it; None: there is none, or one to be made anew.

    Raises ValueError where it is a run of other inputs.
    """
    if not (folder / DESCRIPTION).is_file():
        return None
    found = describe(folder).get("about", {})
    check_same(folder, found, about)
    try:
        return load(folder) if found.get(MADE_BY) == about[MADE_BY] else None
    except ValueError:
        return None  # torn: to be made anew


def table(summaries: Mapping[str, Mapping[str, float]]) -> RenderableType:
    """One column per policy."""
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("")
    for policy in summaries:
        view.add_column(policy, justify="right")
    for key, (meaning, _) in MEANING.items():
        if all(key in summary for summary in summaries.values()):
            view.add_row(meaning, *[f"{summary[key]:.4g}" for summary in summaries.values()])
    return view
