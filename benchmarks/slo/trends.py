"""What the paper says of how UniSched behaves as one thing changes: the runs that show it, and the statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from coadapt.policies.leases.options import VARIANTS
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.lengths import Lengths
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.deadlines import deadline_figures
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.curves import CurveRule, with_curves
from coadapt.simulator.traces.deadlines import with_deadlines

from ..learning_curve_data import known_curves
from .mixes import PHILLY, RULES, mix_of, venus
from .runs import POLICIES, ROUND_S
from .statements import DEADLINE_PEERS, Statement, over

PUBLISHED: Mapping[str, Any] = {"published": True, "time_limit_s": 0.3}
DENSITIES = (0.8, 1.0, 1.2, 1.4, 1.6)
LEASES_MIN = (5, 10, 20, 30, 60)
AWKWARD = (0.0, 0.25, 0.5, 0.75)
NOISES = (0.0, 0.15, 0.3, 0.45, 0.6)
COSTS = (1.0, 4.0, 10.0)
STRETCH = {"h_mix1": (0.0, 30.0), "h_mix2": (0.0, 30.0), "p_mix1": (4.0, 6.2)}  # days; at least 4,000 jobs each


@dataclass(frozen=True)
class Setting:
    """One run: a policy with options on a mix, and what is changed of jobs and conditions.

    rule: values of the rule by which jobs have deadlines, for jobs of Venus. under: of `Conditions`.
    apart: whether each job has a script of its own, so that each is measured.
    metric: the part of jobs that a metric ends, by measured learning curves.
    """

    trend: str
    label: str
    mix: str = "h_mix2"
    policy: str = "unisched"
    options: Mapping[str, Any] = field(default_factory=lambda: PUBLISHED)
    rule: Mapping[str, float] = field(default_factory=dict)
    under: Mapping[str, Any] = field(default_factory=dict)
    apart: bool = False
    metric: float = 0.0

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def name(self) -> str:
        return f"{self.trend}-{self.label}.json"


def settings() -> list[Setting]:
    """Return all runs, by trend."""
    found = [
        Setting("density", f"{density:g}-{policy}", policy=POLICIES[policy][0], options=POLICIES[policy][1],
                rule={"density": density})
        for density in DENSITIES for policy in ("published", *DEADLINE_PEERS, "themis", "optimus")
    ]  # fmt: skip
    found += [
        Setting("lease", f"{minutes}", options={**PUBLISHED, "deadline_lease_s": 60.0 * minutes})
        for minutes in LEASES_MIN
    ]
    found += [
        Setting("objective", which, options={**PUBLISHED, "objective": which}) for which in ("reward", "feasible")
    ]
    apart = {**PUBLISHED, "placement": "consolidation", "returned": False}
    found += [
        Setting("placement", f"{share:g}-{which}", options=options, rule={"awkward": share})
        for share in AWKWARD
        for which, options in (("joint", PUBLISHED), ("consolidation", apart))
    ]
    found += [Setting("noise", f"{noise:g}", under={"length_noise": noise}) for noise in NOISES]
    found += [
        Setting("costs", f"{cost:g}-{'aware' if aware else 'blind'}", options={**PUBLISHED, "sr_aware": aware},
                under={"restart_scale": cost})
        for cost in COSTS for aware in (True, False)
    ]  # fmt: skip
    found += [
        Setting("stopping", which, options={**PUBLISHED, "iter_estimator": which}, metric=0.2)
        for which in ("on", "max_iter")
    ]
    measured = {"lengths": Lengths.MEASURED}
    found += [
        Setting("measuring", which, "p_mix1", options={**PUBLISHED, "profiler": which}, under=measured, apart=True)
        for which in ("unified", "static")
    ]
    found += [
        Setting(
            "chronus",
            f"{mix}-{variant}",
            mix,
            options=_of_variant(variant),
            under=measured,
            apart=True,
            metric=0.2,
        )
        for mix in ("h_mix1", "p_mix1")
        for variant in VARIANTS
    ]
    return found


def _of_variant(variant: str) -> Mapping[str, Any]:
    return PUBLISHED if variant == "unisched" else {"variant": variant, "time_limit_s": PUBLISHED["time_limit_s"]}


def simulated(setting: Setting) -> dict[str, float]:
    """Return the figures of a run."""
    mix, days = mix_of(setting.mix, STRETCH[setting.mix], 0), STRETCH[setting.mix]
    jobs = mix.jobs
    if setting.rule and setting.mix not in PHILLY:
        jobs = with_deadlines(venus(days), replace(RULES[setting.mix], **setting.rule), 0)
    if setting.metric:
        jobs = with_curves(jobs, known_curves(), CurveRule(setting.metric), 0)
    if setting.apart:
        jobs = replace(jobs, users=jobs.ids)
    nodes, under = read_cluster(mix.nodes), Conditions(Timing(ROUND_S), node_speeds=mix.speeds, **setting.under)
    source = source_of(False, None, nodes)
    outcome = simulation(jobs, nodes, setting.policy, setting.options, source, under).run()
    return deadline_figures(outcome) | {
        "jobs": float(len(jobs)),
        "load": replace(mix, jobs=jobs).load,
        "policy_p99_s": float(np.quantile(outcome.policy_s, 0.99)),
    }


Found = Mapping[str, Mapping[str, float]]  # by name of a setting, without its suffix


def statements(found: Found) -> list[Statement]:
    """Return all statements of which both sides were run."""
    every = (_density, _lease, _objective, _placement, _noise, _costs, _stopping, _measuring, _chronus)
    return [one for how in every for one in how(found)]


def _less(
    found: Found, row: str, what: str, own: str, other: str, figure: str = "miss_rate", aim: float = 1.0
) -> Iterator[Statement]:
    """Yield that a figure of a run is at most a part of that of another one, if both are there."""
    if own in found and other in found:
        value = over(found[own][figure], found[other][figure])
        yield Statement(row, own.partition("-")[0], what, "", aim, value)


def _density(found: Found) -> Iterator[Statement]:
    for d in DENSITIES:
        own = f"density-{d:g}-published"
        for peer in (*DEADLINE_PEERS, "themis", "optimus"):
            yield from _less(found, "6c", f"{d:.0%}: misses over {peer}", own, f"density-{d:g}-{peer}")
    most, least = (f"density-{d:g}-published" for d in (DENSITIES[-1], DENSITIES[0]))
    yield from _less(found, "6c", "misses at 80 % over those at 160 %", least, most)
    yield from _less(found, "6d", "160 %: best-effort JCT over genie", most, "density-1.6-genie", "be_jct_h")
    yield from _less(
        found, "6d", "80 %: optimus' best-effort JCT over ours", "density-0.8-optimus", least, "be_jct_h"
    )


def _lease(found: Found) -> Iterator[Statement]:
    for other in (5, 60):
        yield from _less(found, "10a", f"misses at 10 min over {other} min", "lease-10", f"lease-{other}")
    yield from _less(found, "10a", "best-effort JCT at 10 min over 60 min", "lease-10", "lease-60", "be_jct_h")
    for other in (20, 30):  # nearly flat
        yield from _less(found, "10a", f"misses at {other} min over 10 min", f"lease-{other}", "lease-10", aim=1.5)


def _objective(found: Found) -> Iterator[Statement]:
    yield from _less(found, "10b", "misses over any feasible plan", "objective-reward", "objective-feasible")
    what = "best-effort JCT over any feasible plan"
    yield from _less(found, "10c", what, "objective-reward", "objective-feasible", "be_jct_h", 1.1)


def _placement(found: Found) -> Iterator[Statement]:
    gaps = []
    for share in AWKWARD:
        joint, apart = (f"placement-{share:g}-{which}" for which in ("joint", "consolidation"))
        for figure, what in (("miss_rate", "misses"), ("be_jct_h", "best-effort JCT")):
            yield from _less(found, "11", f"{share:.0%} awkward: {what} over consolidation", joint, apart, figure)
        if joint in found and apart in found:
            gaps.append(found[apart]["miss_rate"] - found[joint]["miss_rate"])
    if len(gaps) == len(AWKWARD):
        yield Statement("11", "placement", "gap at the least share less the largest", "", 0.0, gaps[0] - gaps[-1])


def _noise(found: Found) -> Iterator[Statement]:
    missed = {noise: found[f"noise-{noise:g}"]["miss_rate"] for noise in NOISES if f"noise-{noise:g}" in found}
    if len(missed) == len(NOISES):
        yield Statement("9d", "noise", "points that 30 % of noise adds", "", 0.01, missed[0.3] - missed[0.0])
        grows = (missed[0.3] - missed[0.0]) - (missed[0.6] - missed[0.3])
        yield Statement("9d", "noise", "what the first 30 % add less what the next do", "", 0.0, grows)


def _costs(found: Found) -> Iterator[Statement]:
    gaps = []
    for cost in COSTS:
        aware, blind = (f"costs-{cost:g}-{which}" for which in ("aware", "blind"))
        yield from _less(found, "9c", f"restarts x {cost:g}: misses over not aware", aware, blind)
        if aware in found and blind in found:
            gaps.append(found[blind]["miss_rate"] - found[aware]["miss_rate"])
    if len(gaps) == len(COSTS):
        yield Statement("9c", "costs", "gap at the least cost less the largest", "", 0.0, gaps[0] - gaps[-1])


def _stopping(found: Found) -> Iterator[Statement]:
    what = "misses over planning with all of the training"
    yield from _less(found, "9b", what, "stopping-on", "stopping-max_iter")


def _measuring(found: Found) -> Iterator[Statement]:
    own, static = "measuring-unified", "measuring-static"
    yield from _less(found, "9a", "longest wait over static nodes", own, static, "measuring_wait_max_s", 0.4)
    yield from _less(found, "9a", "misses over static nodes", own, static)
    if own in found:
        value = over(found[own]["suspensions_be"], found[own]["suspensions_deadline"])
        yield Statement("8", "measuring", "stops of best effort over those with a deadline", "", 1.0, value)


def _chronus(found: Found) -> Iterator[Statement]:
    for mix in ("h_mix1", "p_mix1"):
        whole, chronus = f"chronus-{mix}-unisched", f"chronus-{mix}-chronus"
        for half in ("estimator", "selector"):
            own = f"chronus-{mix}-chronus+{half}"
            yield from _less(found, "12a", f"{mix}: misses with its {half} over CHRONUS", own, chronus)
            yield from _less(found, "12a", f"{mix}: misses of both over its {half} alone", whole, own)
        selector = f"chronus-{mix}-chronus+selector"
        what = f"{mix}: best-effort JCT with its selector over CHRONUS"
        yield from _less(found, "12b", what, selector, chronus, "be_jct_h")


def told_at_half() -> dict[str, float]:
    """Return the relative errors of the lengths that are told at half of training, for the jobs of Helios.

    Jobs end as if none had waited.
    """
    jobs = with_curves(venus(STRETCH["h_mix2"]), known_curves(), CurveRule(), 0)
    told = FixedLengthWorld(jobs).told
    ends_s, half_s = jobs.submit_s + jobs.duration_s, jobs.duration_s / 2
    errors = np.zeros(len(jobs))
    for job in np.argsort(jobs.submit_s + half_s, kind="stable").tolist():
        now = float(jobs.submit_s[job] + half_s[job])
        told.learn(now, np.where(ends_s <= now, ends_s, np.nan), np.zeros(len(jobs)))
        left_s = told.expected(job, float(half_s[job])).mean_s
        errors[job] = abs(left_s - half_s[job]) / jobs.duration_s[job]
    by_metric = np.array([curve is not None for curve in jobs.curves])
    return {
        "duration_rel_err_mid": float(errors.mean()),
        "duration_rel_err_mid_metric": float(errors[by_metric].mean()),
    }
