"""`coadapt simulate`: a trace under a policy in virtual time, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from ..scheduler.cluster import Cluster
from ..scheduler.policies import make_policy
from ..simulator.adaptive import AdaptiveWorld
from ..simulator.applications import MeasuredApplications
from ..simulator.cluster_file import SimulatedCluster, read_cluster
from ..simulator.engine import Engine, Timing
from ..simulator.fitted import FittedApplications
from ..simulator.fixed_length import FixedLengthWorld
from ..simulator.knowledge import Knows, LearningKnowledge
from ..simulator.outages import Failures
from ..simulator.measured_rates import MeasuredRatesWorld, read_rates
from ..simulator.outcome import Outcome
from ..simulator.readers import read_trace
from ..simulator.recorded import application_of
from ..simulator.run import simulate
from ..simulator.synthetic import synthetic
from ..simulator.workload import Workload

MEANING = {
    "jobs": "jobs",
    "mean_jct_h": "JCT, mean (h)",
    "p50_jct_h": "JCT, median (h)",
    "p90_jct_h": "JCT, p90 (h)",
    "p99_jct_h": "JCT, p99 (h)",
    "makespan_h": "makespan (h)",
    "gpu_hours_per_job": "GPU-hours per job",
    "mean_queueing_h": "without GPUs, mean (h)",
    "restarts_per_job": "restarts per job",
    "failures": "jobs hit by failed nodes",
    "mean_contention": "active jobs, mean of rounds",
    "policy_median_ms": "policy, median (ms)",
    "policy_p95_ms": "policy, p95 (ms)",
}


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
    types = nodes.gpu_types
    if workload.steps.any():
        return _at_measured_rates(workload, nodes, policies, timing, profiles)
    source = FittedApplications(types) if profiles is None else MeasuredApplications(profiles, types)

    def engine(name: str, options: Mapping[str, Any], part: Workload, on: Cluster) -> Engine:
        policy = make_policy(name, **options)
        if getattr(policy, "fixed_sizes", False):
            part = part.tuned()
        trains = [
            bool(name) or model is not None for name, model in zip(part.applications, part.models, strict=True)
        ]
        if not any(trains):
            return Engine(FixedLengthWorld(part), on, policy, timing, failures)
        if not all(trains):
            raise ValueError("trace: some jobs train a model and some have a duration; simulate them apart")
        applications = [
            source[name] if model is None else application_of(id, model, on.gpu_types)
            for id, name, model in zip(part.ids, part.applications, part.models, strict=True)
        ]
        knowledge = LearningKnowledge(part, applications, knows, noise, seed)
        return Engine(AdaptiveWorld(part, applications, knowledge), on, policy, timing, failures)

    return {
        policy: simulate(workload, nodes, lambda part, on, p=policy, o=options: engine(p, o, part, on))  # type: ignore[misc]
        for policy, options in policies.items()
    }


def _at_measured_rates(
    workload: Workload,
    nodes: SimulatedCluster,
    policies: Mapping[str, Mapping[str, Any]],
    timing: Timing,
    profiles: Path | None,
) -> dict[str, Outcome]:
    """A trace whose jobs train a number of steps."""
    if profiles is None or not profiles.is_file():
        raise ValueError("profiles: jobs of a number of steps need a file of measured steps per second")
    rates = read_rates(profiles)

    def engine(name: str, options: Mapping[str, Any], part: Workload, on: Cluster) -> Engine:
        policy = make_policy(name, **options)
        if not getattr(policy, "fixed_sizes", False):
            raise ValueError(
                f"policy: {name} chooses sizes, and these jobs' speed is known at one; use a fixed one"
            )
        return Engine(MeasuredRatesWorld(part, rates), on, policy, timing)

    return {
        policy: simulate(workload, nodes, lambda part, on, p=policy, o=options: engine(p, o, part, on))  # type: ignore[misc]
        for policy, options in policies.items()
    }


def table(outcomes: Mapping[str, Outcome]) -> RenderableType:
    """One column per policy."""
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("")
    for policy in outcomes:
        view.add_column(policy, justify="right")
    summaries = [outcome.summary() for outcome in outcomes.values()]
    for key, meaning in MEANING.items():
        view.add_row(meaning, *[f"{summary[key]:.4g}" for summary in summaries])
    return view
