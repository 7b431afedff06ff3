"""Deadlines live: a dozen jobs of each kind under `unisched`, and then their trace in the simulator.

    python -m benchmarks.slo_live [--jobs 36] [--seed 0] [--out FOLDER]

Strict, soft and best-effort jobs come to two emulated nodes of four GPUs, with leases of 10 and 20 s. Some end
when a metric is reached, some are measured by training, some deadlines are impossible. In the middle the service
is killed, and later a node, which comes back. Then `coadapt trace` is replayed under the same policy and grid.

* miss_points_off: the part of all worth that was missed, live less in replays, in points. UniSched: 2.57.
* jct_rel_err: mean JCT of replays over the live one, less one, without its sign. UniSched: 0.0538.
* answers_right: of the first answers other than `measured first`, those that came true. `on time` says that the
  first deadline is met, `cannot be met` that the last is missed, `at risk` that the end lies in its band.
* answers_changed_wrongly: of answers that changed within 20 s of a kill, those that did not come true.
* jobs_lost: jobs that did not succeed. samples_lost: of all jobs, those that were not trained exactly once.
* measured_samples_lost: of jobs that were measured by training. ended_by_metric: jobs that a target has ended.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.client.client import Client
from coadapt.core.deadline_answer import Answer
from coadapt.core.job import JobSpec
from coadapt.core.rewards import Rewards
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.simulator.conditions import EARLY_S, Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.deadlines import earned, worth_of
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .arguments import at_least
from .harness import finish, table
from .months.victims import Victims, sigkill

CLUSTER = "2x t4:4"
LEASE_S, DEADLINE_LEASE_S = 10.0, 20.0
OPTIONS: dict[str, Any] = {
    "best_effort_lease_s": LEASE_S, "deadline_lease_s": DEADLINE_LEASE_S, "urgent_s": 10.0,
}  # fmt: skip
SCRIPT = Path(__file__).parent / "scripts" / "steps_again.py"
SCHEDULER = "ray::SchedulerService"
SCALE, STEPS, BATCH = 0.6, 16, 128
EPOCH_S = {1: 2.65, 2: 1.7, 4: 1.55}  # of the script on so many emulated T4 at this time scale
EPOCHS = (10, 16, 24)
TARGET, TARGET_EPOCH = 0.9, 14  # the accuracy, and the first epoch that has it
KINDS = ("strict", "soft", "best")
GAP_S, SPARE_S = 8.0, 20.0  # between two jobs on average, and what a deadline has beyond its multiple
JITTER_S, REPLAYS, CAP_S, LOOK_S, AFTER_KILL_S = 1.0, 20, 1200.0, 1.0, 20.0
SERVICE_KILL, NODE_KILL = 0.45, 0.7  # of the jobs that have come


@dataclass(frozen=True)
class Drawn:
    """A job, how long after the first one it comes, and how many epochs it trains."""

    after_s: float
    spec: JobSpec
    epochs: int
    is_new: bool = False


def drawn(count: int, seed: int, folder: Path) -> list[Drawn]:
    """Return jobs of all kinds in turn. Of each kind one has a script that nobody has measured."""
    draw, after_s, found = random.Random(seed), 0.0, list[Drawn]()
    for number in range(count):
        found.append(_job(number, draw, folder, after_s))
        after_s += draw.expovariate(1 / GAP_S)
    return found


def _job(number: int, draw: random.Random, folder: Path, after_s: float) -> Drawn:
    kind, gpus = KINDS[number % len(KINDS)], draw.choice((1, 1, 1, 2, 2, 4))
    epochs, has_target = draw.choice(EPOCHS), number % 9 in (4, 7, 8)
    is_new = number // len(KINDS) == 3
    trained = TARGET_EPOCH if has_target else epochs
    training: dict[str, Any] = {"adaptivity": "rigid", "report_interval_s": 2.0}
    if has_target:
        epochs, training["target"] = 30, {"metric": "accuracy", "at_least": TARGET}
    written: dict[str, Any] = {
        "name": f"{kind}-{number}",
        "script": SCRIPT.name,
        "args": [str(folder / "steps"), str(epochs), *([str(number)] if is_new else [])],
        "working_dir": str(folder / "job"),
        "resources": {"gpus": gpus},
        "training": training,
        "emulation": {"profile": "cifar10", "time_scale": SCALE},
        **({"profile": False} if is_new else {}),
    }
    if kind != "best":
        factor = 0.3 if number % 7 == 3 else draw.uniform(1.5, 5.0)
        within_s = round(factor * trained * EPOCH_S[gpus] + SPARE_S)
        written["deadline"] = {"within": within_s, "soft": kind == "soft"}
    return Drawn(after_s, JobSpec.model_validate(written), trained, is_new)


@dataclass(frozen=True)
class Told:
    """An answer: when it was given, and the band of the end, where it had one."""

    at_s: float
    answer: Answer
    low_s: float | None = None
    high_s: float | None = None


@dataclass
class Live:
    """Submits jobs as they come, notes what they are told, and kills the service and a node."""

    client: Client
    victims: Victims
    ids: list[str] = field(default_factory=list)
    told: dict[str, list[Told]] = field(default_factory=dict)
    kills: list[float] = field(default_factory=list)

    def run(self, jobs: Sequence[Drawn]) -> list[dict[str, Any]]:
        """Return a row for each job, once all have ended."""
        began_s, service, node = time.monotonic(), False, False
        while True:
            now_s = time.monotonic() - began_s
            while len(self.ids) < len(jobs) and jobs[len(self.ids)].after_s <= now_s:
                self.ids.append(self.client.submit(jobs[len(self.ids)].spec))
            if not service and len(self.ids) >= SERVICE_KILL * len(jobs):
                service = sum(sigkill(one) for one in self.victims.actors(SCHEDULER)) > 0
                self._killed("the service")
            if not node and len(self.ids) >= NODE_KILL * len(jobs):
                self.victims.kill_node(lambda nodes: nodes[-1])
                node = True
                self._killed("a node")
            rows = self._look()
            ended = [row for row in rows.values() if row["finished_s"] is not None]
            if len(ended) == len(jobs) or now_s > CAP_S:
                return [rows[id] for id in self.ids]
            time.sleep(LOOK_S)  # between two looks at the service, up to a limit

    def _killed(self, what: str) -> None:
        self.kills.append(time.time())
        print(f"{time.strftime('%H:%M:%S')} {what} was killed after {len(self.ids)} jobs", flush=True)

    def _look(self) -> dict[str, dict[str, Any]]:
        """Take note of the answers that have changed, and return the rows of jobs."""
        rows = {row["id"]: dict(row) for row in self.client.list()}
        for id, row in rows.items():
            if (told := row.get("deadline")) is None:
                continue
            known, answer = self.told.setdefault(id, []), Answer(told["answer"])
            if not known or known[-1].answer is not answer:
                known.append(Told(time.time(), answer, told["end_low_s"], told["end_high_s"]))
        return rows


def is_right(told: Told, row: dict[str, Any], rewards: Rewards) -> bool:
    """Return whether an answer came true."""
    jct_s, ended_s = row["finished_s"] - row["submitted_s"], row["finished_s"]
    if told.answer is Answer.ON_TIME:
        return bool(jct_s <= rewards.by_s[0])
    if told.answer is Answer.CANNOT:
        return bool(jct_s > rewards.last_s)
    return told.low_s is None or told.high_s is None or told.low_s <= ended_s <= told.high_s


def jittered(workload: Workload, begins_s: float) -> Iterator[Workload]:
    """Yield the same jobs on the same grid of leases, each a little later, again and again."""
    draw = np.random.default_rng(0)
    while True:
        later = workload.submit_s + begins_s + draw.uniform(0, JITTER_S, len(workload))
        yield replace(workload, submit_s=later).select(np.argsort(later, kind="stable"))


def replay(workload: Workload) -> Outcome:
    """Replay the recorded jobs under the nodes, the policy and the rounds of the live cluster."""
    nodes = read_cluster(CLUSTER)
    under = Conditions(Timing(LEASE_S, early_s=EARLY_S))
    return simulation(workload, nodes, "unisched", OPTIONS, source_of(False, None, nodes), under).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=at_least(12), default=36)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where the trace and what became of its jobs are kept")
    parser.add_argument("--again", type=Path, help="only replay what such a folder has kept")
    options = parser.parse_args()
    if options.again is not None:
        print(compared(options.again))
        return 0
    began_s, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="coadapt-slo-"))
    out = options.out or folder / "out"
    try:
        for name in ("job", "steps"):
            (folder / name).mkdir()
        out.mkdir(parents=True, exist_ok=True)
        shutil.copy(SCRIPT, folder / "job")
        jobs = drawn(options.jobs, options.seed, folder)
        settings = Settings(
            state_dir=str(folder / "state"), policy="unisched", policy_options=OPTIONS, round_interval_s=LEASE_S,
            restart_cost_s=5.0,
        )  # fmt: skip
        with local_cluster.cluster(CLUSTER, settings=settings) as client:
            live = Live(client, Victims(settings.state_dir, folder.name))
            rows = live.run(jobs)
            (out / "trace.jsonl").write_text("".join(f"{line}\n" for line in client.trace()))
        (out / "jobs.json").write_text(json.dumps(rows))
        figures = answers_of(live, rows, jobs) | samples_of(rows, jobs, live.kills[-1]) | compared(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    finish("slo_live", figures | {"kills": len(live.kills), "seconds": round(time.monotonic() - began_s, 1)})
    return int(bool(figures["jobs_lost"]))


def answers_of(live: Live, rows: Sequence[dict[str, Any]], jobs: Sequence[Drawn]) -> dict[str, float]:
    """Print what jobs were told beside what came, and return the figures of answers."""
    cells, right, wrongly, at_risk = list[list[object]](), list[bool](), 0, 0
    for row, job in zip(rows, jobs, strict=True):
        if job.spec.deadline is None or row["finished_s"] is None:
            continue
        rewards = job.spec.deadline.rewards(row["submitted_s"])
        assert rewards is not None
        all_told = live.told.get(row["id"], [])
        told = [one for one in all_told if one.answer not in (Answer.MEASURED_FIRST, Answer.MISSED)]
        if told:
            right.append(is_right(told[0], row, rewards))
            at_risk += told[0].answer is Answer.AT_RISK
        changed = [one for one in told if any(0 <= one.at_s - at_s <= AFTER_KILL_S for at_s in live.kills)]
        wrongly += sum(not is_right(one, row, rewards) for one in changed)
        jct_s = row["finished_s"] - row["submitted_s"]
        said = ", ".join(f"{one.answer.line} at {one.at_s - row['submitted_s']:.0f}" for one in all_told)
        first = str(right[-1]) if told else "-"
        cells.append([row["name"], rewards.by_s[0], jct_s, worth_of(rewards, jct_s), said or "nothing", first])
    table("What jobs were told, s", ["job", "due", "JCT", "earned", "told", "first was right"], cells)
    return {
        "answers": len(right),
        "answers_right": round(float(np.mean(right)), 3) if right else 0.0,
        "answers_at_risk": at_risk,
        "answers_changed_wrongly": wrongly,
    }


def samples_of(rows: Sequence[dict[str, Any]], jobs: Sequence[Drawn], killed_s: float) -> dict[str, float]:
    """Return the figures of what jobs have trained. `killed_s`: when a node was killed."""
    lost, measured, again, by_metric = 0, 0, 0, 0
    for row, job in zip(rows, jobs, strict=True):
        metrics = row["metrics"]
        mine = abs(int(metrics.get("steps", 0)) - STEPS * job.epochs) * BATCH
        lost += mine
        ran = (row["started_s"] or row["finished_s"] or 0.0) <= killed_s <= (row["finished_s"] or 0.0)
        repeated = 0 if ran else int(metrics.get("steps_again", 0))  # with its node it goes back to its checkpoint
        again = max(again, repeated)
        if job.is_new:
            measured += mine + repeated * BATCH
        by_metric += row["reason"] == "reached its target"
    return {
        "jobs": len(rows),
        "jobs_lost": sum(row["phase"] != "succeeded" for row in rows),
        "samples_lost": lost,
        "steps_again_max": again,
        "measured_by_training": sum(job.is_new for job in jobs),
        "measured_samples_lost": measured,
        "with_metric": sum(job.spec.training.target is not None for job in jobs),
        "ended_by_metric": by_metric,
    }


def compared(out: Path) -> dict[str, float]:
    """Print each job beside its replays, and return the figures of both."""
    workload, rows = read_trace(out / "trace.jsonl"), json.loads((out / "jobs.json").read_text())
    by_id = {row["id"]: row for row in rows}
    live_s = np.array([by_id[id]["finished_s"] - by_id[id]["submitted_s"] for id in workload.ids])
    begins_s = min(row["submitted_s"] for row in rows) % DEADLINE_LEASE_S
    jct_s, misses = list[np.ndarray](), list[float]()
    for one in islice(jittered(workload, begins_s), REPLAYS):
        ran = replay(one)
        at = {id: i for i, id in enumerate(ran.workload.ids)}
        jct_s.append(ran.jct_s[[at[id] for id in workload.ids]])
        misses.append(float(1 - np.nanmean(earned(ran))))
    part = [worth_of(due, jct) for due, jct in zip(workload.rewards, live_s.tolist(), strict=True)]
    mean_s, missed = np.mean(jct_s, axis=0), float(1 - np.nanmean(part))
    columns = zip(workload.ids, workload.gpus.tolist(), workload.rewards, live_s, mean_s, strict=True)
    cells = [
        [id, gpus, "-" if due is None else due.by_s[0], jct, simulated, f"{simulated / jct - 1:+.0%}"]
        for id, gpus, due, jct, simulated in columns
    ]
    head = ["job", "GPUs", "due", "JCT", "in replays", "off"]
    table("Each job, live and in the mean of its replays, s", head, cells)
    return {
        "in_trace": len(workload),
        "live_miss_rate": round(missed, 4),
        "simulated_miss_rate": round(float(np.mean(misses)), 4),
        "miss_points_off": round(100 * abs(missed - float(np.mean(misses))), 2),
        "live_mean_jct_s": round(float(live_s.mean()), 1),
        "simulated_mean_jct_s": round(float(mean_s.mean()), 1),
        "jct_rel_err": round(abs(float(mean_s.mean() / live_s.mean()) - 1), 4),
    }


if __name__ == "__main__":
    sys.exit(main())
