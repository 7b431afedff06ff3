"""What is run for each table and figure of Sia's evaluation, and what the paper says comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coadapt.simulator.compat.sia_artifact import SLOWDOWN
from coadapt.simulator.jobs.applications import MeasuredApplications
from coadapt.simulator.jobs.knowledge import Knows
from coadapt.simulator.sweep_file import Cell

from . import hybrid, paper, workloads
from .grid import HOMOGENEOUS, SIA, Trace, runs_of, shipped
from .paper import Said

MODELS = ("cifar10", "bert", "deepspeech2", "yolov3", "imagenet")
RATES = (10, 20, 30, 40, 50)  # jobs per hour
POWERS = (-1.0, -0.5, -0.1, 0.5, 1.0)
ROUNDS_S = (30, 60, 120, 180, 300)
PERCENTAGES = (0, 25, 50, 75, 100)
WINDOWS_S = (None, 180, 300)
BURST = 100  # jobs of the sharper spike that are submitted within half an hour
MEANING = {
    "mean_jct_h": "mean JCT (h)", "p99_jct_h": "p99 JCT (h)", "makespan_h": "makespan (h)",
    "gpu_hours_per_job": "GPU-hours per job", "mean_contention": "active jobs, mean",
    "max_contention": "active jobs, most", "restarts_per_job": "restarts per job", "worst_rho": "worst ρ",
    "unfair_fraction": "unfair fraction (ρ > 1)", "policy_median_ms": "policy, median (ms)",
    "policy_p95_ms": "policy, p95 (ms)", "mean_queueing_h": "without GPUs, mean (h)",
    "gpt_jct_h": "JCT of the GPT (h)", "gpt_gpu_hours": "GPU-hours of the GPT", "gpt_restarts": "its restarts",
    "gpt_most_gpus": "its GPUs, most", "gpt_a100_fraction": "its time on a100, fraction",
    "gpt_samples_s_busy": "samples/s, busiest third",
    "gpt_samples_s_quiet": "samples/s, quietest third",
    "others_mean_jct_h": "mean JCT of the others (h)",
}  # fmt: skip
NAMES = {"philly": "Philly", "helios": "Helios", "newtrace": "newTrace", "none": "no"}


Make = Callable[[list[workloads.Row], int], list[workloads.Row]]


@dataclass(frozen=True)
class Group:
    """Runs of one policy in one setting over several traces: rows of a table."""

    key: str  # parts with slashes between
    cells: tuple[Cell, ...]
    figures: tuple[str, ...]
    paper: Mapping[str, Said] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)  # of the first trace, by the public simulator

    @property
    def label(self) -> str:
        return ", ".join(NAMES.get(part, part) for part in self.key.split("/"))


@dataclass(frozen=True)
class Claim:
    """`figure` of group `less` is less than that of `more`; or at most by `slack` of it more.

    `said`: the difference in the paper, where its tables do not have both. `than`: of `more`, where it is another
    figure.
    """

    figure: str
    less: str
    more: str
    said: str = ""
    slack: float = 0.0
    than: str = ""


@dataclass(frozen=True)
class Experiment:
    """`alike`: its rows are compared with each other, so that all are of the traces that every one of them has."""

    key: str
    groups: tuple[Group, ...]
    claims: tuple[Claim, ...] = ()
    alike: bool = False


@dataclass(frozen=True)
class Plan:
    """What is to be run. `traces`: of each set, at most. `derived`: where traces that are made up here go."""

    policies: Sequence[str]
    traces: int
    derived: Path

    def of(self, folder: str) -> list[Trace]:
        return shipped(folder)[: self.traces]

    def chosen(self, *names: str) -> list[str]:
        """Return the paper's policies that are asked for, then those asked for that it does not have."""
        return [name for name in names if name in self.policies] + [
            name for name in self.policies if name not in paper.POLICIES
        ]

    def made(self, name: str, traces: Sequence[Trace], make: Make) -> list[Trace]:
        """Make traces from others by `make(rows, number of the trace)`, each once."""
        found = []
        for number, trace in enumerate(traces):
            path = self.derived / name / trace.path.name
            if not path.exists():
                workloads.write_rows(make(workloads.read_rows(trace.path), number), path)
            found.append(Trace(f"{name}/{path.stem}", path))
        return found

    def slowed(self) -> Path:
        """Return the measured profiles at the pace of Sia's simulator."""
        models = {name: SLOWDOWN.get(name, SLOWDOWN["*"]) for name in MODELS}
        to = self.derived / "profiles-slowed"
        return to if to.exists() else workloads.slowed(SIA / "traces", models, to)


def table_3_3(plan: Plan) -> Experiment:
    """Build table 3.3: the mixed cluster of 64 GPUs."""
    groups, claims = [], []
    for name, folder in (("philly", "philly"), ("helios", "saturn"), ("newtrace", "newtrace")):
        for policy in plan.chosen("sia", "pollux", "gavel"):
            groups.append(
                Group(
                    f"{name}/{policy}",
                    runs_of(policy, plan.of(folder)),
                    paper.TABLE_3_3_FIGURES,
                    paper.TABLE_3_3.get((name, policy), {}),
                    paper.PUBLISHED_SIMULATOR.get((name, policy), {}),
                )
            )
        for figure in ("mean_jct_h", "p99_jct_h", "makespan_h", "gpu_hours_per_job"):
            claims += [
                Claim(figure, f"{name}/{less}", f"{name}/{more}")
                for less, more in (("sia", "pollux"), ("pollux", "gavel"), ("sia", "gavel"))
            ]
        claims.append(Claim("restarts_per_job", f"{name}/sia", f"{name}/pollux"))
    return Experiment("table_3_3", tuple(groups), tuple(claims))


def table_3_4(plan: Plan) -> Experiment:
    """Build table 3.4: 16 nodes of T4; jobs of fixed size tuned anew for up to 64 of them."""
    source = MeasuredApplications(SIA / "traces", ("t4",))
    traces = plan.made(
        "philly-tuned-64", plan.of("philly"), lambda rows, n: workloads.tuned(rows, source, "t4", 4, n)
    )
    groups = [
        Group(
            policy,
            runs_of(policy, traces, HOMOGENEOUS),
            (*paper.TABLE_3_4_FIGURES, "restarts_per_job"),
            paper.TABLE_3_4.get(policy, {}),
        )
        for policy in plan.chosen(*paper.TABLE_3_4)
    ]
    claims = []
    for figure in ("mean_jct_h", "p99_jct_h", "makespan_h", "gpu_hours_per_job"):
        # "Sia matches it on all metrics, even outperforming Pollux."
        claims.append(Claim(figure, "sia", "pollux", slack=0.02))
        claims += [Claim(figure, "pollux", fixed) for fixed in ("shockwave", "themis", "gavel")]
        claims += [Claim(figure, "shockwave", "gavel"), Claim(figure, "gavel", "themis")]
    claims.append(Claim("restarts_per_job", "sia", "pollux"))
    return Experiment("table_3_4", tuple(groups), tuple(claims))


def figure_3_1(plan: Plan) -> Experiment:
    """Build figure 3.1: Philly traces, adaptive jobs on one GPU type and on three, rigid jobs on three."""
    rigid = plan.made("philly-rigid", plan.of("philly"), lambda rows, n: workloads.limited(rows, "rigid", 1.0))
    homogeneous = {group.key: group.cells for group in table_3_4(plan).groups}
    policies = plan.chosen("sia", "pollux", "gavel")
    settings = (
        ("homogeneous, adaptive", homogeneous, paper.TABLE_3_4),
        (
            "heterogeneous, adaptive",
            {policy: runs_of(policy, plan.of("philly")) for policy in policies},
            {policy: paper.TABLE_3_3.get(("philly", policy), {}) for policy in policies},
        ),
        ("heterogeneous, rigid", {policy: runs_of(policy, rigid) for policy in policies}, {}),
    )
    groups = [
        Group(f"{setting}/{policy}", cells[policy], ("mean_jct_h",), said.get(policy, {}))
        for setting, cells, said in settings
        for policy in policies
    ]
    rigid_claims = tuple(
        Claim("mean_jct_h", f"heterogeneous, rigid/{less}", f"heterogeneous, rigid/{more}", said)
        for less, more, said in (
            ("sia", "gavel", "about -25 %"),
            ("sia", "pollux", "less"),
            ("gavel", "pollux", "less"),
        )
    )
    return Experiment("figure_3_1", tuple(groups), rigid_claims, alike=True)


def figure_3_6(plan: Plan) -> Experiment:
    """Build figure 3.6: mean JCT over arrival rate."""
    policies = plan.chosen("sia", "pollux", "gavel")
    groups = [
        Group(f"{rate} jobs per h/{policy}", runs_of(policy, plan.of(f"scale/rate_{rate}")), ("mean_jct_h",))
        for rate in RATES
        for policy in policies
    ]
    claims = [
        Claim("mean_jct_h", f"{rate} jobs per h/{less}", f"{rate} jobs per h/{more}", said)
        for rate in RATES
        for less, more, said in (("sia", "pollux", "-50 to -65 %"), ("pollux", "gavel", "less"))
    ]
    return Experiment("figure_3_6", tuple(groups), tuple(claims))


def figure_3_7(plan: Plan) -> Experiment:
    """Build figure 3.7: finish-time fairness and completion times, Helios traces on the mixed cluster."""
    groups = tuple(
        Group(
            policy,
            runs_of(policy, plan.of("saturn")),
            ("worst_rho", "unfair_fraction", "mean_jct_h"),
            paper.FIGURE_3_7.get(policy, {}),
        )
        for policy in plan.chosen(*paper.FIGURE_3_7)
    )
    others = ("pollux", "gavel", "shockwave")
    claims = tuple(Claim(figure, "sia", other) for figure in ("worst_rho", "unfair_fraction") for other in others)
    return Experiment("figure_3_7", groups, claims)


def figure_3_11(plan: Plan) -> Experiment:
    """Build figure 3.11: fairness power p and length of a round, Helios traces."""
    traces = plan.of("saturn")
    powers = [
        Group(f"p = {p:g}", runs_of("sia", traces, options={"p": p} if p != -0.5 else {}), figures)
        for p in POWERS
        for figures in (("mean_jct_h", "p99_jct_h", "makespan_h", "unfair_fraction"),)
    ]
    figures = ("mean_jct_h", "p99_jct_h", "makespan_h", "restarts_per_job")
    rounds = [Group(f"rounds of {s} s", runs_of("sia", traces, round_s=s), figures) for s in ROUNDS_S]
    claims = [
        Claim("unfair_fraction", "p = -0.5", "p = 1", "less"),
        Claim("p99_jct_h", "p = 1", "p = -0.5", "less"),
        *(Claim("mean_jct_h", "p = -0.5", f"p = {p:g}", "least") for p in POWERS if p != -0.5),
        Claim("mean_jct_h", "rounds of 60 s", "rounds of 30 s", "less"),
        Claim("mean_jct_h", "rounds of 60 s", "rounds of 300 s", "-11 % (300 s: +12 %)"),
    ]
    return Experiment("figure_3_11", (*powers, *rounds), tuple(claims), alike=True)


def figure_3_12(plan: Plan) -> Experiment:
    """Build figure 3.12: some jobs keep their batch size (strong scaling), or GPUs too (rigid); Philly traces."""
    groups = []
    for kind, category in (("strong scaling", "scale-gpus"), ("rigid", "rigid")):
        for percent in PERCENTAGES:
            traces = plan.of("philly")
            if percent:
                traces = plan.made(
                    f"philly-{category}" + (f"-{percent}" if percent < 100 else ""),
                    traces,
                    lambda rows, n, c=category, share=percent / 100: workloads.limited(rows, c, share, n),
                )
            groups.append(Group(f"{percent} % {kind}", runs_of("sia", traces), ("mean_jct_h", "makespan_h")))
    claims = (
        Claim("mean_jct_h", "0 % rigid", "100 % strong scaling", "-13 %"),
        Claim("mean_jct_h", "100 % strong scaling", "100 % rigid", "-56 %"),
    )
    return Experiment("figure_3_12", tuple(groups), claims, alike=True)


def figure_3_13(plan: Plan) -> Experiment:
    """Build figure 3.13: what jobs know before they run, Helios traces."""
    groups = tuple(
        Group(str(knows), runs_of("sia", plan.of("saturn"), knows=knows), ("mean_jct_h",))
        for knows in (Knows.ORACLE, Knows.BOOTSTRAP, Knows.NO_PROFILE)
    )
    claims = (
        Claim("mean_jct_h", "bootstrap", "no-profile", "-30 %"),
        Claim("mean_jct_h", "oracle", "bootstrap", "-7 % (bootstrap: +8 %)"),
    )
    return Experiment("figure_3_13", groups, claims, alike=True)


def spike_240(plan: Plan) -> Experiment:
    """Build Spike-240: time sharing under a burst of jobs (section 3.5.6)."""
    figures = ("mean_jct_h", "mean_queueing_h", "p99_jct_h", "makespan_h", "max_contention", "restarts_per_job")
    groups: list[Group] = []
    claims: list[Claim] = []
    for setting, burst, pace in (
        ("as sampled", 0, None),
        ("burst", BURST, None),
        ("burst, slowed", BURST, SLOWDOWN),
    ):
        traces = plan.made(
            "spike-240" + (f"-burst-{burst}" if burst else ""),
            plan.of("newtrace"),
            lambda rows, n, burst=burst: workloads.spike(rows, n, burst=burst),
        )
        profiles = SIA / "traces" if pace is None else plan.slowed()
        variants = [("gavel", "gavel", {})] if plan.chosen("gavel") else []
        for window in WINDOWS_S:
            options = {} if window is None else {"timeshare_window_s": window}
            variants.append(("sia" if window is None else f"sia τ={window}s", "sia", options))
        groups += [
            Group(f"{setting}/{name}", runs_of(policy, traces, options=options, profiles=profiles), figures)
            for name, policy, options in variants
        ]
        claims.append(Claim("mean_jct_h", f"{setting}/sia", f"{setting}/gavel", "less"))
        if burst:  # else no job waits longer than for the next round
            claims += [
                Claim("mean_jct_h", f"{setting}/sia τ=180s", f"{setting}/sia", "-14 %"),
                Claim("mean_jct_h", f"{setting}/sia τ=180s", f"{setting}/sia τ=300s", "-1.5 %"),
                Claim("mean_queueing_h", f"{setting}/sia τ=180s", f"{setting}/sia", "less"),
            ]
    return Experiment("spike_240", tuple(groups), tuple(claims), alike=True)


def section_3_5_3(plan: Plan) -> Experiment:
    """Build section 3.5.3: a GPT of 2.8B parameters in pipelines, beside Helios traces on the mixed cluster."""
    helios, large = plan.of("saturn"), hybrid.MODEL
    adapts = plan.made("helios-gpt", helios, lambda rows, n: workloads.with_large_model(rows, large))
    fixed = plan.made("helios-gpt-fixed", helios, lambda rows, n: workloads.with_large_model(rows, large, 8, 192))
    of_gpt = ("gpt_jct_h", "gpt_gpu_hours", "gpt_most_gpus", "gpt_a100_fraction", "gpt_samples_s_busy",
              "gpt_samples_s_quiet", "gpt_restarts", "others_mean_jct_h")  # fmt: skip
    groups = [
        Group(f"{setting}/{policy}", runs_of(policy, traces), figures)
        for setting, policy, traces, figures in (
            ("GPT adapts", "sia", adapts, of_gpt),
            ("GPT on 8 GPUs", "sia", fixed, of_gpt),
            ("GPT on 8 GPUs", "gavel", fixed, of_gpt),
            ("without it", "sia", helios, ("mean_jct_h",)),
        )
        if plan.chosen(policy)
    ]
    adapting = "GPT adapts/sia"
    claims = (Claim("gpt_samples_s_busy", adapting, adapting, "less", than="gpt_samples_s_quiet"),)
    return Experiment("section_3_5_3", tuple(groups), claims)


def artifact_pace(plan: Plan) -> Experiment:
    """Build table 3.3 at the pace of Sia's simulator: an ablation of its calibration."""
    groups = [
        Group(
            f"{name}/{policy}",
            runs_of(policy, plan.of(folder), profiles=plan.slowed()),
            (*paper.TABLE_3_3_FIGURES, "worst_rho", "unfair_fraction"),
            {
                **paper.TABLE_3_3.get((name, policy), {}),
                **(paper.FIGURE_3_7.get(policy, {}) if name == "helios" else {}),
            },
            paper.PUBLISHED_SIMULATOR.get((name, policy), {}),
        )
        for name, folder in (("philly", "philly"), ("helios", "saturn"))
        for policy in plan.chosen("sia", "pollux", "gavel")
    ]
    claims = [
        Claim("mean_jct_h", f"{name}/{less}", f"{name}/{more}")
        for name in ("philly", "helios")
        for less, more in (("sia", "pollux"), ("pollux", "gavel"), ("sia", "gavel"))
    ]
    claims += [
        Claim(figure, "helios/sia", f"helios/{other}")
        for figure in ("worst_rho", "unfair_fraction")
        for other in ("pollux", "gavel")
    ]
    return Experiment("artifact_pace", tuple(groups), tuple(claims))


EXPERIMENTS = {
    make.__name__: make
    for make in (
        table_3_3, table_3_4, figure_3_1, figure_3_6, figure_3_7, figure_3_11, figure_3_12, figure_3_13,
        section_3_5_3, spike_240, artifact_pace,
    )
}  # fmt: skip
