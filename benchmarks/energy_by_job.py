"""Sleeping nodes job by job: a trace under a policy, with the service `energy` for all pools, boots included."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from coadapt.policies.contract.round import Plan, Round
from coadapt.scheduler.services.contract import Advice
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.node_states import Power
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.engine.services import SimulatedServices
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.power import PowerSummary, power_summary, waited_for_boot
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
    "energy": {"rule": "peak", "buffer": 0, "wakes_per_day": 5.0, "refit_s": 7 * 86_400.0},
    "most of the last day": {"rule": "recent", "history_s": 86_400.0, "buffer": 0},
    "vanilla DRS": {"rule": "recent", "history_s": 600.0, "buffer": 0},
}
MONTH_S = 26 * 86_400.0  # in which jobs are submitted


@dataclass(frozen=True)
class Ran:
    """A run under one way to let nodes sleep; `power` None: all nodes were on."""

    outcome: Outcome
    power: PowerSummary | None = None
    affected: float = 0.0  # share of the jobs
    advise_p99_ms: float = 0.0


@dataclass
class Timed:
    """Asks for advice and notes how long each piece took, counting included."""

    services: SimulatedServices
    took_ms: list[float] = field(default_factory=list)

    def __call__(self, round: Round, plan: Plan) -> Advice:
        began = time.perf_counter()
        found = self.services.advise(round, plan)
        self.took_ms.append(1000 * (time.perf_counter() - began))
        return found


def venus() -> tuple[Workload, SimulatedCluster]:
    """Return Venus' September, and its VCs."""
    needs(VENUS, VENUS_NODES)
    return read(Path(VENUS)), read_cluster(str(VENUS_NODES))


def run(
    workload: Workload, nodes: SimulatedCluster, policy: str, options: Mapping[str, object] | None = None
) -> Ran:
    """Run a trace; lengths are foretold for a policy that goes by them. `options`: of `energy`; None: without."""
    services: dict[str, Mapping[str, object]] = {"durations": {}} if policy == "qssf" else {}
    if options is not None:
        services["energy"] = options
    under = Conditions(timing=Timing(events=True), services=services, boot_s=BOOT_S)
    made = simulation(workload, nodes, policy, {}, source_of(False, None, nodes), under)
    if options is None:
        return Ran(made.run())
    hosted = made.engines[0].services
    assert hosted is not None
    timed = Timed(hosted)
    made.let_sleep(Power(timed, BOOT_S))
    outcome = made.run()
    waited = 0
    for engine in made.engines:
        of = engine.outcome()
        waited += int(waited_for_boot(engine.nodes.log, of.workload.submit_s, of.started_s).sum())
    logs = [engine.nodes.log for engine in made.engines]
    p99 = float(np.quantile(timed.took_ms, 0.99))
    return Ran(outcome, power_summary(logs, 0.0, MONTH_S, BOOT_S), waited / len(workload), p99)


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
            under = Conditions(services={"energy": ELASTIC}, boot_s=BOOT_S)
            made = simulation(workload, nodes, "sia", {"gpu_price": price}, source, under)
            outcome = made.run()
            logs = [engine.nodes.log for engine in made.engines]
            summaries.append(power_summary(logs, 0.0, outcome.makespan_s, BOOT_S))
            jct_h.append(float(outcome.jct_s.mean()) / 3600)
        off, kwh = (float(np.mean([getattr(of, name) for of in summaries])) for name in ("nodes_off", "saved_kwh"))
        found.append(Priced(price, off, float(np.mean(jct_h)), kwh))
    return found
