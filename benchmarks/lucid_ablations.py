"""What each part of Lucid is worth: Venus, September 2020, published semantics, one part changed at a time.

    python -m benchmarks.lucid_ablations [--only NAME …] [--processes 2]

The run beside which all others stand is that of `lucid_replay`. Each tells JCT and queue beside what the thesis
says (figure 4.10 and text), which need not hold.
* no binder: any pair that fits in memory, at any time. any pair that fits: other rules of pairs stay.
* no estimator: all jobs are expected to take as long, so jobs go by GPUs. lgb: estimates of published trees.
* refit …: estimates that our service learns from what has ended, fitted anew so often; jobs end as under `sjf`.
  monotone GPUs: its sums, by which more GPUs never shorten a job.
* space_aware_ratio: the profiler's mean queue by arrival over that by least GPUs, at T_prof 500 s without scaling.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import numpy as np
from coadapt.estimators.affinity.labels import Thresholds, labels
from coadapt.policies.lucid import LucidOptions, OnFailure
from coadapt.policies.packing.binder import ModeOptions, Packing, Partner
from coadapt.policies.packing.models import PackingModels
from coadapt.policies.packing.profiler import ProfilingOrder
from coadapt.scheduler.services.durations import DurationOptions, Durations
from coadapt.scheduler.services.host import FitAtOnce, ServiceHost
from coadapt.simulator.compat.lucid_packed import Replayed, profiled, replayed

from .duration_estimator import Schedules
from .harness import finish, needs, table
from .lucid_data import FILES, Lucid, venus
from .lucid_replay import PROFILER, PUBLISHED

NO_SCALING_T_PROF_S = 500.0
THRESHOLDS = tuple((medium, tiny) for medium in (0.75, 0.80, 0.85) for tiny in (0.90, 0.95, 0.97))


LEARNED: Mapping[str, Mapping[str, object]] = {
    "refit daily": {"refit_h": 24.0},
    "refit weekly": {"refit_h": 168.0},
    "never refit": {"refit_h": 1e6},
    "sums, refit weekly": {"refit_h": 168.0, "model": "additive"},
    "sums, monotone GPUs": {
        "refit_h": 168.0,
        "model": "additive",
        "corrections": ({"monotone": "gpus", "direction": "increasing", "pairs": "drop"},),
    },
}


@dataclass(frozen=True)
class Case:
    """One run. score: Sharing Scores by kind; None: the stored ones.

    estimates: published ones, `same`, `exact`, or those of `LEARNED`.
    """

    options: LucidOptions = PUBLISHED
    t_prof_s: float = 200.0
    score: Callable[[Lucid], Callable[[str], int]] | None = None
    estimates: str = "ebm"
    thesis: str = ""


def _with(**options: object) -> LucidOptions:
    return PUBLISHED.model_copy(update=options)


def fits(data: Lucid) -> Callable[[str], int]:
    """Return scores that forbid no pair."""
    return lambda kind: 0


def by_rule(thresholds: tuple[float, float], data: Lucid) -> Callable[[str], int]:
    """Return the scores of the rule, by the mean speed of a kind; a kind without measured pairs keeps its own."""
    speeds: dict[str, list[float]] = {}
    for (kind, _), speed in data.pairs.items():
        speeds.setdefault(kind, []).append(speed)
    found = dict(data.labels)
    for kind, every in speeds.items():
        found[kind] = int(labels(np.array([np.mean(every)]), Thresholds(*thresholds))[0])
    return found.__getitem__


CASES: Mapping[str, Case] = {
    "lucid": Case(),
    "no binder": Case(
        _with(packing=Packing.DEFAULT, least_left=0.0), score=fits, thesis="queue 1.4 x"
    ),
    "any pair that fits": Case(score=fits),
    "no sharing": Case(_with(packing=Packing.OFF), thesis="queue < half of qssf's"),
    "no sharing, jobs overtake": Case(_with(packing=Packing.OFF, on_failure=OnFailure.SKIP)),
    "no estimator": Case(estimates="same", thesis="queue 2.2 x"),
    "lgb estimates": Case(estimates="lgb"),
    "exact lengths": Case(estimates="exact"),
    **{name: Case(estimates=name) for name in LEARNED},
    "always sharing": Case(_with(packing=Packing.DEFAULT)),
    "apathetic": Case(_with(packing=Packing.APATHETIC)),
    "default, apathetic or off": Case(_with(modes=ModeOptions())),
    "lightest partner": Case(_with(partner=Partner.LIGHTEST)),
    "no limit of time left": Case(_with(least_left=0.0)),
    **{
        f"T_prof {seconds} s": Case(t_prof_s=float(seconds), thesis=f"JCT {told} s")
        for seconds, told in ((100, "13,087"), (300, "13,160"), (600, "13,270"))
    },
    **{
        f"thresholds {medium:g}, {tiny:g}": Case(score=partial(by_rule, (medium, tiny)), thesis="JCT within 3.6 %")
        for medium, tiny in THRESHOLDS
    },
}  # fmt: skip


def learned(name: str) -> np.ndarray:
    """Return (jobs,) lengths as the service durations foretold them when jobs were submitted, s."""
    jobs = Schedules().ended()
    service = Durations(DurationOptions.model_validate(LEARNED[name]))
    host = ServiceHost({"durations": service}, FitAtOnce())
    for one in jobs:
        host.submitted(one.job)
        host.ended(one)
    told = host.advance(1e12)
    return np.array([told[id].mean_s for id in venus().workload.ids])


def run(name: str) -> Replayed:
    """Run a case on the whole cluster."""
    data, case = venus(), CASES[name]
    models: PackingModels = data.models(None if case.score is None else case.score(data))
    assert models.ahead is not None
    profiler = PROFILER.model_copy(update={"t_prof_s": case.t_prof_s, "burst_s": case.t_prof_s})
    passed = profiled(data.workload, profiler, models.ahead)
    length_s = data.workload.duration_s
    estimates_s = {"same": np.full(len(length_s), float(length_s.mean())), "exact": length_s, **data.estimates_s}
    if case.estimates in LEARNED:
        estimates_s[case.estimates] = learned(case.estimates)
    return replayed(
        data.workload, data.nodes, passed, case.options, models, estimates_s[case.estimates], data.profiles,
        data.true_pairs(np.inf),
    )[0]  # fmt: skip


def space_aware() -> dict[str, float]:
    """Return the mean queues of the profiler by both orders, and their ratio."""
    data, queues = venus(), dict[ProfilingOrder, float]()
    ahead = data.models().ahead
    assert ahead is not None
    for order in ProfilingOrder:
        options = PROFILER.model_copy(
            update={
                "t_prof_s": NO_SCALING_T_PROF_S,
                "burst_s": NO_SCALING_T_PROF_S,
                "most_borrowed": 0,
                "order": order,
            }
        )
        passed = profiled(data.workload, options, ahead)
        queues[order] = float(passed.queue_s[passed.measured].mean())
    return {
        "profiling_queue_space_s": queues[ProfilingOrder.SPACE],
        "profiling_queue_arrival_s": queues[ProfilingOrder.ARRIVAL],
        "space_aware_ratio": queues[ProfilingOrder.ARRIVAL] / queues[ProfilingOrder.SPACE],
    }


def key_of(name: str) -> str:
    """Return the name of a case in figures."""
    return name.replace(", ", "_").replace(" ", "_")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), metavar="NAME", help="cases; by default all")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    needs(*FILES)
    names = list(dict.fromkeys(["lucid", *(options.only or CASES)]))
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        runs = dict(zip(names, pool.map(run, names), strict=True))
    base = runs["lucid"]
    base_jct_s, base_queue_s = float(base.jct_s.mean()), float(base.queue_s.mean())
    figures, rows = space_aware(), list[list[object]]()
    for name, ran in runs.items():
        jct_s, queue_s = float(ran.jct_s.mean()), float(ran.queue_s.mean())
        p99_9_s = float(np.percentile(ran.queue_s, 99.9))
        over = jct_s / base_jct_s, queue_s / base_queue_s
        rows.append(
            [name, f"{jct_s:.0f}", over[0], f"{queue_s:.0f}", over[1], f"{p99_9_s:.0f}", CASES[name].thesis]
        )
        figures |= {f"{key_of(name)}/jct_ratio": over[0], f"{key_of(name)}/queue_ratio": over[1]}
    figures |= {"lucid/mean_jct_s": base_jct_s, "lucid/mean_queue_s": base_queue_s}
    swept = [figures[f"{key_of(name)}/jct_ratio"] for name in runs if name.startswith("thresholds")]
    if swept:
        figures["thresholds/jct_spread"] = max(swept) / min(swept) - 1
    head = ["", "mean JCT (s)", "over lucid", "mean queue (s)", "over lucid", "P99.9 queue (s)", "thesis"]
    table("Venus, published semantics", head, rows)
    finish("lucid_ablations", figures)


if __name__ == "__main__":
    main()
