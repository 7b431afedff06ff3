"""`coadapt simulate`: runs a trace under policies in virtual time, and shows the figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..core.scaling_settings import ScalingSettings
from ..policies.catalogue import make_policy
from ..policies.warm_up import warm_up
from ..simulator import resume
from ..simulator.conditions import OPEN, Column, Conditions, differing
from ..simulator.derived import Derived, derived
from ..simulator.engine.outcome import Outcome
from ..simulator.explained import ExplainedRound, explain
from ..simulator.replay import baseline_of, column_of, kept, simulation, source_of
from ..simulator.results.deadlines import MEANING_OF_DEADLINES, deadline_figures
from ..simulator.results.identity import MADE_BY, check_same, digest, project
from ..simulator.results.metrics import MEANING
from ..simulator.results.power import MEANING_OF_SLEEP, power_figures
from ..simulator.results.saved import DESCRIPTION, SavedRun, describe, load, save
from ..simulator.results.teams import MEANING_OF_TEAMS, team_figures
from ..simulator.run import Simulation
from ..simulator.scaling import MEANING_OF_COST, cost_figures, scaled
from ..simulator.sweep_file import PolicyChoice
from ..simulator.synthetic import synthetic
from ..simulator.traces.cluster_file import FILES, read_cluster
from ..simulator.traces.deadlines import DeadlineRule, with_deadlines
from ..simulator.traces.readers import read_trace
from ..simulator.traces.workload import Workload
from .exit_codes import Interrupted
from .plain import say

Figures = dict[str, dict[str, float]]


@dataclass(frozen=True)
class AskedTrace:
    """The jobs to replay: those of a file, or synthetic ones."""

    path: Path | None = None
    format: str | None = None
    jobs: int = 160
    jobs_per_hour: float = 20.0
    derived: Derived | None = None  # jobs that are derived from Philly's shape
    deadlines: DeadlineRule | None = None  # which jobs get deadlines, if the trace has none of its own

    def workload(self, seed: int) -> Workload:
        """Return the jobs. Raise ValueError, in one sentence, for a trace that is not accepted."""
        jobs = self._jobs(seed)
        return jobs if self.deadlines is None else with_deadlines(jobs, self.deadlines, seed)

    def _jobs(self, seed: int) -> Workload:
        if self.derived is not None:
            return derived(self.derived, seed)
        if self.path is None:
            return synthetic(self.jobs, self.jobs_per_hour, seed)
        return read_trace(self.path, self.format)

    def about(self) -> dict[str, Any]:
        """Return what identifies the trace, as JSON values."""
        made_up = f"synthetic {self.jobs} at {self.jobs_per_hour:g}/h"
        if self.derived is not None:
            made_up = self.derived.shown
        return {
            "trace": made_up if self.path is None else self.path.name,
            "trace_sha256": digest(self.path),
            "trace_format": self.format,
        } | ({} if self.deadlines is None else {"deadlines": self.deadlines.shown})


class Comparison:
    """One trace on one cluster under each of some policies (name -> options).

    Raise ValueError, in one sentence, for input that is not accepted.
    """

    def __init__(
        self,
        trace: AskedTrace,
        cluster: str | None,
        policies: Mapping[str, Mapping[str, Any]],
        under: Conditions,
        profiles: Path | None = None,
    ) -> None:
        self._trace, self._cluster, self._policies = trace, cluster, policies
        self._under, self._profiles = under, profiles
        self._workload = trace.workload(under.seed)
        nodes = None if cluster is None else read_cluster(cluster)
        self._nodes = nodes if under.scaling is None and nodes is not None else scaled(nodes, _needed(under))
        self._source = source_of(bool(self._workload.steps.any()), profiles, self._nodes)
        self._columns = {name: self._column(name) for name in policies}
        self.teams: dict[str, dict[str, dict[str, float]]] = {}  # policy -> team -> figures, with --shares

    @property
    def conditions(self) -> dict[str, dict[str, str]]:
        """The conditions of each policy's run, in words."""
        pools, named = self._nodes.pools, any(self._workload.virtual_clusters)
        return {name: column.described(self._under, pools, named) for name, column in self._columns.items()}

    def _column(self, policy: str) -> Column:
        traits = make_policy(policy, **self._policies[policy]).traits
        return column_of(traits, self._workload, self._source, self._under)

    def _ready(self, policy: str) -> Simulation:
        options = self._policies[policy]
        return simulation(self._workload, self._nodes, policy, options, self._source, self._under)

    def run(self) -> Figures:
        """Return the figures of each policy. Raise RunFailed if a run cannot go on."""
        figures = {}
        for policy, options in self._policies.items():
            made = self._ready(policy)
            warm_up(policy, options)  # otherwise compiling would use up the time limits of the first rounds
            outcome = made.run()
            figures[policy] = outcome.summary() | deadline_figures(outcome)
            self._note_teams(policy, made, outcome)
            if (scaling := self._under.scaling) is not None:
                figures[policy] |= cost_figures(scaling, [engine.nodes.log for engine in made.engines], outcome)
            elif any(engine.nodes.power is not None for engine in made.engines):
                logs = [engine.nodes.log for engine in made.engines]
                figures[policy] |= power_figures(logs, outcome, self._under.boot_s)
        return figures

    def _note_teams(self, policy: str, made: Simulation, outcome: Outcome) -> None:
        shares = [engine.shares for engine in made.engines if engine.shares is not None]
        if shares:
            duals = {kind: price for one in shares for kind, price in one.named_prices.items()}
            self.teams[policy] = team_figures(outcome, shares[0].team, shares[0].teams, duals)

    def explain(self, job: str, at_s: float | None) -> dict[str, ExplainedRound]:
        """Return what each policy says of a job, at or after `at_s` of the trace; None: in its last round."""
        found = {}
        for policy, options in self._policies.items():
            made = self._ready(policy)
            warm_up(policy, options)
            found[policy] = explain(made, job, at_s)
        return found

    def about(self, policy: str) -> dict[str, Any]:
        """Return what identifies a policy's run, as JSON values."""
        words = self._cluster or ""
        cluster_file = Path(words) if Path(words).suffix in FILES else None
        return {
            **self._trace.about(),
            **self._under.about(),
            "knows": str(self._columns[policy].knows),
            "policy_options": dict(self._policies[policy]),
            "cluster": words,
            "cluster_sha256": digest(cluster_file),
            "profiles": None if self._profiles is None else self._profiles.name,
            "profiles_sha256": digest(self._profiles),
            MADE_BY: project(),
        }

    def run_kept(self, out: Path) -> Figures:
        """Run and save each policy in a folder of its name. Return figures with fairness and goodput.

        A saved run is not run again, and an interrupted one goes on. Raise Interrupted after a Ctrl-C. Raise
        ValueError, before anything is run, if a folder holds a run of other inputs.
        """
        baseline = baseline_of(self._source)
        about = {policy: self.about(policy) for policy in self._policies}
        there = {policy: _there(out / policy, about[policy]) for policy in self._policies}
        figures = {}
        for policy, options in self._policies.items():
            folder, point = out / policy, out / policy / resume.NAME
            if (saved := there[policy]) is not None:
                say(f"coadapt: {folder}: is there already, not run again", error=True)
                figures[policy] = saved.figures()
                continue
            warm_up(policy, options)
            try:
                outcome = resume.run(partial(self._ready, policy), point, about[policy])
            except resume.Paused as at:
                raise Interrupted(
                    f"interrupted under {policy}, {at}; the same command goes on from there"
                ) from None
            if baseline is not None and all(outcome.workload.applications):  # it takes longer than the run
                say(f"coadapt: {folder}: each job now runs alone, for the figures of fairness", error=True)
            label = PolicyChoice(name=policy, options=dict(options)).shown()
            made = kept(label, outcome, baseline, about[policy], self.conditions[policy])
            save(made, folder)
            point.unlink(missing_ok=True)
            figures[policy] = made.figures()
        return figures


def _needed(under: Conditions) -> ScalingSettings:
    """Return the nodes that are bought, where no others are named."""
    if under.scaling is None:
        raise ValueError("--cluster: names no nodes; give some, or --scaling FILE.yaml")
    return under.scaling


def _there(folder: Path, about: Mapping[str, Any]) -> SavedRun | None:
    """Return the run that a folder holds, if this code made it; None: it must be run again, or there is none.

    Raise ValueError if the run has other inputs.
    """
    if not (folder / DESCRIPTION).is_file():
        return None
    found = describe(folder).get("about", {})
    check_same(folder, found, about)
    try:
        return load(folder) if found.get(MADE_BY) == about[MADE_BY] else None
    except ValueError:
        return None  # a torn run is made again


def explained(found: Mapping[str, ExplainedRound]) -> str:
    """Return the policies' explanations as text, each below its round."""
    return "\n\n".join(
        "\n".join((f"{policy}, round at {at.time_s:g} s:", *at.explanation.sentences))
        for policy, at in found.items()
    )


def table(summaries: Mapping[str, Mapping[str, float]]) -> RenderableType:
    """Return the figures, one column per policy."""
    view = columns_of(summaries)
    found = MEANING | MEANING_OF_DEADLINES
    meanings = {key: meaning for key, (meaning, _) in found.items()} | MEANING_OF_SLEEP | MEANING_OF_COST
    for key, meaning in meanings.items():
        if all(key in summary for summary in summaries.values()):
            view.add_row(meaning, *[f"{summary[key]:.4g}" for summary in summaries.values()])
    return view


def team_table(policy: str, teams: Mapping[str, Mapping[str, float]]) -> RenderableType:
    """Return the figures of the teams of a policy's run, one row per team."""
    view = columns_of(MEANING_OF_TEAMS.values(), f"{policy}, by team")
    for name, found in teams.items():
        view.add_row(name, *[f"{found[key]:.4g}" for key in MEANING_OF_TEAMS])
    return Group("", view)


def columns_of(names: Iterable[str], head: str = "") -> Table:
    """Return an empty table with one column per name."""
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column(head)
    for name in names:
        view.add_column(name, justify="right")
    return view


def conditions(columns: Mapping[str, Mapping[str, str]], same: bool) -> RenderableType:
    """Return the conditions that differ between columns as a table, then those of all.

    `same`: the user asked for the same conditions.
    """
    names, common = differing(columns)
    parts: list[RenderableType] = [""]
    if names:
        view = columns_of(columns, "conditions that differ")
        for name in names:
            view.add_row(name, *[found.get(name, "-") for found in columns.values()])
        parts += [view, ""]
    alike = Table(box=None, pad_edge=False, header_style="bold")
    alike.add_column("conditions" if len(columns) == 1 else "conditions of every column")
    alike.add_column("")
    for name, told in common.items():
        alike.add_row(name, told)
    parts.append(alike)
    if any(name in OPEN for name in names) and not same:
        parts += ["", Text("--same-conditions gives every column those of the live service.")]
    return Group(*parts)
