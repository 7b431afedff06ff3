"""`coadapt study`: what a trace tells of its jobs, users and cluster, in short and as a page."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..simulator.results.saved import find, load
from ..simulator.study import capacity
from ..simulator.study.capacity import Capacity
from ..simulator.study.jobs import StudiedJobs
from ..simulator.study.page import page
from ..simulator.study.pictures import pictures
from ..simulator.study.study import Study, study
from ..simulator.study.summary import summary
from ..simulator.study.verdicts import Verdict
from ..simulator.traces.cluster_file import read_cluster
from ..simulator.traces.readers import read_trace
from ..simulator.traces.tables import instant
from .pages import write_page

_STYLES = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.UNKNOWN: "yellow"}


def studied(trace: Path, format: str | None, cluster: str | None, began: str | None) -> Study:
    """Study a trace or a saved run.

    `cluster`: as `coadapt simulate` takes it. `began`: when second 0 of a trace without dates was.

    Raise ValueError, in one sentence, for input that is not accepted.
    """
    if trace.is_dir():
        jobs, has, name = _of_run(trace, format, cluster)
    else:
        jobs, has, name = StudiedJobs.of_trace(read_trace(trace, format)), None, trace.name
        if cluster is not None:
            has = capacity.of_cluster(read_cluster(cluster))
            jobs = _with_nodes(jobs, has)
    if began is not None:
        jobs = _dated(jobs, began)
    return study(jobs, has, name)


def write(found: Study, out: Path) -> list[Path]:
    """Write the page, and the pictures into a folder of its name beside it. Return the written paths.

    Raise ValueError, in one sentence, where they cannot be drawn or written.
    """
    drawn = dict(pictures(found))
    return write_page(out, page(found, drawn), {f"{name}.png": png for name, png in drawn.items()})


def answer(found: Study) -> RenderableType:
    """Return what the trace is, and what it says of each implication."""
    facts = Table(box=None, pad_edge=False, show_header=False)
    facts.add_column(no_wrap=True)
    facts.add_column()
    for name, told in summary(found):
        facts.add_row(name, Text(told))
    verdicts = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("", "implication of Helios", "here it"):
        verdicts.add_column(head, no_wrap=head == "here it")
    for one in found.implications:
        said = Text(one.text)
        for told in dict.fromkeys(claim.told for claim in one.claims):
            said.append(f"\n{told}", style="dim")
        verdicts.add_row(str(one.number), said, Text(one.verdict, style=_STYLES[one.verdict]))
    return Group(facts, "", verdicts, *([""] if found.unknown else []), *(Text(one) for one in found.unknown))


def _of_run(folder: Path, format: str | None, cluster: str | None) -> tuple[StudiedJobs, Capacity, str]:
    for option, value in (("format", format), ("cluster", cluster)):
        if value is not None:
            raise ValueError(f"{option}: {value!r} is not accepted, as a saved run has its own; leave it out")
    runs = find(folder)
    if len(runs) > 1:
        listed = ", ".join(str(run) for run in runs[:4]) + (" and others" if len(runs) > 4 else "")
        raise ValueError(f"trace: {folder} holds {len(runs)} runs; name one of {listed}")
    run = load(runs[0])
    name = f"{run.about.get('trace', 'a run')} under {run.policy}"
    return StudiedJobs.of_run(run.outcome), capacity.of_run(run.outcome), name


def _with_nodes(jobs: StudiedJobs, has: Capacity) -> StudiedJobs:
    """Return the jobs whose virtual cluster has nodes, and warn of the others."""
    served = capacity.served(jobs, has)
    without = np.unique(jobs.virtual_clusters.of[~served])
    lost = [jobs.virtual_clusters.names[group] for group in without.tolist() if group >= 0]
    named = ", ".join(lost[:4]) + (" and others" if len(lost) > 4 else "")
    if not served.any():
        raise ValueError(f"cluster: it has nodes for none of the trace's virtual clusters ({named})")
    if not served.all():
        count = int((~served).sum())
        of = f" ({named})" if named else ""
        warnings.warn(f"{count:,} jobs left out, whose virtual clusters have no nodes{of}", stacklevel=2)
    return jobs if served.all() else jobs.select(served)


def _dated(jobs: StudiedJobs, began: str) -> StudiedJobs:
    if jobs.began_s is not None:
        raise ValueError(f"began: {began!r} is not accepted, as the trace has dates; leave it out")
    try:
        return replace(jobs, began_s=instant(began))
    except ValueError as error:
        raise ValueError(f"began: {error}") from None
