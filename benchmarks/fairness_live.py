"""Three teams on an emulated cluster of three GPU types: what is lent, what comes back, and what that costs.

    python -m benchmarks.fairness_live [--policy sia]

Each team is guaranteed two GPUs of a type of its own. By turns each leaves its guarantee idle, so that jobs of the
others borrow it; then it asks for it. All figures are read from the store afterwards:

* `lent_rounds`: the longest that a GPU of an idle guarantee was free while a job of another team waited for it.
* `back_rounds`: the longest that a guarantee lacked what was asked for, beyond the leases of jobs of borrowers.
* `caps_exceeded`: events after which a team held more than its cap. A GPU is held until its job has left it.
* `reclaimed`: jobs that gave way. `steps_lost_max`: the most steps that one of them did again, as it reported.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from coadapt.client.client import Client
from coadapt.core.emulated_nodes import parse
from coadapt.core.events import EventKind
from coadapt.core.job import Emulation, JobSpec, Phase, ResourceRequest
from coadapt.core.settings import Settings
from coadapt.core.teams import Team, Teams
from coadapt.core.training_config import Adaptivity, TrainingConfig
from coadapt.deploy import local_cluster
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.store.store import Store

from .harness import finish, table
from .teams_held import Found, TeamJob, moments, read

CLUSTER = "1x a100:2, 1x rtx:2, 1x t4:4"
ROUND_S, LEASE_S, LIMIT_S = 5.0, 15.0, 90.0
SCRIPT = Path(__file__).parent / "scripts" / "steps_again.py"
OWN = {"vision": "a100", "speech": "rtx", "guests": "t4"}
CAPS = {"vision": {}, "speech": {"a100": 1, "t4": 3}, "guests": {"a100": 1}}
EPOCHS = {"a100": 40, "rtx": 24, "t4": 14}  # of jobs that ask for a guarantee; some 20 s on one GPU
BORROWERS, BORROWS_EPOCHS, MEASURED_EPOCHS = 3, 90, 2
GUARANTEE = 2


def teams_of(user: str) -> Teams:
    """Return three teams, with one user in all of them."""
    teams = {
        name: Team(users=[user], guarantee={gpu_type: GUARANTEE}, cap=CAPS[name]) for name, gpu_type in OWN.items()
    }
    return Teams(teams=teams, lease_s=LEASE_S)


@dataclass
class Story:
    """What happens on the cluster.

    own: jobs that ask for the guarantee of their team. cancelled: those that need not run to their end.
    """

    client: Client
    folder: Path
    own: list[str] = field(default_factory=list)
    borrowers: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in OWN})
    cancelled: list[str] = field(default_factory=list)
    lending_s: float = 0.0  # from when on what is lent counts
    count: int = 0

    def play(self) -> None:
        """Let each team leave its guarantee to others, and ask for it."""
        self.client.apply_teams(teams_of(self.client.me()["user"]).model_dump(mode="json"))
        first = self.submit("vision", list(OWN.values()), MEASURED_EPOCHS)
        self.client.wait([first], timeout_s=LIMIT_S)
        self.lending_s = time.time()
        for team, gpu_type in OWN.items():
            self.turn(team, gpu_type)
        rows = [row for row in self.client.list() if row["finished_s"] is None]
        for row in rows:
            if not (row["evictions"] or row["restarts"]):  # it has nothing to tell of what giving way costs
                self.client.cancel(row["id"])
                self.cancelled.append(row["id"])
        self.client.wait([row["id"] for row in rows], timeout_s=2 * LIMIT_S)

    def turn(self, team: str, gpu_type: str) -> None:
        """Let others borrow what a team was promised, until it asks for it."""
        for other in OWN.keys() - {team}:
            self.borrow(other)
        self.until(f"{gpu_type} of {team} is lent", lambda: self.used(gpu_type) == self.gpus(gpu_type))
        own = [self.submit(team, [gpu_type], EPOCHS[gpu_type]) for _ in range(GUARANTEE)]
        self.own += own
        self.until(f"{team} has its {gpu_type}", lambda: self.run(own))
        self.client.wait(own, timeout_s=LIMIT_S)

    def submit(self, team: str, gpu_types: list[str], epochs: int, most: int = 1) -> str:
        """Submit a job that does not change its batch size, so that its steps can be counted."""
        self.count += 1
        spec = JobSpec(
            name=f"{team}-{self.count}",
            script=SCRIPT.name,
            args=[str(self.folder / f"steps-{self.count}"), str(epochs)],
            working_dir=str(self.folder / "job"),
            team=team,
            resources=ResourceRequest(max_gpus=most, gpu_types=gpu_types),
            training=TrainingConfig(adaptivity=Adaptivity.STRONG_SCALING, report_interval_s=2.0),
            emulation=Emulation(profile="cifar10"),
            fingerprint=SCRIPT.stem,  # all know what the first one has measured
        )
        return self.client.submit(spec)

    def borrow(self, team: str) -> None:
        """See to it that a team has enough jobs that borrow what others were promised."""
        live = {row["id"] for row in self.client.list() if row["finished_s"] is None}
        types = [gpu_type for other, gpu_type in OWN.items() if other != team]
        lacks = BORROWERS - len(live & set(self.borrowers[team]))
        self.borrowers[team] += [self.submit(team, types, BORROWS_EPOCHS, 2) for _ in range(lacks)]

    def used(self, gpu_type: str) -> int:
        return sum(row["gpus"] for row in self.client.list() if row["gpu_type"] == gpu_type)

    def gpus(self, gpu_type: str) -> int:
        return sum(node.gpus for node in parse(CLUSTER) if node.gpu_type == gpu_type)

    def run(self, jobs: list[str]) -> bool:
        return all(row["started_s"] is not None for row in self.client.list() if row["id"] in jobs)

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + LIMIT_S
        while not holds():
            if time.monotonic() > deadline_s:
                there = "; ".join(f"{row['name']} {row['status']} {row['reason']}" for row in self.client.list())
                raise SystemExit(f"it was not so in {LIMIT_S:.0f} s that {what}: {there}")
            time.sleep(0.5)  # between two questions to the service, up to a limit
        print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="sia", help="by default sia")
    options = parser.parse_args()
    began_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="coadapt-fairness-"))
    try:
        (folder / "job").mkdir()
        shutil.copy(SCRIPT, folder / "job")
        settings = Settings(
            state_dir=str(folder / "state"), policy=options.policy, round_interval_s=ROUND_S, restart_cost_s=5.0
        )
        with local_cluster.cluster(CLUSTER, settings=settings) as client:
            story = Story(client, folder)
            story.play()
        store = Store(settings.store)
        try:
            figures = told(story, list(store.every()), store.events_after(0, 1_000_000))
        finally:
            store.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    finish("fairness_live", figures | {"seconds": round(time.monotonic() - began_s, 1)})
    return int(not figures["reclaimed"])  # a run in which nobody gave way shows nothing


def told(story: Story, records: list[JobRecord], events: list[Event]) -> dict[str, float | int]:
    """Print what the store tells, and return the figures."""
    jobs = {
        job.id: TeamJob(
            job.spec.team or "",
            job.id in story.own,
            frozenset(job.spec.resources.gpu_types or ()),
            (job.state.queued_s or job.state.submitted_s, job.state.finished_s or float("inf")),
        )
        for job in records
    }
    teams = teams_of("")
    found = read(moments(events, jobs), jobs, teams, {t: story.gpus(t) for t in OWN.values()}, story.lending_s)
    again = {job.id: int(job.metrics.get("steps_again", -1)) for job in records}
    _show(records, found, again)
    lost = [again[job] for job in set(found.reclaimed)]
    return {
        "lent_rounds": round(max(found.lent_s, default=0.0) / ROUND_S, 2),
        "back_rounds": round(max(found.back_s, default=0.0) / ROUND_S, 2),
        "caps_exceeded": len(found.over_cap),
        "steps_lost_max": max(lost, default=0),
        "jobs_lost": sum(
            job.phase is not (Phase.CANCELLED if job.id in story.cancelled else Phase.SUCCEEDED) for job in records
        ),
        "reclaimed": len(found.reclaimed),
        "lent": found.lent,
        "guarantees_asked": len(found.back_s),
        "back_s_max": round(max(found.waited_s, default=0.0), 1),
        "jobs": len(records),
        "rounds_failed": sum(event.kind is EventKind.ERROR for event in events),
    }


def _show(records: list[JobRecord], found: Found, again: dict[str, int]) -> None:
    rows = [
        [
            job.spec.name,
            ", ".join(job.spec.resources.gpu_types or ()),
            job.phase.value,
            job.state.evictions,
            job.state.resizes,
            job.state.restarts,
            found.reclaimed.count(job.id),
            again[job.id],
        ]
        for job in records
    ]
    head = ["job", "GPU types", "phase", "stopped", "resized", "restarts", "gave way", "steps done again"]
    table("Jobs of three teams", head, rows)
    each = zip(found.waited_s, found.back_s, strict=True)
    table("Guarantees that were asked for", ["s until had", "of these beyond leases"], [[*one] for one in each])
    print("\n".join(found.over_cap))


if __name__ == "__main__":
    raise SystemExit(main())
