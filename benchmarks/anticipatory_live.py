"""Teams that lend idle GPUs, live: thirty jobs of three teams, with nothing lent and under `anticipatory`.

    python -m benchmarks.anticipatory_live [--jobs 30] [--seed 0]

Teams send bursts of jobs in turn to two emulated nodes of four GPUs, so that the GPUs of the others are idle. Half
of the jobs may not be stopped. The same jobs come at the same times under the reference, which is strict order of
submission in each team. The service is killed twice in each run. Nobody foretells what comes.

* mean_speedup: JCT under the reference over JCT, mean of jobs. ratio_of_means: of the mean JCTs.
* worst_slowdown_over_start: the most that a job ended later than in the reference, over `handed_over_s`. That is
  the 90th percentile of the time from being given GPUs to training on them, which includes that a borrower saves
  and leaves them. slowed: jobs that ended later by more than that.
* borrowers_forgotten: jobs that borrowed before a kill of the service, and after it did not although the turn of
  their team's guarantee had not come to them. borrowed: jobs that ever borrowed. reclaimed: those that gave back.
* samples_lost: of all jobs, those that were not trained exactly once. jobs_lost: jobs that did not succeed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.client.client import Client
from coadapt.core.job import JobSpec
from coadapt.core.settings import Settings
from coadapt.core.teams import Team, Teams
from coadapt.deploy import local_cluster
from coadapt.scheduler.store.store import Store

from .arguments import at_least
from .harness import finish, table
from .months.victims import Victims, sigkill

CLUSTER, GUARANTEE = "2x t4:4", {"vision": 3, "speech": 3, "guests": 2}
ROUND_S = 5.0
RUNS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "reference": ("team_queues", {"rule": "strict"}),
    "anticipatory": ("anticipatory", {"windows_s": [10, 30, 90], "tick_s": ROUND_S}),
}
SCRIPT = Path(__file__).parent / "scripts" / "steps_again.py"
SCHEDULER = "ray::SchedulerService"
SCALE, STEPS, BATCH = 0.6, 16, 128
BURST, BURST_S, BETWEEN_S = 5, 2.0, 40.0  # jobs of a burst, how long it takes, and until the next one begins
EPOCHS, MEASURED_EPOCHS = (10, 16, 24), 2
KILLS = (0.35, 0.7)  # of the jobs that have come
CAP_S, LOOK_S = 900.0, 1.0


@dataclass(frozen=True)
class Drawn:
    """A job, how many seconds after the first one it comes, and how many epochs it trains."""

    after_s: float
    spec: JobSpec
    epochs: int


def drawn(count: int, seed: int, folder: Path) -> list[Drawn]:
    """Return bursts of the teams in turn."""
    draw, found = random.Random(seed), list[Drawn]()
    teams = list(GUARANTEE)
    for number in range(count):
        burst, at = divmod(number, BURST)
        after_s = burst * BETWEEN_S + at * BURST_S / BURST
        team, epochs = teams[burst % len(teams)], draw.choice(EPOCHS)
        spec = job(f"{team}-{number}", folder, epochs, draw.choice((1, 1, 2)), team, bool(number % 2))
        found.append(Drawn(after_s, spec, epochs))
    return found


def job(name: str, folder: Path, epochs: int, gpus: int, team: str, preemptible: bool) -> JobSpec:
    """Return a job of a fixed size. All have the model that the first one has measured."""
    return JobSpec.model_validate(
        {
            "name": name,
            "script": SCRIPT.name,
            "args": [str(folder / "steps"), str(epochs)],
            "working_dir": str(folder / "job"),
            "team": team,
            "preemptible": preemptible,
            "resources": {"gpus": gpus},
            "training": {"adaptivity": "rigid", "report_interval_s": 1.0},
            "emulation": {"profile": "cifar10", "time_scale": SCALE},
            "fingerprint": SCRIPT.stem,
        }
    )


@dataclass
class Live:
    """Submits jobs as they come, kills the service, and notes who borrows."""

    client: Client
    victims: Victims
    ids: list[str] = field(default_factory=list)
    borrowed: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    kept: int = 0

    def run(self, jobs: Sequence[Drawn]) -> list[dict[str, Any]]:
        """Return a row for each job, once all have ended."""
        began_s, kills = time.monotonic(), list(KILLS)
        while True:
            now_s = time.monotonic() - began_s
            while len(self.ids) < len(jobs) and jobs[len(self.ids)].after_s <= now_s:
                self.ids.append(self.client.submit(jobs[len(self.ids)].spec))
            rows = self._rows()
            if kills and len(self.ids) >= kills[0] * len(jobs):
                self._kill(rows)
                kills.pop(0)
            ended = [row for id, row in rows.items() if id in self.ids and row["finished_s"] is not None]
            if len(ended) == len(jobs) or now_s > CAP_S:
                return [rows[id] for id in self.ids]
            time.sleep(LOOK_S)  # between two looks at the service, up to a limit

    def _rows(self) -> dict[str, dict[str, Any]]:
        rows = {row["id"]: dict(row) for row in self.client.list()}
        self.borrowed |= {id for id, row in rows.items() if row["borrows"]}
        return rows

    def _kill(self, before: Mapping[str, Mapping[str, Any]]) -> None:
        """Kill the service, and look who borrows once it is back."""
        killed = sum(sigkill(one) for one in self.victims.actors(SCHEDULER))
        print(f"{time.strftime('%H:%M:%S')} {killed} service was killed after {len(self.ids)} jobs", flush=True)
        after = self._rows()
        waits: dict[str, float] = {}  # by team, when the job was submitted whose turn is next
        for row in after.values():
            if not row["gpus"] and row["finished_s"] is None:
                waits[row["team"]] = min(waits.get(row["team"], np.inf), row["submitted_s"])
        for id, row in before.items():
            stays = row["borrows"] and after[id]["gpus"] and after[id]["nodes"] == row["nodes"]
            if stays:
                self.kept += after[id]["borrows"]
            if stays and not after[id]["borrows"] and waits.get(row["team"], np.inf) < row["submitted_s"]:
                self.forgotten.add(id)


@dataclass(frozen=True)
class Ran:
    """What came of a run. start_s: how long its jobs took from being given GPUs to training."""

    live: Live
    rows: Sequence[dict[str, Any]]
    start_s: Sequence[float]

    @property
    def jct_s(self) -> np.ndarray:
        return np.array([row["finished_s"] - row["submitted_s"] for row in self.rows])


def ran(name: str, count: int, seed: int, folder: Path) -> Ran:
    """Run the jobs under a policy on a cluster of their own."""
    policy, given = RUNS[name]
    for part in ("job", "steps"):
        (folder / part).mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "job")
    settings = Settings(
        state_dir=str(folder / "state"), policy=policy, policy_options=dict(given), round_interval_s=ROUND_S,
        restart_cost_s=5.0,
    )  # fmt: skip
    with local_cluster.cluster(CLUSTER, settings=settings) as client:
        user = client.me()["user"]
        teams = {team: Team(users=[user], guarantee={"t4": gpus}) for team, gpus in GUARANTEE.items()}
        client.apply_teams(Teams(teams=teams).model_dump(mode="json"))
        first = client.submit(job("measured", folder, MEASURED_EPOCHS, 1, "vision", True))
        client.wait([first], timeout_s=CAP_S)
        live = Live(client, Victims(settings.state_dir, folder.name))
        rows = live.run(drawn(count, seed, folder))
    store = Store(settings.store)
    try:
        records = [record for record in store.every() if record.id in live.ids]
    finally:
        store.close()
    starts = [record.start_s for record in records if record.start_s is not None]
    print(f"{name}: mean JCT {np.mean([r['finished_s'] - r['submitted_s'] for r in rows]):.1f} s", flush=True)
    return Ran(live, rows, starts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=at_least(10), default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began_s, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="coadapt-lends-"))
    try:
        runs = {name: ran(name, options.jobs, options.seed, folder / name) for name in RUNS}
        jobs = drawn(options.jobs, options.seed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    figures = told(runs["reference"], runs["anticipatory"], jobs)
    finish("anticipatory_live", figures | {"seconds": round(time.monotonic() - began_s, 1)})
    return int(bool(figures["jobs_lost"] or figures["borrowers_forgotten"]))


def told(reference: Ran, found: Ran, jobs: Sequence[Drawn]) -> dict[str, float]:
    """Print each job in both runs, and return the figures."""
    later_s, speedup = found.jct_s - reference.jct_s, reference.jct_s / found.jct_s
    cells = [
        [row["name"], row["gpus"] or drawn.spec.asked_gpus, drawn.spec.preemptible, before, now, row["evictions"],
         "yes" if id in found.live.borrowed else ""]
        for id, row, drawn, before, now in zip(
            found.live.ids, found.rows, jobs, reference.jct_s, found.jct_s, strict=True
        )
    ]  # fmt: skip
    head = ["job", "GPUs", "may be stopped", "JCT, reference", "JCT", "stopped", "borrowed"]
    table("Jobs of three teams, s", head, cells)
    start_s, handed_over_s = np.quantile(found.start_s, [0.5, 0.9]).tolist()
    lost = sum(
        abs(int(row["metrics"].get("steps", 0)) - STEPS * drawn.epochs) + int(row["metrics"].get("steps_again", 0))
        for row, drawn in zip(found.rows, jobs, strict=True)
    )
    return {
        "jobs": len(jobs),
        "mean_speedup": round(float(speedup.mean()), 3),
        "ratio_of_means": round(float(reference.jct_s.mean() / found.jct_s.mean()), 3),
        "reference_mean_jct_s": round(float(reference.jct_s.mean()), 1),
        "mean_jct_s": round(float(found.jct_s.mean()), 1),
        "start_s": round(start_s, 2),
        "handed_over_s": round(handed_over_s, 2),
        "worst_slowdown_s": round(float(max(later_s.max(), 0.0)), 2),
        "worst_slowdown_over_start": round(float(max(later_s.max(), 0.0)) / handed_over_s, 3),
        "slowed": int((later_s > handed_over_s).sum()),
        "borrowed": len(found.live.borrowed),
        "borrowers_at_kills": found.live.kept,
        "borrowers_forgotten": len(found.live.forgotten),
        "reclaimed": sum(row["evictions"] > 0 for row in found.rows),
        "samples_lost": lost * BATCH,
        "jobs_lost": sum(row["phase"] != "succeeded" for one in (reference, found) for row in one.rows),
        "kills": 2 * len(KILLS),
    }


if __name__ == "__main__":
    sys.exit(main())
