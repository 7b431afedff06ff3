"""How good a schedule lengths make that were learned only from jobs that had ended before.

    python -m benchmarks.duration_estimator

Venus, September 2020, strict `qssf`. Jobs of 8 to 26 September are judged. The jobs before them stand in the same
order in every run, by the published sums, so that all begin with the same queue. Ours learns online from nothing;
jobs have ended when they do under `sjf`. Peers are the estimates that Lucid's authors published of the same jobs,
sums and LightGBM's trees, which had five months of history, true lengths, and the rolling means of Helios. A last
row adds what a profile of each job says. Types of jobs were drawn by size and length (Lucid, ASPLOS'23), so a gain
there proves that the model can use a profile, not that profiles of real jobs tell as much.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from coadapt.estimators.affinity.uses import row_of, usage_of
from coadapt.estimators.interpretable.table import Floats
from coadapt.estimators.job_history import EndedJob
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.jobs.lengths import Lengths
from coadapt.simulator.replay import simulation, source_of
from scipy.stats import spearmanr

from .duration_prediction import foretold, jobs_of, means_before
from .harness import DATA, finish, needs, table
from .qssf_replay import ESTIMATES, VENUS, VENUS_NODES, Ran, venus

PROFILES = DATA / "lucid" / "venus_sept2020_assigned_profile.csv.gz"
JUDGED_FROM_S = datetime(2020, 9, 8, tzinfo=UTC).timestamp()
LEAST_S, NEGATIVE_S = 1.0, 1000.0  # a published estimate that is 0 or less counts as the latter


def published(name: str, ids: tuple[str, ...]) -> Floats:
    """Return (jobs,) published estimates in seconds."""
    with gzip.open(ESTIMATES[name], "rt") as file:
        told = {row["job_id"]: float(row["priority"]) for row in csv.DictReader(file)}
    found = np.array([told[id] for id in ids])
    return np.where(found <= 0, NEGATIVE_S, found)


def with_profiles(jobs: list[EndedJob]) -> list[EndedJob]:
    """Return the jobs with what a profile shows of each."""
    with gzip.open(PROFILES, "rt") as file:
        uses = {
            row["job_id"]: row_of(
                usage_of(float(row["gpu_util"]) / 100, float(row["gmem_util"]) / 100, float(row["gmem"]) / 1024),
                row["amp"] == "1",
            )
            for row in csv.DictReader(file)
        }
    return [replace(one, job=replace(one.job, use=tuple(uses[one.job.id].tolist()))) for one in jobs]


class Schedules:
    """Runs of `qssf` by estimates. judged: (jobs,) those of which JCT is told."""

    def __init__(self) -> None:
        self.workload, self.nodes = venus()
        self.before = published("ebm", self.workload.ids)
        self.judged = self.workload.began_s + self.workload.submit_s >= JUDGED_FROM_S

    def _run(self, policy: str, conditions: Conditions) -> Ran:
        source = source_of(False, None, self.nodes)
        return Ran.of(simulation(self.workload, self.nodes, policy, {}, source, conditions).run())

    def ended(self) -> list[EndedJob]:
        """Return all jobs, with when they end under `sjf`."""
        under, source = Conditions(Timing(events=True)), source_of(False, None, self.nodes)
        ran = simulation(self.workload, self.nodes, "sjf", {}, source, under).run()
        return jobs_of(self.workload, ran.finished_s)

    def jct_s(self, estimates: Floats) -> float:
        """Return the mean JCT of the judged jobs by (jobs,) estimates in seconds."""
        used = np.maximum(np.where(self.judged, estimates, self.before), LEAST_S)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "estimates.csv"
            with path.open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(("job_id", "estimate_s"))
                writer.writerows(zip(self.workload.ids, used.tolist(), strict=True))
            timing = Timing(events=True)
            ran = self._run("qssf", Conditions(timing, lengths=Lengths.ESTIMATED, estimates=path))
        return float((ran.wait_s + ran.length_s)[self.judged].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    needs(VENUS, VENUS_NODES, PROFILES, *ESTIMATES.values())
    schedules = Schedules()
    jobs = schedules.ended()
    ours, _ = foretold(jobs, "ours")
    profiled, _ = foretold(with_profiles(jobs), "ours")
    true_s = np.maximum(np.array([one.trained_s for one in jobs]), LEAST_S)
    said = {
        "ours": ours[:, 0],
        "profile": profiled[:, 0],
        "published_additive": schedules.before,
        "published_lgb": published("lgb", schedules.workload.ids),
        "mean_of_owner_and_size": means_before(jobs, lambda job: (job.owner, job.gpus)),
        "exact": true_s,
    }
    of, shown, figures = schedules.judged, list[list[object]](), dict[str, float]()
    for name, values in said.items():
        off = (values - true_s)[of]
        jct_s = schedules.jct_s(values)
        rank = float(spearmanr(values[of], true_s[of])[0])
        r2 = 1 - float((off**2).sum() / ((true_s[of] - true_s[of].mean()) ** 2).sum())
        shown.append([name, f"{jct_s:.0f}", rank, float(np.abs(off).mean()), r2])
        key = "" if name == "ours" else f"_{name}"
        figures |= {f"qssf_jct_s{key}": jct_s, f"spearman{key}": rank, f"mae{key}": float(np.abs(off).mean())}
        figures[f"r2{key}"] = r2
    within = (ours[:, 1] <= true_s) & (true_s <= ours[:, 2])
    figures["share_within"] = float(within[of].mean())
    for key in ("", "_profile"):
        figures[f"qssf_jct_ratio{key}"] = figures[f"qssf_jct_s{key}"] / figures["qssf_jct_s_published_additive"]
        figures[f"qssf_jct_ratio_lgb{key}"] = figures[f"qssf_jct_s{key}"] / figures["qssf_jct_s_published_lgb"]
    table(
        "Jobs of 8 to 26 September", ["lengths", "mean JCT, s", "rank correlation", "mean error, s", "R2"], shown
    )
    finish("duration_estimator", {name: round(value, 4) for name, value in figures.items()})


if __name__ == "__main__":
    main()
