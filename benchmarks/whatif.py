"""When jobs end, as it was predicted, beside when they did; and what a change does, beside what it then did.

`python -m benchmarks.whatif` runs short jobs on emulated clusters under real Ray, `--runs` times with other seeds.
Scripts of the first run are new to the service; its store is kept, so later runs know some of them. It prints:

* `end_error_median`: the error of the end predicted once a job is measured, or at its submission if its script
  ran before, over the time then left. `band_holds`: the part of jobs that ended within the band of it.
* `first_time_at_submission`: jobs of new scripts; `first_time_told`: for how many of them an end was predicted
  before they were measured.
* `whatif_error_median`: the same error of ends under a change that is then really made: a job (`with_job_error`),
  or nodes (`nodes_error`).
* `answer_p95_s`: how long an answer takes with `--live` jobs that run or wait, simulated alone;
  `answer_cpu_p95_s`: what that is of one core.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.client import jobfile
from coadapt.client.client import Client
from coadapt.client.cluster_record import ClusterRecord, LocalClusterError
from coadapt.core.emulated_nodes import parse
from coadapt.core.job import JobSpec
from coadapt.core.schemas import JobRow
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.forecasts.questions import Change, Question
from coadapt.scheduler.forecasts.asker import CPU_S, NICE
from coadapt.scheduler.forecasts.process import ForecastProcess

from .harness import finish, table
from .live_jobs import CHANGES, crowd, many

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
CLUSTER, MORE = "1x a100:2, 1x t4:2", "1x t4:2"
ROUND_S, LOOK_S, CAP_S = 5.0, 1.0, 600.0
# Example, its epochs, and how much faster its GPUs are than measured. A job ends when its epochs are done.
KINDS: Sequence[tuple[str, int, float]] = (
    ("rigid", 60, 12.0),
    ("rigid", 120, 12.0),
    ("image_classifier", 10, 0.3),
    ("image_classifier", 20, 0.3),
)
GAP_S = 12.0  # between two submissions, on average


@dataclass(frozen=True)
class Told:
    """An end that was predicted: at what moment, and with what band."""

    at_s: float
    end_s: float
    low_s: float
    high_s: float

    def error(self, ended_s: float) -> float:
        """Return the error over the time that was left."""
        return abs(self.end_s - ended_s) / max(ended_s - self.at_s, 1.0)


@dataclass
class Watched:
    """A job of a run. `known`: its script ran before. `first`: the prediction that counts."""

    known: bool
    submitted_s: float
    first: Told | None = None
    before_measured: Told | None = None
    measured: bool = False


@dataclass
class Run:
    """What one run has shown. `changed`: (kind, prediction under a change that was then made, job)."""

    watched: dict[str, Watched] = field(default_factory=dict)
    changed: list[tuple[str, Told, str]] = field(default_factory=list)
    ended_s: dict[str, float] = field(default_factory=dict)
    kinds: set[tuple[str, int, float]] = field(default_factory=set)


def spec_of(kind: tuple[str, int, float], number: int) -> JobSpec:
    """Return a job of a kind."""
    example, epochs, scale = kind
    spec = jobfile.load(EXAMPLES / example / "job.yaml")
    emulation = spec.emulation.model_copy(update={"time_scale": scale})
    training = spec.training.model_copy(update={"report_interval_s": 2.0, "target": None})
    return spec.model_copy(
        update={
            "name": f"{example.split('_')[0]}-{epochs}-{number}",
            "args": ["--epochs", str(epochs)],
            "emulation": emulation,
            "training": training,
        }
    )


def told(row: JobRow) -> Told | None:
    """Return the end that is predicted of a job now; None: none is."""
    found = row.get("predicted")
    if found is None or found["end_s"] is None:
        return None
    low_s, high_s = found["end_low_s"] or found["end_s"], found["end_high_s"] or found["end_s"]
    return Told(found["predicted_s"], found["end_s"], low_s, high_s)


def look(client: Client, run: Run) -> list[JobRow]:
    """Take note of what is predicted now."""
    rows = [row for row in client.list() if row["id"] in run.watched]
    for row in rows:
        one, now = run.watched[row["id"]], told(row)
        if row["finished_s"] is not None:
            run.ended_s[row["id"]] = row["finished_s"]
            continue
        one.measured |= row["phase"] in ("queued", "running")
        since_s = one.submitted_s if one.known else None
        if now is None:
            continue
        if one.first is None and (one.measured or one.known) and (since_s is None or now.at_s >= since_s):
            one.first = now
        elif not one.known and not one.measured and one.before_measured is None:
            one.before_measured = now
    return rows


def asked(client: Client, run: Run, kind: str, submitted: str = "", **change: Any) -> None:
    """Keep what would be under a change, of the jobs that are watched.

    submitted: takes the place of the job that would be submitted.
    """
    view = client.whatif(**change)
    for row in view["jobs"]:
        job = submitted if row["new"] else row["id"]
        after = row["after"]
        if after is not None and after["end_s"] is not None and (job in run.watched or row["new"]):
            low_s, high_s = after["end_low_s"] or 0.0, after["end_high_s"] or 0.0
            run.changed.append((kind, Told(view["asked_s"], after["end_s"], low_s, high_s), job))


def play(state_dir: str, seed: int, jobs: int, known: set[tuple[str, int, float]]) -> Run:
    """Run jobs that come one after another, and one change of nodes, to the end."""
    draw, run = random.Random(seed), Run()
    settings = Settings(state_dir=state_dir, round_interval_s=ROUND_S, restart_cost_s=5.0, profile_share=1.0)
    with local_cluster.cluster(CLUSTER, settings=settings) as client:
        begun_s, next_s, sent = time.time(), time.time(), 0
        while time.time() - begun_s < CAP_S:
            rows = look(client, run)
            if sent == jobs and len(run.ended_s) == jobs:
                break
            if sent < jobs and time.time() >= next_s:
                kind = draw.choice(KINDS)
                spec = spec_of(kind, 100 * seed + sent)
                asks = sent in (jobs // 3, 2 * jobs // 3)
                place = len(run.changed)
                if asks and rows:
                    asked(client, run, "job", "new", submit=[spec])
                job = client.submit(spec)
                run.changed[place:] = [(k, t, job if of == "new" else of) for k, t, of in run.changed[place:]]
                run.kinds.add(kind)
                run.watched[job] = Watched(kind in known, time.time())
                sent, next_s = sent + 1, time.time() + draw.expovariate(1 / GAP_S)
                if sent == jobs // 2 + 1:
                    asked(client, run, "nodes", nodes=f"+{MORE}")
                    record = ClusterRecord.load(settings.state_dir)
                    assert record is not None
                    try:
                        more = local_cluster.add_nodes(record, parse(MORE))
                    except LocalClusterError as error:  # a change that was not made says nothing
                        print(f"run {seed}: no node more: {error}", flush=True)
                        run.changed = [one for one in run.changed if one[0] != "nodes"]
                        continue
                    replace(record, nodes=(*record.nodes, *more)).save(settings.state_dir)
            time.sleep(LOOK_S)  # between two looks, up to a limit
        look(client, run)
    return run


def answers_s(live: int, count: int) -> list[tuple[float, float]]:
    """Return the seconds that answers take with so many live jobs, and those of one core."""
    process, found = ForecastProcess(nice=NICE), list[tuple[float, float]]()
    try:
        past = tuple(crowd(300))
        for number in range(count + 1):
            state = many(live, seed=number)
            change: Change = CHANGES[number % len(CHANGES)](state)
            began_s = time.monotonic()
            answer = process.ask(Question("whatif", state, past if number == 0 else (), CPU_S, 20, change))
            if answer.whatif is None:
                raise SystemExit(f"whatif: {answer.error}")
            found.append((time.monotonic() - began_s, answer.cpu_s))
    finally:
        process.stop()
    return found[1:]  # the first one starts the process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=12, help="of each run")
    parser.add_argument("--live", type=int, default=200, help="jobs of the state that answers are timed with")
    parser.add_argument("--answers", type=int, default=20)
    options = parser.parse_args()
    known: set[tuple[str, int, float]] = set()
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="coadapt-whatif-") as state_dir:
        for seed in range(options.runs):
            run = play(state_dir, seed, options.jobs, set(known))
            runs.append(run)
            print(f"run {seed}: {figures([run], [])}", flush=True)
            known |= run.kinds
    finish("whatif", figures(runs, answers_s(options.live, options.answers) if options.answers else []))


def figures(runs: Sequence[Run], answers: Sequence[tuple[float, float]]) -> dict[str, float | int | None]:
    """Print each job, and return the figures."""
    cells: list[list[object]] = []
    errors, holds, changes = [], [], {"job": list[float](), "nodes": list[float]()}
    first_time = told_before = unpredicted = 0
    for number, run in enumerate(runs):
        for job, one in run.watched.items():
            ended_s = run.ended_s.get(job)
            if ended_s is None:
                continue
            first_time += not one.known
            told_before += one.before_measured is not None
            if one.first is None:
                unpredicted += 1
                continue
            errors.append(one.first.error(ended_s))
            holds.append(one.first.low_s <= ended_s <= one.first.high_s)
            left, foreseen = ended_s - one.first.at_s, one.first.end_s - one.first.at_s
            cells.append([number, job, "yes" if one.known else "no", left, foreseen, errors[-1], str(holds[-1])])
        for kind, foretold, job in run.changed:
            if (ended_s := run.ended_s.get(job)) is not None and ended_s > foretold.at_s:
                changes[kind].append(foretold.error(ended_s))
    table("Ends", ["run", "job", "known", "left s", "predicted s", "error", "in band"], cells)
    both = [*changes["job"], *changes["nodes"]]
    return {
        "jobs": sum(len(run.watched) for run in runs),
        "ended": sum(len(run.ended_s) for run in runs),
        "predicted": len(errors),
        "unpredicted": unpredicted,
        "end_error_median": _median(errors),
        "band_holds": round(float(np.mean(holds)), 3) if holds else None,
        "first_time_at_submission": first_time,
        "first_time_told": told_before,
        "whatif_predictions": len(both),
        "whatif_error_median": _median(both),
        "with_job_error": _median(changes["job"]),
        "nodes_error": _median(changes["nodes"]),
        "answer_p95_s": round(float(np.percentile([wall for wall, _ in answers], 95)), 2) if answers else None,
        "answer_cpu_p95_s": round(float(np.percentile([cpu for _, cpu in answers], 95)), 2) if answers else None,
    }


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 3) if values else None


if __name__ == "__main__":
    main()
