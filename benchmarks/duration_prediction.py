"""How well lengths of jobs are foretold from their submission, online, and how long that takes.

    python -m benchmarks.duration_prediction

Venus' September of 2020 under `sjf`: each job is foretold when it is submitted, by the jobs that had ended before.
Peers are the published form (trees blended with rolling means) and the means of the owner's, of the size's and of
all ended jobs. A second part fits to 125,303 jobs of half a year. Their owners, virtual clusters and names, which
that file lacks, are drawn from a seed. It shows how long one forecast and one fit take.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
from coadapt.estimators.foretold import Foretold
from coadapt.estimators.job_history import EndedJob, SubmittedJob
from coadapt.scheduler.services.durations import DurationOptions, Durations
from coadapt.scheduler.services.host import FitAtOnce, ServiceHost
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload
from scipy.stats import spearmanr

from .harness import DATA, finish, needs, table
from .qssf_replay import VENUS, venus

HALF_YEAR = DATA / "helios" / "venus_2020_all_gpu_jobs_clamped48h.csv.gz"
WEEK_S = 7 * 86_400.0
LEAST_S = 1.0


def jobs_of(workload: Workload, finished_s: np.ndarray) -> list[EndedJob]:
    """Return the jobs of a run; `finished_s`: seconds of the trace."""
    found = []
    for i, id in enumerate(workload.ids):
        submitted_s = workload.began_s + float(workload.submit_s[i])
        job = SubmittedJob(
            id,
            workload.users[i],
            workload.names[i],
            workload.virtual_clusters[i],
            int(workload.gpus[i]),
            float(workload.cpus[i]),
            submitted_s,
        )
        ended_s = max(workload.began_s + float(finished_s[i]), submitted_s)
        found.append(EndedJob(job, ended_s, float(workload.duration_s[i])))
    return found


def means_before(jobs: list[EndedJob], key: Callable[[SubmittedJob], object]) -> np.ndarray:
    """Return (jobs,) the mean of jobs of the same key that had ended before; of all where there is none."""
    submitted = [(one.job.submitted_s, 0, n) for n, one in enumerate(jobs)]
    events = sorted(submitted + [(one.ended_s, 1, n) for n, one in enumerate(jobs)])
    sums: dict[object, float] = defaultdict(float)
    counts: dict[object, int] = defaultdict(int)
    found = np.full(len(jobs), 3600.0)
    for _, ends, n in events:
        one = jobs[n]
        keys = (key(one.job), "all")
        if ends:
            for each in keys:
                sums[each] += one.trained_s
                counts[each] += 1
        elif (known := next((each for each in keys if counts[each]), None)) is not None:
            found[n] = max(sums[known] / counts[known], LEAST_S)
    return found


def foretold(jobs: list[EndedJob], form: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (jobs, 3) mean, low and high of each forecast, and (jobs,) seconds that each took to make."""

    class Timed(Durations):
        def foretell(self, job: SubmittedJob) -> Foretold:
            began = time.perf_counter()
            found = super().foretell(job)
            took_s.append(time.perf_counter() - began)
            return found

    took_s: list[float] = []
    host = ServiceHost({"durations": Timed(DurationOptions.model_validate({"form": form}))}, FitAtOnce())
    for one in jobs:
        host.submitted(one.job)
        host.ended(one)
    found = host.advance(1e12)
    return (
        np.array([[found[one.job.id].mean_s, found[one.job.id].low_s, found[one.job.id].high_s] for one in jobs]),
        np.array(took_s),
    )


def half_a_year(seed: int) -> list[EndedJob]:
    """Return 125,303 jobs with owners, virtual clusters and names from a seed; a few owners have most jobs."""
    workload, random = read_trace(HALF_YEAR), np.random.default_rng(seed)
    count = len(workload)
    owners = random.zipf(1.3, count) % 300
    pools, kinds = owners % 27, random.integers(0, 8, count)
    found = []
    for i, id in enumerate(workload.ids):
        submitted_s = 1.58e9 + float(workload.submit_s[i])
        name = f"train_{kinds[i]}_of_{owners[i]}_v{i % 50}"
        gpus = int(workload.gpus[i])
        job = SubmittedJob(id, f"u{owners[i]}", name, f"vc{pools[i]}", gpus, 6.0 * gpus, submitted_s)
        length_s = float(workload.duration_s[i])
        found.append(EndedJob(job, submitted_s + length_s, length_s))
    return found


def refit_s(jobs: list[EndedJob]) -> tuple[float, float]:
    """Return the seconds of one fit to all of these jobs, and those until the service knew them."""
    service = Durations()
    began = time.perf_counter()
    for one in sorted(jobs, key=lambda one: one.ended_s):
        service.observe(one)
    known_s = time.perf_counter() - began
    fit = service.fitting(2e9)
    began = time.perf_counter()
    service.take(fit())
    return time.perf_counter() - began, known_s


def quality(mean_s: np.ndarray, jobs: list[EndedJob], shown: np.ndarray) -> tuple[float, float]:
    """Return the rank correlation of expected and true GPU-time, and the mean absolute error of the log length."""
    true_s = np.maximum(np.array([one.trained_s for one in jobs])[shown], LEAST_S)
    gpus = np.array([one.job.gpus for one in jobs])[shown]
    correlation = float(spearmanr(mean_s[shown] * gpus, true_s * gpus)[0])
    return correlation, float(np.abs(np.log(mean_s[shown] / true_s)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    needs(VENUS, HALF_YEAR)
    workload, nodes = venus()
    outcome = simulation(
        workload, nodes, "sjf", {}, source_of(False, None, nodes), Conditions(Timing(events=True))
    ).run()
    jobs = jobs_of(workload, outcome.finished_s)
    ours, took_s = foretold(jobs, "ours")
    published, _ = foretold(jobs, "published")
    typical_s = np.sqrt(ours[:, 1] * ours[:, 2])  # the middle of the band on the log scale
    means: Mapping[str, np.ndarray] = {
        "durations, mean": ours[:, 0],
        "durations, middle of the band": typical_s,
        "published form": published[:, 0],
        "mean of the owner": means_before(jobs, lambda job: ("owner", job.owner)),
        "mean of the size": means_before(jobs, lambda job: ("gpus", job.gpus)),
        "mean of all": means_before(jobs, lambda job: "all"),
    }
    everyone = np.ones(len(jobs), bool)
    weeks = ((np.array([one.job.submitted_s for one in jobs]) - jobs[0].job.submitted_s) // WEEK_S).astype(int)
    true_s = np.maximum(np.array([one.trained_s for one in jobs]), LEAST_S)
    within = (ours[:, 1] <= true_s) & (true_s <= ours[:, 2])
    rows, figures = [], dict[str, float]()
    for name, mean_s in means.items():
        rank, error = quality(mean_s, jobs, everyone)
        rows.append([name, rank, error, *(quality(mean_s, jobs, weeks == week)[0] for week in range(4))])
        key = name.replace(", ", "_").replace(" ", "_")
        figures |= {f"{key}/spearman_gpu_time": rank, f"{key}/mean_abs_log_err": error}
    columns = ["forecast", "rank correlation", "error of the log", *(f"week {week + 1}" for week in range(4))]
    table("GPU-time foretold at submission, Venus, September 2020", columns, rows)
    shares = [float(within[weeks == week].mean()) for week in range(4)]
    table("Share of lengths within the band of 80 %", ["all", *(f"week {w + 1}" for w in range(4))],
          [[float(within.mean()), *shares]])  # fmt: skip
    fit_s, known_s = refit_s(half_a_year(0))
    figures |= {
        "share_within": float(within.mean()),
        "p99_ms": float(np.percentile(took_s, 99) * 1e3),
        "refit_s": fit_s,
        "history_read_s": known_s,
    }
    finish("duration_prediction", {name: round(value, 4) for name, value in figures.items()})


if __name__ == "__main__":
    main()
