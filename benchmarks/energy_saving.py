"""Nodes that could be off, and how often some would be woken for it, on series of node counts.

    python -m benchmarks.energy_saving

Two clusters by ten-minute maxima: Philly's nodes from 1 to 14 December 2017, and Earth's from 18 to 31 May 2020.
The forecast is fitted to what was before. No forecast reads a later count than that of its moment.

Then jobs: Venus' September under a policy, with the service `energy`, nodes bound to VCs and boots of 5 minutes.

Settings of our rule and of rules without a forecast are chosen alike. The last part of the days before decides,
under a model of what was before that part. Of settings whose wake-ups are within the limit, that with most nodes
off wins. Beside it stand the settings that would have been best in hindsight, for both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.core.decisions import Waiting, WaitReason
from coadapt.core.job import JobSpec
from coadapt.core.placement import NodeShare, Placement
from coadapt.estimators.node_demand import HORIZONS, NodeDemand, NodeForecast
from coadapt.estimators.node_demand_fit import fit
from coadapt.estimators.node_series import SLOT_S, Floats, NodeSeries
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.sleeping.counts import PUBLISHED, VANILLA, CountRule, PeakRule, RecentRule
from coadapt.policies.sleeping.kwh import saved_kwh_per_year
from coadapt.scheduler.services.contract import NodeCounts, NodeKind
from coadapt.scheduler.services.energy import Energy, EnergyOptions
from coadapt.simulator.node_series.perfect import most_off
from coadapt.simulator.node_series.replay import Replayed, replay

from .arguments import some_of
from .energy_by_job import WAYS, line, price_curve, run, venus
from .evaluation.grid import shipped
from .forecast_peers import PEERS, smape
from .harness import finish, table
from .node_count_data import earth, philly, seconds

TABLE_2_5 = {"venus": 5.0, "earth": 20.5, "saturn": 20.0, "uranus": 34.0}  # nodes off in the mean
OURS = [PeakRule(*of) for of in product((0, 2, 5, 8, 10, 12, 15, 20), (1, 5, 10, 20))]
RULES = [RecentRule(*of) for of in product((1, 3, 6, 12, 18, 24, 36, 72, 144), range(0, 61, 4), (1, 10, 20))]
PRICES = (0.0, 0.01, 0.03, 0.1)
HOURS = {"1h": 6, "3h": 18}


@dataclass(frozen=True)
class Case:
    """A series, the days that are shown, and the days before on which settings are chosen.

    most_wakes: wake-ups a day that are allowed. published: whose settings the published rule has.
    """

    read: Callable[[], NodeSeries]
    first: str
    days: int
    chosen_days: int
    most_wakes: float
    published: str


CASES = {
    "philly": Case(philly, "2017-12-01 00:00:00", 14, 28, 0.5, "philly"),
    "earth_may": Case(earth, "2020-05-18 00:00:00", 14, 7, 1.3, "earth"),
}


@dataclass(frozen=True)
class Stretch:
    """Days of a series with what was before them, and the forecasts of a model that was fitted to that."""

    history: NodeSeries
    shown: NodeSeries
    model: NodeDemand
    forecasts: Sequence[NodeForecast]
    fit_s: float

    @classmethod
    def of(cls, series: NodeSeries, first: int, slots: int, seed: int = 0, additive: bool = False) -> Stretch:
        began = time.perf_counter()
        model = fit([series], series.start_s + SLOT_S * first, seed=seed, additive=additive)
        if model is None:
            raise SystemExit("energy_saving: too little was counted to fit a forecast to")
        took = time.perf_counter() - began
        within = series.of(0, first + slots)
        return cls(
            series.of(0, first), series.of(first, first + slots), model, model.forecasts(within, first), took
        )

    def replay(self, rule: CountRule, grants: float | None = None) -> Replayed:
        return replay(rule, self.history, self.shown, self.forecasts, grants_per_day=grants)


def best(found: Mapping[CountRule, Replayed], most_wakes: float) -> CountRule:
    """Return the rule with most nodes off whose wake-ups are within a limit; with fewest, if none is within."""
    within = {rule: of for rule, of in found.items() if of.wakes_per_day <= most_wakes}
    if within:
        return max(within, key=lambda rule: within[rule].nodes_off)
    return min(found, key=lambda rule: found[rule].wakes_per_day)


def figures_of(found: Replayed) -> dict[str, float]:
    return {
        "nodes_off": found.nodes_off,
        "wakes_per_day": found.wakes_per_day,
        "nodes_per_wake": found.nodes_per_wake if found.woken else 0.0,
        "utilisation_after": found.utilisation_after,
        "kwh_saved": found.saved_kwh,
    }


def saving(name: str, case: Case) -> dict[str, float]:
    """Replay a case under all rules, print a table, and return its figures."""
    series = case.read()
    first = int((seconds(case.first) - series.start_s) // SLOT_S)
    slots, chosen = case.days * 144, case.chosen_days * 144
    before, shown = Stretch.of(series, first - chosen, chosen), Stretch.of(series, first, slots)
    grants = case.most_wakes
    ours_before = {rule: before.replay(rule, grants) for rule in OURS}
    rules_before = {rule: before.replay(rule) for rule in RULES}
    ours = {rule: shown.replay(rule, grants) for rule in OURS}
    rules = {rule: shown.replay(rule) for rule in RULES}
    picked, plain = best(ours_before, grants), best(rules_before, grants)
    lucky, lucky_plain = best(ours, grants), best(rules, grants)
    bound = most_off(shown.shown, int(grants * case.days))
    rows = {
        "ours": (picked, ours[picked]),
        "rule": (plain, rules[plain]),
        "hindsight": (lucky, ours[lucky]),
        "hindsight_rule": (lucky_plain, rules[lucky_plain]),
        "trend": (PUBLISHED[case.published], shown.replay(PUBLISHED[case.published])),
        "vanilla": (VANILLA, shown.replay(VANILLA)),
    }
    names = {
        "ours": "ours, chosen before",
        "rule": "best rule without forecast, chosen before",
        "hindsight": "ours, best in hindsight",
        "hindsight_rule": "best rule without forecast, in hindsight",
        "trend": "the published rule with our forecast",
        "vanilla": "vanilla DRS",
    }
    found: dict[str, float] = {
        "utilisation_before": rules[plain].utilisation_before,
        "perfect/nodes_off": float(bound[-1]),
    }
    lines: list[list[object]] = []
    for key, (rule, of) in rows.items():
        found |= {f"{key}/{figure}" if key != "ours" else figure: v for figure, v in figures_of(of).items()}
        off, wakes, each = round(of.nodes_off, 1), round(of.wakes_per_day, 2), round(of.nodes_per_wake, 1)
        share = f"{100 * of.utilisation_after:.1f} %"
        lines.append([names[key], str(off), wakes, each, share, round(of.saved_kwh), said(rule)])
    lines.append(["perfect foresight", f"{bound[-1]:.1f}", grants, "", "", "", ""])
    found["off_over_best_rule"] = rows["ours"][1].nodes_off - rows["rule"][1].nodes_off
    found["hindsight/off_over_best_rule"] = rows["hindsight"][1].nodes_off - rows["hindsight_rule"][1].nodes_off
    found["off_over_perfect"] = rows["ours"][1].nodes_off / float(bound[-1])
    found["hindsight/off_over_perfect"] = rows["hindsight"][1].nodes_off / float(bound[-1])
    found["refit_s"] = shown.fit_s
    table(
        f"{name}: {case.days} days from {case.first[:10]}, {found['utilisation_before']:.1%} of nodes run, "
        f"at most {grants:g} wake-ups a day",
        ["rule", "nodes off", "wake-ups a day", "nodes each", "of awake run", "kWh saved", "settings"],
        lines,
    )
    return found | {f"forecast/{key}": of for key, of in forecasting(name, series, first, slots, shown).items()}


def said(rule: CountRule) -> str:
    """Return the settings of a rule, short."""
    return ", ".join(f"{key} {value:g}" for key, value in vars(rule).items())


def forecasting(name: str, series: NodeSeries, first: int, slots: int, shown: Stretch) -> dict[str, float]:
    """Compare forecasts one and three hours ahead, over the moments of which both ends were counted."""
    at = np.arange(first, first + slots)
    ahead = list(HOURS.values())
    tail = series.of(0, min(first + slots + max(ahead), len(series)))
    forecasts = shown.model.forecasts(tail, first)
    means = np.array([one.means for one in forecasts]).T[[HORIZONS.index(of) for of in ahead]]
    said: dict[str, Floats] = {"trees": means}
    for peer, foretell in PEERS.items():
        if (of := foretell(tail, first, ahead)) is not None:
            said[peer] = of
        else:
            print(f"{peer}: left out, as it is not installed")
    found, lines = dict[str, float](), list[list[object]]()
    for peer, values in said.items():
        line: list[object] = [peer]
        for row, (hours, of) in enumerate(HOURS.items()):
            ends = at[at + of < len(tail)]
            ends = ends[tail.known[ends] & tail.known[ends + of]]
            error = smape(values[row][ends - first], tail.filled[ends + of])
            found[f"{peer}/smape_{hours}" if peer != "trees" else f"smape_{hours}"] = error
            line.append(round(error, 3))
        lines.append(line)
    for hours in HOURS:
        for peer in ("persistence", "yesterday"):
            found[f"smape_{hours}_over_{peer}"] = found[f"smape_{hours}"] / found[f"{peer}/smape_{hours}"]
    table(f"{name}: SMAPE of running nodes, %", ["forecast", "1 h ahead", "3 h ahead"], lines)
    return found


def advise_ms(model: NodeDemand, pools: int = 15, nodes: int = 9, days: int = 9) -> Floats:
    """Return how long each piece of advice took, for a cluster of pools, with checks and jobs that wait."""
    rng, service = np.random.default_rng(0), Energy(EnergyOptions(wakes_per_day=2))
    service.take(model)
    kinds = [NodeKind(f"vc{i}", "v100") for i in range(pools)]
    all_nodes = [Node(f"{kind.pool}-{i}", "v100", 8, pool=kind.pool) for kind in kinds for i in range(nodes)]
    spec = JobSpec.model_validate(
        {"name": "j", "script": "t.py", "training": {"adaptivity": "rigid"}, "resources": {"gpus": 16}}
    )
    took = []
    for slot in range(days * 144):
        now = SLOT_S * slot + 60
        busy = rng.integers(2, nodes, pools)
        counts = dict(zip(kinds, busy.tolist(), strict=True))
        service.observe(NodeCounts(now, counts, dict.fromkeys(kinds, nodes)))
        if slot < 2 * 144:
            continue
        off = {node.id for node in all_nodes if rng.random() < 0.2}
        jobs, placements = [], {}
        for kind, count in counts.items():
            held = [node for node in all_nodes if node.pool == kind.pool and node.id not in off][:count]
            for node in held:
                placement = Placement("v100", (NodeShare(node.id, 8),))
                jobs.append(JobView(node.id, spec.model_copy(update={"pool": kind.pool}), placement=placement))
                placements[node.id] = placement
        for i in range(20):
            jobs.append(JobView(f"w{i}", spec.model_copy(update={"pool": f"vc{i % 4}"})))
        waits = {f"w{i}": Waiting(WaitReason.NO_ROOM, "…") for i in range(20)}
        awake = Cluster(tuple(node for node in all_nodes if node.id not in off))
        round = Round(now, 60.0, awake, jobs, tuple(node for node in all_nodes if node.id in off))
        plan = Plan(placements, decisions=waits)
        began = time.perf_counter()
        service.advise(now, round, plan)
        took.append(1000 * (time.perf_counter() - began))
    return np.array(took)


def by_job(policy: str) -> dict[str, float]:
    """Replay Venus' jobs with sleeping nodes, print a table, and return its figures."""
    workload, nodes = venus()
    without = run(workload, nodes, policy)
    ran = {name: run(workload, nodes, policy, options) for name, options in WAYS.items()}
    rows = [line("all nodes on", without, without), *(line(name, of, without) for name, of in ran.items())]
    columns = ["nodes off", "wake-ups a day", "nodes each", "kWh saved", "jobs that waited", "mean JCT, s", "rise"]
    table(f"Venus, September 2020, {len(workload)} jobs under {policy}", ["nodes sleep", *columns], rows)
    ours, vanilla = ran["energy"], ran["vanilla DRS"]
    assert ours.power is not None
    assert vanilla.power is not None
    rise = ours.outcome.jct_s.mean() / without.outcome.jct_s.mean() - 1
    return {
        "nodes_off": ours.power.nodes_off,
        "wakes_per_day": ours.power.wakes_per_day,
        "nodes_per_wake": ours.power.nodes_per_wake,
        "kwh_saved": ours.power.saved_kwh,
        "affected_share": ours.affected,
        "mean_jct_rise": float(rise),
        "vanilla/nodes_off": vanilla.power.nodes_off,
        "vanilla/wakes_per_day": vanilla.power.wakes_per_day,
        "vanilla/affected_share": vanilla.affected,
        "affected_over_vanilla": ours.affected / vanilla.affected,
        "wakes_over_vanilla": ours.power.wakes_per_day / vanilla.power.wakes_per_day,
        "advise_p99_ms": ours.advise_p99_ms,
    }


def prices() -> dict[str, float]:
    """Run Sia's first traces under several prices of a GPU, print the curve, and return its figures."""
    found = price_curve(PRICES, [shipped(folder)[0] for folder in ("philly", "saturn", "newtrace")])
    free = found[0]
    rows = [
        [of.price, f"{of.nodes_off:.2f}", f"{of.kwh_saved:.0f}", f"{of.mean_jct_h:.3f}",
         f"{of.mean_jct_h / free.mean_jct_h - 1:.1%}"]
        for of in found
    ]  # fmt: skip
    columns = ["gpu_price", "nodes off of 11", "kWh saved", "mean JCT, h", "rise"]
    table("Sia's first traces under sia: nodes that sleep, against JCT", columns, rows)
    figures = {}
    for of in found:
        figures[f"price_{of.price:g}/nodes_off"] = of.nodes_off
        figures[f"price_{of.price:g}/mean_jct_h"] = of.mean_jct_h
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=some_of(tuple(CASES)), default=list(CASES), help="comma-separated")
    parser.add_argument("--no-prices", action="store_true", help="leave out the curve of gpu_price")
    parser.add_argument("--policy", default="qssf", help="of the jobs; none: leave them out")
    arguments = parser.parse_args()
    found: dict[str, float] = {"kwh_table_2_5": saved_kwh_per_year(sum(TABLE_2_5.values()))}
    for name in arguments.series:
        of = saving(name, CASES[name])
        for key, value in of.items():
            part, _, rest = key.partition("/")
            found[f"forecast/{name}/{rest}" if part == "forecast" else f"{name}/{key}"] = value
    first = CASES[arguments.series[0]]
    series = first.read()
    model = fit([series], seconds(first.first))
    assert model is not None
    took = advise_ms(model)
    found |= {"advise_p50_ms": float(np.median(took)), "advise_p99_ms": float(np.quantile(took, 0.99))}
    p50, p99 = found["advise_p50_ms"], found["advise_p99_ms"]
    print(f"advice for 15 pools of 9 nodes at checks, with 20 jobs that wait: {p50:.1f} ms, p99 {p99:.1f} ms")
    if arguments.policy != "none":
        found |= {f"venus/{key}": value for key, value in by_job(arguments.policy).items()}
    if not arguments.no_prices:
        found |= {f"sia/{key}": value for key, value in prices().items()}
    finish("energy_saving", {key: round(value, 4) for key, value in found.items()})


if __name__ == "__main__":
    main()
