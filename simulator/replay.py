"""Build a simulation from the names of a trace, a policy and a cluster, and the run that is kept of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..core.cluster import Cluster
from ..core.teams_file import TeamsFileError
from ..core.teams_file import read as read_teams
from ..core.training_config import Adaptivity
from ..core.wording import n_gpus
from ..estimators.affinity import pair_speeds
from ..estimators.affinity.pair_table import PairTable
from ..estimators.affinity.pair_table import read as read_pairs
from ..estimators.new_load import by_team
from ..policies.catalogue import make_policy
from ..policies.contract.foresight import ForeseenJob
from ..policies.contract.traits import TENANTS, PolicyTraits
from ..policies.lending.policy import LendingPolicy
from .conditions import Column, Conditions, column
from .engine.engine import Engine
from .engine.foreseeing import Foresees, ForesightSource
from .engine.node_states import Power
from .engine.outcome import Outcome
from .engine.services import SimulatedServices
from .engine.shares import SimulatedShares, check_fit, teams_of_jobs
from .jobs.adaptive import AdaptiveWorld
from .jobs.adaptive_tables import AdaptiveTableWorld
from .jobs.applications import MeasuredApplications
from .jobs.fitted import FittedApplications
from .jobs.fixed_length import FixedLengthWorld
from .jobs.fixed_size import half_a_minute
from .jobs.foretold_lengths import perturbed
from .jobs.goodput_tables import GoodputTable, GoodputTableWorld, read_tables, requested, tables_of
from .jobs.input_bound import InputBoundWorld
from .jobs.knowledge import Knows, LearningKnowledge
from .jobs.lengths import Lengths, Sources
from .jobs.measured_rates import MeasuredRatesWorld, Rates, read_rates
from .jobs.recorded_application import application_of
from .jobs.shared_speeds import JobProfiles, MeasuredPairs
from .results.isolated_baseline import ApplicationSource, IsolatedBaseline, finish_time_fairness, work_gpu_s
from .results.saved import SavedRun
from .run import Simulation
from .scaling import BoughtNodes
from .traces.cluster_file import SimulatedCluster
from .traces.estimates import read_estimates
from .traces.input_profiles import InputProfiles, is_profiles, read_profiles
from .traces.job_usage import JobUsage, of_trace, read_usage
from .traces.node_speeds import read_node_speeds
from .traces.profile_runs import with_profile_runs
from .traces.workload import Workload


@dataclass(frozen=True)
class Rated:
    """Jobs of a number of steps, at measured steps per second."""

    rates: Rates


@dataclass(frozen=True)
class Tabulated:
    """Jobs that progress as the goodput table of their application says.

    Jobs adapt under a policy that chooses sizes. Under a policy of fixed sizes each asks for what a tuned job
    would.
    """

    tables: Mapping[str, GoodputTable]


@dataclass(frozen=True)
class InputBound:
    """Jobs whose speed follows their CPUs and memory, as the profile of their model says."""

    profiles: InputProfiles


Source = ApplicationSource | Rated | Tabulated | InputBound


def source_of(steps: bool, profiles: Path | None, nodes: SimulatedCluster) -> Source:
    """Return how fast the jobs of a trace are: applications, goodput tables or steps per second.

    `steps`: the trace gives jobs a number of steps. `profiles`: None takes the fitted applications.

    Raise ValueError if `profiles` lacks what the trace needs.
    """
    if profiles is not None and profiles.is_file() and is_profiles(profiles):
        return InputBound(read_profiles(profiles))
    if steps:
        if profiles is None or not profiles.is_file():
            raise ValueError("profiles: jobs of a number of steps need a file of measured steps per second")
        return Rated(read_rates(profiles))
    if profiles is not None and profiles.is_dir() and not any(path.is_dir() for path in profiles.iterdir()):
        return Tabulated(read_tables(profiles))  # folders inside would be applications
    types = nodes.gpu_types
    return FittedApplications(types) if profiles is None else MeasuredApplications(profiles, types)


def simulation(
    workload: Workload,
    nodes: SimulatedCluster,
    policy: str,
    options: Mapping[str, Any],
    source: Source,
    under: Conditions,
    whole: Workload | None = None,
) -> Simulation:
    """Return a run that is ready to begin. Raise ValueError, in one sentence, for bad input.

    `whole`: the jobs that files of the conditions are about, if only a part of them is replayed.
    """
    whole = workload if whole is None else whole
    failures = under.failures
    services = SimulatedServices(under.services, workload.began_s) if under.services else None
    sources = _sources(whole, under, services)
    spread = None if under.node_speeds is None else read_node_speeds(under.node_speeds)
    shared = None if under.shares is None else shares_of(under.shares, workload, nodes)
    if services is not None and shared is not None:
        services.teams = shared.team
    tried = make_policy(policy, **options)
    traits = tried.traits
    if shared is not None and isinstance(tried, LendingPolicy):
        check_guarantees(workload, shared, policy)
    if traits.foresees_all and under.foresees is not Foresees.PERFECT:
        raise ValueError(f"policy: {policy} must know all jobs to come; give --shares and --foresees perfect")
    workload = as_replayed(workload, traits)
    if under.restart_scale != 1:
        costs_s = np.where(np.isnan(workload.restart_s), half_a_minute(1), workload.restart_s)
        workload = replace(workload, restart_s=under.restart_scale * costs_s)
    _follow_inputs(workload, source)
    beside = shared_gpus(under, whole) if traits.shares_gpus or under.pairs or under.usage else None

    def engine(part: Workload, on: Cluster) -> Engine:
        made = _engine(part, on)
        if beside is not None:
            made.profiles = beside.profiles(part.ids)
            if traits.shares_gpus:
                made.let_share(beside.pairs(part.ids))
        if shared is not None:
            pool = next((name for name, cluster in nodes.parts.items() if cluster is on), "")
            made.shares = replace(shared, pool=pool)
            if under.foresees not in (None, Foresees.LEARNED):
                made.foresight = foresight_of(part, shared, under.foresees, under.seed)
        return made

    def _engine(part: Workload, on: Cluster) -> Engine:
        made = make_policy(policy, **options)
        conditions = column_of(made.traits, part, source, under)
        timing, fixed = conditions.timing, conditions.fixed_sizes
        if fixed:
            part = part.tuned()
        if not fixed and isinstance(source, Rated | InputBound):
            raise ValueError(
                f"policy: {policy} chooses sizes, and these jobs' speed is known at one; use a fixed one"
            )
        if isinstance(source, Rated):
            _runs_somewhere(part, source.rates, on.gpu_types)
            return Engine(MeasuredRatesWorld(part, source.rates), on, made, timing, failures, services=services)
        if isinstance(source, InputBound):
            inputs = InputBoundWorld(part, source.profiles, on)
            return Engine(inputs, on, made, timing, failures, services=services)
        if isinstance(source, Tabulated) and not fixed:
            adaptive = AdaptiveTableWorld(
                part, tables_of(part, source.tables), on.gpu_types, under.noise, under.seed
            )
            return Engine(adaptive, on, made, timing, failures, services=services)
        if isinstance(source, Tabulated):
            part, tables = requested(part, source.tables, on.gpu_types)
            return Engine(GoodputTableWorld(part, tables), on, made, timing, failures, services=services)
        if not _trains(part):
            node_gpus = max((node.gpus for node in on.nodes), default=1)
            lengths = FixedLengthWorld(
                part, lengths=under.lengths, sources=sources, spread=spread, node_gpus=node_gpus
            )
            lengths.pooled = made.traits.crosses_pools and bool(nodes.pools)
            return Engine(lengths, on, made, timing, failures, services=services)
        jobs = [
            source[name] if model is None else application_of(id, model, on.gpu_types)
            for id, name, model in zip(part.ids, part.applications, part.models, strict=True)
        ]
        if conditions.profiled:
            part = _profiled(part, conditions.knows, under.profiling_s)
        knowledge = LearningKnowledge(part, jobs, conditions.knows, under.noise, under.seed)
        slow = {id: model.slowdown for id, model in zip(part.ids, part.models, strict=True) if model is not None}
        return Engine(
            AdaptiveWorld(part, jobs, knowledge, slow, on), on, made, timing, failures, services=services
        )

    has_lengths = not isinstance(source, Rated | Tabulated | InputBound) and not _trains(workload)
    if under.lengths is not Lengths.TOLD and not has_lengths:
        raise ValueError(f"--lengths: {under.lengths} is only for traces of jobs that have a duration")
    if (under.length_noise or under.restart_scale != 1) and not has_lengths:
        raise ValueError("--length-noise, --restart-scale: are only for traces of jobs that have a duration")
    if spread is not None and not has_lengths:
        raise ValueError("--node-speeds: is only for traces of jobs that have a duration")
    if not isinstance(source, Rated | Tabulated | InputBound) and not has_lengths:
        workload = _with_batches(workload, source)
    crosses = traits.crosses_pools and bool(nodes.pools)
    if crosses and not has_lengths:
        raise ValueError(f"policy: {policy} plans all pools at once, and pools are only for jobs with a duration")
    ready = with_profile_runs(workload, nodes)
    found = Simulation(ready, nodes, engine, asked=workload, crosses_pools=crosses)
    if under.scaling is not None:
        if services is not None and services.advise_machines:
            raise ValueError("scaling: a node is either put to sleep or given up; leave the service energy out")
        found.let_sleep(BoughtNodes(under.scaling).power())
    elif services is not None and services.advise_machines:
        found.let_sleep(Power(services.advise, under.boot_s))
    return found


@dataclass(frozen=True, eq=False)
class SharedGpus:
    """What is true of jobs that share GPUs, by job id."""

    at: Mapping[str, int]
    usage: JobUsage
    table: PairTable | None

    def profiles(self, ids: Sequence[str]) -> JobProfiles:
        """Return what some jobs use."""
        return JobProfiles([self.usage.usage[self.at[id]] if id in self.at else None for id in ids])

    def pairs(self, ids: Sequence[str]) -> MeasuredPairs:
        """Return how fast some jobs are beside each other: as measured, else as a model says."""
        at = [self.at.get(id, -1) for id in ids]
        kinds = ["" if i < 0 else self.usage.kinds[i] for i in at]
        rows, model = self.usage.rows, pair_speeds.default()

        @cache
        def foretold(job: int, other: int) -> float:
            if at[job] < 0 or at[other] < 0:
                return 1.0 / TENANTS
            return float(model.of(rows[at[job]][None, :], rows[at[other]][None, :])[0])

        return MeasuredPairs(kinds, {} if self.table is None else speeds_by_kind(self.table), foretold)


def as_replayed(workload: Workload, traits: PolicyTraits) -> Workload:
    """Return jobs as a policy's replay takes them. Where GPUs are shared, jobs have lengths rather than models."""
    return workload.by_durations() if traits.shares_gpus else workload


def shared_gpus(under: Conditions, whole: Workload) -> SharedGpus:
    """Return what is true of jobs that share GPUs. Raise ValueError, in one sentence, for a bad file."""
    usage = of_trace(whole.uses) if under.usage is None else read_usage(under.usage, whole.ids)
    table = None if under.pairs is None else read_pairs(under.pairs)
    return SharedGpus({id: at for at, id in enumerate(whole.ids)}, usage, table)


def speeds_by_kind(table: PairTable) -> dict[tuple[str, str], float]:
    """Return the measured speeds of a table by (job, partner)."""
    jobs, partners = table.pairs
    names, speeds = table.names, table.speeds
    found: dict[tuple[str, str], float] = {}
    for a, b in zip(jobs.tolist(), partners.tolist(), strict=True):
        found[names[a], names[b]], found[names[b], names[a]] = float(speeds[a, b]), float(speeds[b, a])
    return found


def shares_of(path: Path, workload: Workload, nodes: SimulatedCluster) -> SimulatedShares:
    """Return the teams of a file for the jobs of a trace. Raise ValueError, in one sentence, if they misfit."""
    try:
        teams = read_teams(path.read_bytes())
    except (OSError, TeamsFileError) as error:
        raise ValueError(f"--shares: {path}: {error}") from None
    named = [Cluster(tuple(replace(node, pool=name) for node in part.nodes)) for name, part in nodes.parts.items()]
    check_fit(teams, named)
    return SimulatedShares(teams, teams_of_jobs(workload, teams))


def check_guarantees(workload: Workload, shared: SimulatedShares, policy: str) -> None:
    """Raise ValueError, in one sentence, for a job that is wider than what its team is guaranteed of any type."""
    most = {name: max(team.guarantee.values(), default=0) for name, team in shared.teams.teams.items()}
    for id, gpus in zip(workload.ids, workload.gpus.tolist(), strict=True):
        if gpus > (have := most[shared.team[id]]):
            of = f"job {id} asks for {n_gpus(gpus)}, and its team {shared.team[id]} is guaranteed"
            raise ValueError(
                f"--shares: {of} {f'at most {have}' if have else 'none'}; {policy} would never serve it"
            )


def foresight_of(part: Workload, shared: SimulatedShares, foresees: Foresees, seed: int) -> ForesightSource:
    """Return what policies are told of the jobs that teams will submit to an engine."""
    teams = [shared.team[id] for id in part.ids]
    arrivals = by_team(part.submit_s.tolist(), part.gpus.tolist(), teams)
    jobs = zip(part.ids, teams, part.submit_s.tolist(), part.duration_s.tolist(), part.gpus.tolist(), strict=True)
    known = tuple(ForeseenJob(*one) for one in jobs) if foresees is Foresees.PERFECT else ()
    return ForesightSource(arrivals, foresees, np.random.default_rng(seed), known)


def _sources(workload: Workload, under: Conditions, services: SimulatedServices | None) -> Sources:
    """Return where lengths come from that policies are told. Raise ValueError for a bad file of estimates."""
    estimates_s: Mapping[str, float] = {}
    if under.lengths is Lengths.PERTURBED:
        told_s = perturbed(workload.duration_s, under.seed).tolist()
        estimates_s = dict(zip(workload.ids, told_s, strict=True))
    elif under.estimates is not None:
        estimates_s = read_estimates(under.estimates, workload.ids)
    return Sources({} if services is None else services.foretold, estimates_s, under.length_noise, under.seed)


def column_of(traits: PolicyTraits, workload: Workload, source: Source, under: Conditions) -> Column:
    """Return the conditions of the run of a policy with these traits."""
    recorded = any(model is not None for model in workload.models)
    workload = as_replayed(workload, traits)
    trains = not isinstance(source, Rated | Tabulated | InputBound) and _trains(workload)
    restart = "what its application was measured to take" if trains else f"{half_a_minute(1):g} s"
    if recorded or not np.isnan(workload.restart_s).all():
        restart = "what it took live"
    elif isinstance(source, Tabulated):
        restart = "what its table says, at the first start too"
    has_lengths = not (trains or isinstance(source, Rated | Tabulated | InputBound))
    found = column(traits, under, trains=trains, recorded=recorded, restart=restart, has_lengths=has_lengths)
    curves = sum(curve is not None for curve in workload.curves)
    return replace(
        found,
        knows_uses=under.usage is not None or any(one is not None for one in workload.uses),
        metric_ends=curves / len(workload.curves) if curves else 0.0,
    )


def _follow_inputs(workload: Workload, source: Source) -> None:
    """Raise ValueError if a job has an input that it cannot follow."""
    at = next((at for at, one in enumerate(workload.inputs) if one is not None), None)
    if at is not None and (isinstance(source, Rated | Tabulated | InputBound) or not _trains(workload)):
        raise ValueError(
            f"trace: job {workload.ids[at]}: input is only for jobs that train a model; leave it out here"
        )


def _runs_somewhere(workload: Workload, rates: Rates, gpu_types: Sequence[str]) -> None:
    """Raise ValueError if the cluster has no GPU type on which a job's speed was measured."""
    for id, name, gpus in zip(workload.ids, workload.applications, workload.gpus.tolist(), strict=True):
        known = [t for t, rate in rates.get((name, gpus), {}).items() if rate > 0]
        if known and not set(known) & set(gpu_types):
            raise ValueError(
                f"trace: job {id}: the speed of {name!r} on {n_gpus(gpus)} was measured on {', '.join(known)}, "
                f"and the cluster has {', '.join(gpu_types)}"
            )


def _with_batches(workload: Workload, source: ApplicationSource) -> Workload:
    """Return the workload with a batch size for every job; the default is that of its application."""
    sizes = [
        size or (source[name].initial_batch_size if model is None else model.initial_batch_size)
        for size, name, model in zip(
            workload.batch_size.tolist(), workload.applications, workload.models, strict=True
        )
    ]
    return replace(workload, batch_size=np.array(sizes, np.int64))


def _profiled(workload: Workload, knows: Knows, takes_s: float) -> Workload:
    """Return the workload whose jobs wait until they are measured, at most `takes_s`.

    A job of a live cluster's trace says itself how long it waits. With `profile-cache` a job waits for the first
    job of the same application, adaptivity and batch size. The live service, too, knows a script by its files
    and arguments before it has run.
    """
    waits_s = np.where(workload.ready_after_s > 0, workload.ready_after_s, takes_s)
    if knows is Knows.PROFILE_CACHE:
        of = _first_known_with(workload)
        known_s: dict[tuple[object, ...], float] = {}
        for name, at in zip(of, (workload.submit_s + waits_s).tolist(), strict=True):
            known_s[name] = min(known_s.get(name, math.inf), at)
        waits_s = np.clip(np.array([known_s[name] for name in of]) - workload.submit_s, 0.0, waits_s)
    return replace(workload, ready_after_s=waits_s)


def _first_known_with(workload: Workload) -> list[tuple[object, ...]]:
    """Return a key per job; jobs of the same script share it, and a job of a live trace has its own."""
    columns = zip(
        workload.ids, workload.applications, workload.models, workload.adaptivity, workload.batch_size.tolist(),
        strict=True,
    )  # fmt: skip
    return [
        (name, kind, 0 if kind is Adaptivity.ADAPTIVE else batch_size) if model is None else (id,)
        for id, name, model, kind, batch_size in columns
    ]


def baseline_of(source: Source) -> IsolatedBaseline | None:
    """Return what runs jobs alone, for fairness; None if their speed is known at one size only."""
    return None if isinstance(source, Rated | Tabulated | InputBound) else IsolatedBaseline(source)


def kept(
    label: str,
    outcome: Outcome,
    baseline: IsolatedBaseline | None,
    about: Mapping[str, Any],
    conditions: Mapping[str, str] | None = None,
) -> SavedRun:
    """Return a run with the fairness and the work of its jobs, which need runs of jobs alone.

    If the jobs are no applications, both are known of jobs with lengths only. Of jobs that wait for their input
    they are not known.
    """
    workload = outcome.workload
    alone = baseline if all(workload.applications) and not any(workload.inputs) else None
    rho = finish_time_fairness(outcome, alone)
    return SavedRun(label, outcome, rho, np.asarray(work_gpu_s(outcome, alone), float), about, conditions or {})


def _trains(workload: Workload) -> bool:
    """Return whether the jobs train models; False: they have lengths. Raise ValueError if a trace has both."""
    models = zip(workload.applications, workload.models, strict=True)
    named = [bool(name) or model is not None for name, model in models]
    if any(named) and not all(named):
        raise ValueError("trace: some jobs train a model and some have a duration; simulate them apart")
    return any(named)
