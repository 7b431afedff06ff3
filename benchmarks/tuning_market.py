"""Studies on a shared cluster of two GPU types, under the house's policy, blind to types, and by Hydro's rules.

    python -m benchmarks.tuning_market [--seeds 3] [--policy coadapt] [--only hetero others]

Two nodes of eight A100 and two of eight V100, and 20 studies by ASHA that arrive within an hour, as in section
3.6.5 of Hydro's thesis. Each is drawn from the middle-size rows of its Table 3.3: their trials, and the arithmetic
of their model over ResNet-18's. As in the thesis the best trial is promoted straight to full width. Step times and
memory are those of `simulator/studies/fusion_profile.py`, measured on an A100. Those on a V100 are stated factors
of them, `SPEEDS` in `simulator/studies/market.py`.

* hetero: the studies alone. Blind means that the policy is told of a V100 what holds for an A100. The thesis'
  rules are those of `simulator/studies/thesis_rules.py`. Jobs, arrivals and results of trials are the same.
* others: beside other people's jobs. Their sizes and lengths are drawn from Helios' Venus of September
  2020, those of 1, 2, 4 or 8 GPUs and of 5 minutes to 2 hours. They arrive within two hours, and a part of each
  waits for the host. Then the same beside the same studies with trials that run apart at full width.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.policies.catalogue import make_policy, policy_names
from coadapt.policies.contract.round import Planner
from coadapt.simulator.studies.market import SPEEDS, Market, MarketOutcome, MarketStudy, OtherJob
from coadapt.simulator.studies.response import Response
from coadapt.simulator.studies.thesis_rules import ThesisRules
from coadapt.simulator.traces.readers import read_trace

from .arguments import at_least
from .harness import DATA, finish, needs, table
from .tuning_simulated import ASHA, study_of

VENUS = DATA / "helios" / "venus_sept2020_gpu_jobs.csv.gz"
CLUSTER = Cluster(tuple(Node(f"{t}-{i}", t, 8) for t in SPEEDS for i in range(2)))
HOUR_S = 3600.0
OTHERS_S = (300.0, 7200.0)  # lengths of other people's jobs


@dataclass(frozen=True)
class StudyKind:
    """A middle-size row of Table 3.3. `scale`: arithmetic of a step of its model, over ResNet-18's."""

    name: str
    trials: int
    scale: float


# Multiply-accumulates of a sample, of 141 million: VGG-11 has 153, MobileNetV3-L at 224 x 224 has 219.
# A Transformer on WikiText-103 counts as twice ResNet-18.
KINDS = (
    StudyKind("resnet18", 1000, 1.0),
    StudyKind("vgg11", 500, 1.1),
    StudyKind("mobilenet", 500, 1.55),
    StudyKind("transformer", 200, 2.0),
)


def studies(count: int, seed: int, fused: bool = True) -> list[MarketStudy]:
    """Return studies that arrive within an hour."""
    rng = np.random.default_rng([seed, 61])
    arrivals = np.sort(rng.uniform(0.0, HOUR_S, count))
    apart = {} if fused else {"fuse": False, "shrink": 1, "widths": None}
    found = []
    for i, (arrives_s, kind) in enumerate(zip(arrivals, rng.integers(len(KINDS), size=count), strict=True)):
        one = KINDS[kind]
        study = study_of(one.trials, 1000 * seed + i, name=f"{one.name}-{i}", algorithm=ASHA, **apart)
        found.append(MarketStudy(study, float(arrives_s), Response(1000 * seed + i), one.scale))
    return found


def other_jobs(count: int, seed: int) -> list[OtherJob]:
    """Return other people's jobs, which arrive within two hours."""
    trace = read_trace(VENUS)
    may = np.isin(trace.gpus, [1, 2, 4, 8]) & (trace.duration_s >= OTHERS_S[0]) & (trace.duration_s <= OTHERS_S[1])
    gpus, length_s = trace.gpus[may], trace.duration_s[may]
    rng = np.random.default_rng([seed, 62])
    arrivals = np.sort(rng.uniform(0.0, 2 * HOUR_S, count))
    host = rng.uniform(0.0, 1.0, count)  # part of a step on an A100 that waits for the host
    drawn = rng.integers(len(gpus), size=count)
    return [
        OtherJob(
            f"other-{i}",
            float(arrivals[i]),
            int(gpus[job]),
            float(length_s[job]),
            1 / SPEEDS["v100"].epoch_s(1.0, float(host[i])),
        )
        for i, job in enumerate(drawn.tolist())
    ]


Make = Callable[[], Planner]


@dataclass(frozen=True)
class Way:
    """How a run differs from others of the same jobs. `fused`: studies as they are, else with trials apart."""

    name: str
    policy: Make
    blind: bool = False
    fused: bool = True
    others: bool = False


def play(way: Way, seed: int, count: int, others: int) -> MarketOutcome:
    """Return what becomes of the jobs of a seed. With trials apart the run ends with other people's jobs."""
    beside = other_jobs(others, seed) if way.others else ()
    market = Market(CLUSTER, way.policy(), studies(count, seed, way.fused), beside, blind=way.blind)
    return market.run(studies=way.fused)


def of_studies(outcome: MarketOutcome) -> float:
    return float(np.mean(list(outcome.studies_jct_s.values())))


def of_others(outcome: MarketOutcome) -> float:
    return float(np.mean(list(outcome.others_jct_s.values())))


OURS, BLIND, RULES = "ours", "blind", "thesis' rules"
BESIDE, APART = "beside others", "beside others, trials apart"
KEYS = {OURS: "ours", BLIND: "blind", RULES: "thesis", BESIDE: "beside", APART: "apart"}
# Figure -> the run above, the run below, and whose mean JCT it is of.
RATIOS: dict[str, tuple[str, str, Callable[[MarketOutcome], float]]] = {
    "hetero/jct_ratio": (BLIND, OURS, of_studies),
    "hetero/jct_ratio_thesis": (RULES, OURS, of_studies),
    "others_jct_ratio": (BESIDE, APART, of_others),
}


def row_of(name: str, of: Sequence[MarketOutcome]) -> list[object]:
    """Return a row of means over seeds."""
    whole = name != APART
    return [
        name,
        f"{np.mean([of_studies(one) for one in of]):.0f}" if whole else "",
        f"{np.mean([one.makespan_s for one in of]):.0f}" if whole else "",
        float(np.mean([one.studies_gpu_s for one in of])) / HOUR_S,
        f"{100 * np.mean([one.light_on('v100') for one in of]):.0f}",
        f"{100 * np.mean([full_on(one) for one in of]):.0f}",
        f"{np.mean([of_others(one) for one in of]):.0f}" if of[0].others_jct_s else "",
        float(np.mean([one.others_gpu_s for one in of])) / HOUR_S,
    ]


def full_on(outcome: MarketOutcome, gpu_type: str = "v100") -> float:
    """Return the share of the GPU-seconds of groups that fill an A100 on a GPU type."""
    return outcome.full_gpu_s.get(gpu_type, 0.0) / (sum(outcome.full_gpu_s.values()) or 1.0)


def figures_of(runs: Mapping[str, Sequence[MarketOutcome]]) -> dict[str, float]:
    """Return the figures: means over seeds, and the worst seed of each ratio."""
    ratios = {}
    for name, (over, under, jct) in RATIOS.items():
        if over in runs and under in runs:
            ratios[name] = [jct(a) / jct(b) for a, b in zip(runs[over], runs[under], strict=True)]
    found = {name: float(np.mean(several)) for name, several in ratios.items()}
    found |= {
        f"{name}_worst": max(several) if name.startswith("others") else min(several)
        for name, several in ratios.items()
    }
    for name, of in runs.items():
        key = KEYS[name]
        if name != APART:
            found[f"{key}/jct_s"] = float(np.mean([of_studies(one) for one in of]))
            found[f"{key}/makespan_s"] = float(np.mean([one.makespan_s for one in of]))
        found[f"{key}/gpu_h"] = float(np.mean([one.studies_gpu_s for one in of])) / HOUR_S
        found[f"{key}/light_on_v100"] = float(np.mean([one.light_on("v100") for one in of]))
        if of[0].others_jct_s:
            found[f"{key}/others_jct_s"] = float(np.mean([of_others(one) for one in of]))
            found[f"{key}/others_gpu_h"] = float(np.mean([one.others_gpu_s for one in of])) / HOUR_S
    return {name: round(value, 3) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=at_least(1), default=3)
    parser.add_argument("--studies", type=at_least(1), default=20)
    parser.add_argument("--others", type=at_least(1), default=30)
    parser.add_argument("--policy", default="coadapt", choices=policy_names())
    parser.add_argument("--only", nargs="+", default=["hetero", "others"], choices=("hetero", "others"))
    options = parser.parse_args()
    needs(VENUS)

    def ours() -> Planner:
        return make_policy(options.policy)

    ways = {
        "hetero": (Way(OURS, ours), Way(BLIND, ours, blind=True), Way(RULES, ThesisRules)),
        "others": (Way(BESIDE, ours, others=True), Way(APART, ours, fused=False, others=True)),
    }
    runs: dict[str, list[MarketOutcome]] = {}
    for seed in range(options.seeds):
        for way in (way for part in options.only for way in ways[part]):
            runs.setdefault(way.name, []).append(play(way, seed, options.studies, options.others))
            print(f"seed {seed}, {way.name}: {figures_of({way.name: runs[way.name][-1:]})}", flush=True)
    figures = figures_of(runs)
    columns = ["", "JCT of studies, s", "makespan, s", "GPU-h", "light on V100, %", "full on V100, %"]
    columns += ["JCT of others, s", "their GPU-h"]
    title = f"{options.studies} studies on 16 A100 and 16 V100 by {options.policy}, mean of {options.seeds} seeds"
    table(title, columns, [row_of(name, several) for name, several in runs.items()])
    rows = [[name, figures[name], figures[f"{name}_worst"]] for name in RATIOS if name in figures]
    table("Ratios of mean JCT", ["", "mean", "worst seed"], rows)
    finish("tuning_market", figures, "virtual time; times on V100 are stated factors of those on an A100")


if __name__ == "__main__":
    main()
