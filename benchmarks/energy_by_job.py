"""Sleeping nodes job by job: a trace under a policy, with the service `energy` for all pools, boots included."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from coadapt.core.cluster import Cluster
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.sleeping.machines import pool_of
from coadapt.scheduler.services.contract import Advice, NodeCounts, NodeKind
from coadapt.scheduler.services.energy import Energy, EnergyOptions
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.node_states import Power
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.power import PowerSummary, power_summary, waited_for_boot
from coadapt.simulator.run import Simulation
from coadapt.simulator.traces.cluster_file import SimulatedCluster, read_cluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.readers.helios import read
from coadapt.simulator.traces.workload import Workload

from .evaluation.grid import HETEROGENEOUS, SIA, Trace
from .harness import DATA, needs

VENUS = DATA / "helios" / "venus_sept2020_gpu_jobs.csv.gz"
VENUS_NODES = DATA / "lucid" / "venus_vc_config.csv"
BOOT_S = 300.0
# Options of the service: ours, a rule without forecast, and the published baseline.
WAYS: Mapping[str, Mapping[str, object]] = {
    "energy": {"rule": "peak", "buffer": 0, "wakes_per_day": 2.0, "refit_s": 7 * 86_400.0},
    "most of the last day": {"rule": "recent", "history_s": 86_400.0, "buffer": 0},
    "vanilla DRS": {"rule": "recent", "history_s": 600.0, "buffer": 0},
}
MONTH_S = 26 * 86_400.0  # in which jobs are submitted


@dataclass
class Adviser:
    """Tells the service what runs after each round, and asks it. All pools share it."""

    service: Energy
    began_s: float  # seconds since 1970 at which the trace begins
    took_ms: list[float] = field(default_factory=list)
    fits_s: list[float] = field(default_factory=list)

    def __call__(self, round: Round, plan: Plan) -> Advice:
        now = self.began_s + round.now
        busy = {share.node_id for placement in plan.placements.values() for share in placement.shares}
        running: dict[NodeKind, int] = {}
        total: dict[NodeKind, int] = {}
        for node in (*round.cluster.nodes, *round.asleep):
            kind = NodeKind(pool_of(node, round), node.gpu_type)
            total[kind] = total.get(kind, 0) + 1
            running[kind] = running.get(kind, 0) + (node.id in busy)
        self.service.observe(NodeCounts(now, running, total))
        if self.service.fit_due(now):
            began = time.perf_counter()
            self.service.take(self.service.fitting(now)())
            self.fits_s.append(time.perf_counter() - began)
        began = time.perf_counter()
        found = self.service.advise(now, round, plan)
        self.took_ms.append(1000 * (time.perf_counter() - began))
        return found


@dataclass(frozen=True)
class Ran:
    """A run under one way to let nodes sleep; `power` None: all nodes were on."""

    outcome: Outcome
    power: PowerSummary | None = None
    affected: float = 0.0  # share of the jobs
    advise_p99_ms: float = 0.0
    fit_s: float = 0.0


def venus() -> tuple[Workload, SimulatedCluster]:
    """Return Venus' September, and its VCs."""
    needs(VENUS, VENUS_NODES)
    return read(Path(VENUS)), read_cluster(str(VENUS_NODES))


def run(
    workload: Workload, nodes: SimulatedCluster, policy: str, options: Mapping[str, object] | None = None
) -> Ran:
    """Run a trace; `options`: of the service, None without it."""
    adviser = None
    if options is not None:
        adviser = Adviser(Energy(EnergyOptions.model_validate(options)), workload.began_s or 0.0)

    def make(part: Workload, on: Cluster) -> Engine:
        return Engine(FixedLengthWorld(part), on, make_policy(policy), Timing(events=True))

    simulation = Simulation(workload, nodes, make)
    if adviser is not None:
        simulation.let_sleep(Power(adviser, BOOT_S))
    outcome = simulation.run()
    if adviser is None:
        return Ran(outcome)
    logs = [engine.nodes.log for engine in simulation.engines]
    waited = 0
    for engine, log in zip(simulation.engines, logs, strict=True):
        found = engine.outcome()
        waited += int(waited_for_boot(log, found.workload.submit_s, found.started_s).sum())
    took = np.quantile(adviser.took_ms, 0.99)
    return Ran(
        outcome,
        power_summary(logs, 0.0, MONTH_S, BOOT_S),
        waited / len(workload),
        float(took),
        max(adviser.fits_s, default=0.0),
    )


def line(name: str, ran: Ran, without: Ran) -> Sequence[object]:
    """Return a row of the table: what slept and what it cost in JCT."""
    rise = ran.outcome.jct_s.mean() / without.outcome.jct_s.mean() - 1
    if ran.power is None:
        return [name, "", "", "", "", "", f"{ran.outcome.jct_s.mean():.0f}", ""]
    of = ran.power
    return [
        name, f"{of.nodes_off:.1f}", f"{of.wakes_per_day:.1f}", f"{of.nodes_per_wake:.1f}", f"{of.saved_kwh:.0f}",
        f"{ran.affected:.2%}", f"{ran.outcome.jct_s.mean():.0f}", f"{rise:.2%}",
    ]  # fmt: skip


# Options of the service under elastic jobs: what an hour did not need sleeps.
ELASTIC: Mapping[str, object] = {"rule": "recent", "history_s": 3600.0, "buffer": 0}


@dataclass(frozen=True)
class Priced:
    """Runs under one `gpu_price`: means over the traces."""

    price: float
    nodes_off: float
    mean_jct_h: float
    kwh_saved: float


def price_curve(prices: Sequence[float], traces: Sequence[Trace], cluster: str = HETEROGENEOUS) -> list[Priced]:
    """Return what sleeps, and what it costs in JCT, under `sia` with each price of a GPU."""
    nodes = read_cluster(cluster)
    source = source_of(False, SIA / "traces", nodes)
    found = []
    for price in prices:
        summaries, jct_h = [], []
        for trace in traces:
            workload = read_trace(trace.path, None)
            run = simulation(workload, nodes, "sia", {"gpu_price": price}, source, Conditions())
            run.let_sleep(Power(Adviser(Energy(EnergyOptions.model_validate(ELASTIC)), 0.0), BOOT_S))
            outcome = run.run()
            logs = [engine.nodes.log for engine in run.engines]
            summaries.append(power_summary(logs, 0.0, outcome.makespan_s, BOOT_S))
            jct_h.append(float(outcome.jct_s.mean()) / 3600)
        off, kwh = (float(np.mean([getattr(of, name) for of in summaries])) for name in ("nodes_off", "saved_kwh"))
        found.append(Priced(price, off, float(np.mean(jct_h)), kwh))
    return found
