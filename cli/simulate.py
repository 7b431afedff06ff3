"""`coadapt simulate`: a trace under a policy in virtual time, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from ..simulator.cluster_file import read_cluster
from ..simulator.engine import Timing
from ..simulator.knowledge import Knows
from ..simulator.metrics import MEANING
from ..simulator.outages import Failures
from ..simulator.outcome import Outcome
from ..simulator.readers import read_trace
from ..simulator.replay import isolation_of, kept, replay, source_of
from ..simulator.saved import save
from ..simulator.sweep_file import PolicyChoice
from ..simulator.synthetic import synthetic
from ..simulator.workload import Workload


def workload_of(trace: Path | None, format: str | None, jobs: int, jobs_per_hour: float, seed: int) -> Workload:
    """The given trace, or one that is made up."""
    return synthetic(jobs, jobs_per_hour, seed) if trace is None else read_trace(trace, format)


def run(
    workload: Workload,
    cluster: str,
    policies: Mapping[str, Mapping[str, Any]],
    timing: Timing,
    profiles: Path | None = None,
    knows: Knows = Knows.BOOTSTRAP,
    noise: float = 0.0,
    seed: int = 0,
    failures: Failures | None = None,
) -> dict[str, Outcome]:
    """The same trace under each policy. Raises ValueError in one sentence for whatever is wrong."""
    nodes = read_cluster(cluster)
    source = source_of(bool(workload.steps.any()), profiles, nodes)
    return {
        policy: replay(workload, nodes, policy, options, timing, source, knows, noise, seed, failures)
        for policy, options in policies.items()
    }


def keep(
    outcomes: Mapping[str, Outcome], out: Path, cluster: str, profiles: Path | None, about: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """Save every run in a folder of its policy's name; their figures, with fairness and goodput.

    Raises ValueError where a folder cannot be written.
    """
    any_run = next(iter(outcomes.values()))
    steps = bool(any_run.workload.steps.any())
    isolation = isolation_of(source_of(steps, profiles, read_cluster(cluster)))
    found = {}
    for policy, outcome in outcomes.items():
        label = PolicyChoice(name=policy, options=about["policy_options"]).shown()
        made = kept(label, outcome, isolation, {**about, "cluster": cluster})
        save(made, out / policy)
        found[policy] = made.figures()
    return found


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
