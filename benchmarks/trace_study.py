"""The tables and statements of Helios' trace study (SC'21; Tables 2.1 and 2.2) against the data that is there.

`python -m benchmarks.trace_study` prints each of the paper's numbers beside the one measured, and whether it held
or why not. A number held if it is the paper's, as far as the paper prints it. Statements such as "over half" held
if they are true. Parts of the data are public: sizes of VCs by day of Venus and Earth, and a summary of all four
clusters. Of Venus there are the jobs of September, and all GPU jobs without users. Of Earth there are the VCs in
May by the minute. Philly's jobs are those that Pollux prepared.

Figures: `<check>` is what was measured; `checks` and `checks_held` count them. `venus/implication_<n>` and
`philly/implication_<n>` say what `coadapt study` says of the seven: 1 holds, 0 does not, null cannot be told.
"""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from coadapt.simulator.study.capacity import Capacity, of_cluster, served
from coadapt.simulator.study.jobs import StudiedJobs
from coadapt.simulator.study.study import Study, study
from coadapt.simulator.study.verdicts import Verdict
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.final_state import FinalState
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.tables import instant, numbers, read_rows

from .harness import DATA, finish, needs, table

HELIOS = DATA / "helios"
SUMMARY = HELIOS / "helios_cluster_summary.csv"
SIZES = {"venus": HELIOS / "venus_cluster_gpu_number.csv", "earth": HELIOS / "earth_gpu_number.csv"}
SEPTEMBER = HELIOS / "venus_sept2020_gpu_jobs.csv.gz"
HALF_YEAR = HELIOS / "venus_2020_all_gpu_jobs_clamped48h.csv.gz"
HALF_YEAR_BEGAN = datetime(2020, 3, 18, 3, 59, 8, tzinfo=UTC).timestamp()
EARTH_MAY = HELIOS / "earth_may2020_vc_sequences.tar.xz"
VENUS_NODES = DATA / "lucid" / "venus_vc_config.csv"
PHILLY_NODES = DATA / "philly" / "philly_vc_nodes.csv"
PHILLY = DATA / "philly" / "philly_jobs_pollux_82k.csv.gz"

# Table 2.1: cluster -> VCs, nodes, GPUs, thousands of jobs.
TABLE_2_1 = {
    "venus": (27, 133, 1064, 247),
    "earth": (25, 143, 1144, 873),
    "saturn": (28, 262, 2096, 1753),
    "uranus": (25, 264, 2112, 490),
}
TOTALS = (105, 802, 6416, 3363)
POLLUX = "Pollux' form has 27,000 jobs less; it dropped those without a usable end"


@dataclass(frozen=True)
class Check:
    """One number or statement of the paper. `holds` None: the data that is there cannot tell."""

    name: str
    paper: str
    measured: float | None
    holds: bool | None
    why_not: str = ""


def near(name: str, paper: float, measured: float, digit: float, why_not: str = "") -> Check:
    """Return a check of a number that the paper prints to a multiple of `digit`."""
    return Check(name, f"{paper:,g}", measured, abs(measured - paper) <= digit / 2 + 1e-9, why_not)


def table_2_1() -> Iterator[Check]:
    """Yield the checks of the clusters' sizes."""
    for cluster, (_, nodes, gpus, _) in TABLE_2_1.items():
        yield near(f"table_2_1/{cluster}_gpus_per_node", 8, gpus / nodes, 0)
    sums = [float(sum(column)) for column in zip(*TABLE_2_1.values(), strict=True)]
    for name, total, found in zip(("vcs", "nodes", "gpus", "kilo_jobs"), TOTALS, sums, strict=True):
        yield near(f"table_2_1/sum_of_{name}", total, found, 0)
    rows = read_rows(SUMMARY, ("id", "job_num"))
    counted = dict(
        zip((row["id"].lower() for row in rows), numbers(SUMMARY, rows, "job_num").tolist(), strict=True)
    )
    for cluster, (vcs, nodes, gpus, jobs) in TABLE_2_1.items():
        yield near(f"table_2_1/{cluster}_kilo_jobs", jobs, counted[cluster] / 1000, 1)
        if cluster not in SIZES:
            yield Check(f"table_2_1/{cluster}_gpus", f"{gpus:,}", None, None, "its sizes by day are not public")
            continue
        days = read_rows(SIZES[cluster], ("date", "total"))
        names = [name for name in days[0] if name not in ("date", "total")]
        by_vc = np.array([numbers(SIZES[cluster], days, name, least=0, whole=True) for name in names])
        first = [row["date"] for row in days].index("2020-09-01")
        yield near(f"table_2_1/{cluster}_gpus", gpus, float(by_vc[:, first].sum()), 0)
        yield near(f"table_2_1/{cluster}_nodes", nodes, float(by_vc[:, first].sum()) / 8, 0)
        whole = float((by_vc % 8 == 0).mean())
        yield Check(f"table_2_1/{cluster}_vcs_of_whole_nodes", "each", whole, whole == 1)
        known = float(by_vc.any(axis=1).sum())
        yield near(f"table_2_1/{cluster}_vcs", vcs, known, 0, "the file has no sizes of others")


def table_2_2() -> Iterator[Check]:
    """Yield the checks of Helios' jobs, over all clusters."""
    rows = read_rows(SUMMARY, ("id", "job_num"))
    (total,) = (row for row in rows if row["id"] == "total")

    def of(name: str) -> float:
        return float(total[name])

    yield near("table_2_2/mega_jobs", 3.36, of("job_num") / 1e6, 0.01)
    yield near("table_2_2/mega_gpu_jobs", 1.58, of("gpu_job_num") / 1e6, 0.01)
    yield near("table_2_2/mega_cpu_jobs", 1.78, of("cpu_job_num") / 1e6, 0.01)
    yield near("table_2_2/mean_gpus", 3.72, of("avg_gpu_num"), 0.01)
    yield near("table_2_2/mean_gpu_job_s", 6652, of("avg_run_time_gpu"), 1)
    yield near("section_2_3/mean_cpu_job_s", 629, of("avg_run_time_cpu"), 1)
    yield near("section_2_3/gpu_over_cpu_length", 10.6, of("avg_run_time_gpu") / of("avg_run_time_cpu"), 0.1)
    yield near("section_2_3/median_gpu_job_s", 206, of("med_run_time_gpu"), 1)
    yield near("section_2_3/unsuccessful_gpu", 0.376, 1 - of("complete_rate_gpu"), 0.001)
    yield near("section_2_3/unsuccessful_cpu", 0.091, 1 - of("complete_rate_cpu"), 0.001)
    times = [of(f"{state}_gpu_time") for state in ("complete", "cancel", "fail")]
    yield near("section_2_2/gpu_time_failed", 0.093, times[2] / sum(times), 0.001)
    unknown = "the summary has means and medians only"
    yield Check("table_2_2/most_gpus", "2,048", None, None, unknown)
    yield Check("table_2_2/longest_days", "50", None, None, unknown)


def philly() -> Iterator[Check]:
    """Yield the checks of Philly's jobs, October to December 2017."""
    workload = read_trace(PHILLY)
    october = instant("2017-10-01 00:00:00") - workload.began_s
    part = StudiedJobs.of_trace(workload.select(workload.submit_s >= october))
    days = float((part.submit_s[-1] - october) // 86_400 + 1)
    yield near("philly/kilo_jobs", 103, len(part) / 1000, 1, POLLUX)
    yield near("philly/days", 83, days, 0)
    yield near("philly/vcs", 14, float(len(part.virtual_clusters)), 0)
    yield near("philly/mean_gpus", 1.75, float(part.gpus.mean()), 0.01, POLLUX)
    yield near("philly/mean_length_s", 28_329, float(part.length_s.mean()), 1, POLLUX)
    yield near("philly/most_gpus", 128, float(part.gpus.max()), 0)
    yield near("philly/longest_days", 60, float(part.length_s.max()) / 86_400, 1, POLLUX)


def venus(september: Study, half_year: Study) -> Iterator[Check]:
    """Yield statements of section 2.3 that Venus' jobs can tell."""
    sizes, users, states, daily = half_year.sizes, september.users, september.final_states, september.daily
    if not (users and states and daily and daily.use and half_year.lengths and half_year.monthly):
        raise SystemExit(f"{SEPTEMBER}, {HALF_YEAR}: users, final states, lengths or months are missing")
    yield Check("venus/gpu_jobs", "125,303", float(len(half_year.jobs)), len(half_year.jobs) == 125_303)
    yield Check("venus/single_gpu_jobs", "> 0.5", sizes.single_jobs, sizes.single_jobs > 0.5)
    yield Check("venus/single_gpu_time", "0.03 to 0.12", sizes.single_time, 0.03 <= sizes.single_time <= 0.12)
    many = "Venus' jobs are the largest: 6.7 GPUs on average, and 3.7 in all clusters"
    yield Check("venus/jobs_of_8_or_more", "< 0.1", sizes.large_jobs, sizes.large_jobs < 0.1, many)
    yield Check("venus/time_of_8_or_more", "about 0.6", sizes.large_time, 0.5 <= sizes.large_time <= 0.7, many)
    under = half_year.lengths.shorter[1000.0]
    yield Check("venus/under_1000_s", "about 0.75", under, 0.7 <= under <= 0.8)
    single, multi = (half_year.monthly.variation(n) for n in (half_year.monthly.single, half_year.monthly.multi))
    yield Check("venus/monthly_variation_multi", f"< single: {single:.3f}", multi, multi < single)
    top = users.top_share(users.gpu_s, 0.05)
    yield Check("venus/top_5_percent_users_time", "0.45 to 0.6", top, 0.45 <= top <= 0.6)
    large = september.jobs.gpus >= 64
    counted = study(september.jobs.select(large)).final_states
    if counted is None:
        raise SystemExit(f"{SEPTEMBER}: no job with 64 GPUs or more")
    completed, cancelled = (counted.of(s, counted.job_share) for s in (FinalState.COMPLETED, FinalState.CANCELLED))
    yield Check("venus/completed_of_64_or_more", "< 0.25", completed, completed < 0.25)
    failed = "272 of these 665 jobs are one user's failures with 128 GPUs"
    yield Check("venus/cancelled_of_64_or_more", "about 0.7", cancelled, 0.65 <= cancelled <= 0.75, failed)
    median = float(np.nanmedian(users.completed))
    yield Check("venus/median_user_completes", "generally low", median, median < 0.75)
    night = 1 - float(daily.use.mean[:8].mean() / daily.use.mean[8:].mean())
    yield Check(
        "venus/night_below_day",
        "0.05 to 0.08",
        night,
        0.05 <= night <= 0.08,
        "it is of the demand, as starts are not public",
    )


def earth() -> Iterator[Check]:
    """Yield the statements on Figure 2.4: Earth's VCs in May, by the minute."""
    used: dict[str, float] = {}
    size: dict[str, float] = {}
    with tarfile.open(EARTH_MAY) as packed:
        for member in packed:
            file = packed.extractfile(member) if member.name.endswith(".csv") else None
            if file is None:
                continue
            text = io.TextIOWrapper(file, encoding="utf-8")
            names = text.readline().strip().split(",")
            at = [names.index("running_gpu_num"), names.index("total_gpu_num")]
            running, total = np.loadtxt(text, delimiter=",", usecols=at, unpack=True)
            name = member.name.rsplit("/", 1)[-1].removesuffix(".csv")
            used[name], size[name] = float(np.median(running / np.maximum(total, 1))), float(total.max())
    yield near("figure_2_4/vc6YE_gpus", 208, size["vc6YE"], 0)
    for name in ("vc6YE", "vcLJZ"):
        yield Check(f"figure_2_4/{name}_median_use", "> 0.9", used[name], used[name] > 0.9)
    for name in ("vchbv", "vccaA"):
        yield Check(f"figure_2_4/{name}_median_use", "< 0.65", used[name], used[name] < 0.65)


def main() -> None:
    needs(SUMMARY, *SIZES.values(), SEPTEMBER, HALF_YEAR, EARTH_MAY, VENUS_NODES, PHILLY, PHILLY_NODES)
    began = time.perf_counter()
    nodes = of_cluster(read_cluster(str(VENUS_NODES)))
    september = study(StudiedJobs.of_trace(read_trace(SEPTEMBER)), nodes)
    half_year = study(replace(StudiedJobs.of_trace(read_trace(HALF_YEAR)), began_s=HALF_YEAR_BEGAN))
    checks = [*table_2_1(), *table_2_2(), *philly(), *venus(september, half_year), *earth()]
    rows = [
        [
            check.name,
            check.paper,
            "-" if check.measured is None else f"{check.measured:,.6g}",
            {True: "yes", False: "NO", None: "cannot be told"}[check.holds],
            "" if check.holds else check.why_not,
        ]
        for check in checks
    ]
    table("Helios' trace study against the public data", ["check", "paper", "measured", "held", "why not"], rows)
    figures: dict[str, float | int | None] = {check.name: check.measured for check in checks}
    figures["checks"] = sum(check.holds is not None for check in checks)
    figures["checks_held"] = sum(check.holds is True for check in checks)
    rows_of_vcs = read_rows(PHILLY_NODES, ("vc", "node_num"))
    nodes_of_vcs = numbers(PHILLY_NODES, rows_of_vcs, "node_num", least=1, whole=True)
    gpus = {row["vc"]: 8 * int(count) for row, count in zip(rows_of_vcs, nodes_of_vcs, strict=True)}
    sized = Capacity(sum(gpus.values()), gpus)
    jobs = StudiedJobs.of_trace(read_trace(PHILLY))
    philly_study = study(jobs.select(served(jobs, sized)), sized)
    said = []
    for name, found in (("venus", september), ("philly", philly_study)):
        for one in found.implications:
            value = {Verdict.HOLDS: 1, Verdict.FAILS: 0, Verdict.UNKNOWN: None}[one.verdict]
            figures[f"{name}/implication_{one.number}"] = value
            said += [[f"{name} {one.number}", one.text, str(one.verdict)]]
    table("The seven implications", ["trace", "implication", "here it"], said)
    print(f"read and studied in {time.perf_counter() - began:.1f} s")
    finish("trace_study", figures)


if __name__ == "__main__":
    main()
