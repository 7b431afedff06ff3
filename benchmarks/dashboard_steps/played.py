"""A cluster to look at: the real scheduler and the real pages over a real store; only executors are played.

    python -m benchmarks.dashboard_steps.played FOLDER [--empty] [--jobs N] [--teams]

It plays three hours within seconds, then goes on as time passes. It prints one line of JSON with its address and a
token of each user, and obeys one word a line of its standard input.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.api.app import make_app
from coadapt.api.serve import Server
from coadapt.core.api_settings import ApiSettings
from coadapt.core.events import EventKind
from coadapt.core.identity import Role
from coadapt.core.job import Phase
from coadapt.core.settings import Settings
from coadapt.core.slot import Slot
from coadapt.executor.files.job_log import JobLog
from coadapt.executor.protocol.job_events import (
    Checkpointed,
    JobFailed,
    JobFinished,
    ProfileFinished,
    Released,
    Reported,
    Running,
)
from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.scheduler.changes.verbs import pause
from coadapt.scheduler.cycle import SchedulingCycle
from coadapt.scheduler.forecasts.forecaster import Forecaster
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.nodes.closing_nodes import ClosingNodes
from coadapt.scheduler.observers.hooks import Change, CycleHook, RoundDone
from coadapt.scheduler.observers.metrics_hook import MetricsHook
from coadapt.scheduler.rounds.chosen_policy import ChosenPolicy
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.store.failures import StoreFailure
from coadapt.scheduler.store.metrics import MetricsHistory
from coadapt.scheduler.store.store import Store

from benchmarks.months.many_jobs import fill, measured
from tests.support.api import DirectScheduler, service_of
from tests.support.cycles import ManualClock, World, nodes_of
from tests.support.packages import kept
from tests.support.rounds import cluster

from .cast import BEFORE_S, CAST, NEWCOMER, NODES, TEAMS, Played
from .cast import Role as Part

USERS = {"vic": Role.VIEWER, "ann": Role.USER, "bob": Role.USER, "eve": Role.USER, "ops": Role.OPERATOR}
PROFILE_S, REPORT_S, STEP_S = 40.0, 30.0, 15.0
FORETOLD_S = 60.0  # so long the first forecast is waited for
MANY_NODES = "8x t4:8"  # of the cluster with very many jobs


class PlayedClock(ManualClock):
    """A clock that is moved by hand, between which time passes as it does."""

    def monotonic_s(self) -> float:
        return self.now_s - 900_000.0 + time.perf_counter()


class Foretells(CycleHook):
    """Tells a forecaster of rounds, once there is one."""

    forecaster: Forecaster | None = None

    def changed(self, change: Change) -> None:
        """Pass it on."""
        if self.forecaster is not None:
            self.forecaster.changed(change)

    def planned(self, done: RoundDone) -> None:
        """Pass it on."""
        if self.forecaster is not None:
            self.forecaster.planned(done)


class PlayedWorld(World):
    """A cycle whose executors do at once what they are told, and report what their jobs would."""

    def __init__(self, folder: Path, nodes: str, *, many: bool = False, **settings: Any) -> None:
        self.chosen = ChosenPolicy(Settings(state_dir=str(folder), **settings))
        self.played: dict[str, Played] = {}
        self._logs: dict[str, JobLog] = {}
        self.profile_s, self.many = PROFILE_S, many
        super().__init__(folder, nodes, strict=False, planner=self.chosen.now, **settings)
        self.all = replace(self.all, nodes=tuple(replace(node, emulated=True) for node in self.all.nodes))
        self.nodes.snapshot = nodes_of(self.all)

    def open(self) -> None:
        """Begin a cycle that keeps the history of metrics, too."""
        self.clock = PlayedClock()
        self.store = Store(self.settings.store_path)
        self.closing = ClosingNodes(self.nodes, self.store, self.clock)
        self.history, self.foretells = MetricsHistory(self.store), Foretells()
        self.cycle = SchedulingCycle(
            self.store,
            self.planner,
            self.closing,
            self.executors,
            self.clock,
            self.settings,
            hooks=[MetricsHook(self.history), self.foretells],
        )

    def comes(self, part: Part) -> None:
        """Submit a job of the story."""
        orders = self.cycle.orders
        job = orders.submit(part.spec(), idempotency_key=part.name, script_key="", owner=part.owner)
        self.played[job.id] = Played(part, np.random.default_rng(len(self.played)))

    def act(self) -> None:
        """Let each executor do what it would by now, then the scheduler."""
        now = self.clock.steady_s()
        for job in tuple(self.store.unretired.values()):
            if job.id not in self.played and not self.many:
                self._meet(job)
            self._leave(job)
            self._measure(self.store.get(job.id), now)
            self._train(self.store.get(job.id), now)
        self.executors.sent.clear()
        self.closing.tick(self.cycle.in_use)
        self.cycle.step()

    def _meet(self, job: JobRecord) -> None:
        """Play a job that somebody else has submitted; a fork goes on where its origin was."""
        origin = self.played.get(job.origin.job_id) if job.origin is not None else None
        part = origin.role if origin is not None else NEWCOMER
        self.played[job.id] = Played(replace(part, name=job.spec.name, becomes=""), np.random.default_rng(1))
        if origin is not None:
            self.played[job.id].progress = origin.progress

    def _tell(self, job: JobRecord, event: Any) -> None:
        self.cycle.on_event(job.id, event, self.store.get(job.id).life)

    def _leave(self, job: JobRecord) -> None:
        wanted: set[Slot] = set(job.target) if job.active else set()
        gone = tuple(sorted(set(job.held) - wanted))
        if gone:
            steps = int(job.report.get("steps", 0))
            if steps and not wanted:  # a job that leaves saves first
                CheckpointStore(self.settings.checkpoint_url(job.id, None)).save({"steps": steps}, steps)
            self._tell(job, Released(job.sequence, gone, saved_step=steps or None))

    def _measure(self, job: JobRecord, now: float) -> None:
        for run in job.profiles:
            slot = run.slot
            if slot is None or not run.active or now - (run.started_s or now) < self.profile_s:
                continue
            known = {*(job.measurements.profiles if job.measurements else ()), run.gpu_type}
            found = self.played[job.id].measured(sorted(known)) if job.id in self.played else measured()
            self._tell(job, ProfileFinished(run.gpu_type, ok=True, measurements=found, sequence=run.sequence))
            self._tell(job, Released(self.store.get(job.id).sequence, (slot,)))

    def _train(self, job: JobRecord, now: float) -> None:
        if not job.active or not job.target:
            return
        if tuple(job.group) != tuple(job.target):
            pause_s = 3.0 if job.state.started_s is not None else None
            self._tell(job, Running(job.sequence, job.target, warm=bool(job.group), pause_s=pause_s))
        played = self.played.get(job.id)
        if played is None or job.measurements is None or (played.seen_s and now - played.seen_s < REPORT_S):
            return
        gpus, nodes = sum(slot.gpus for slot in job.target), len({slot.node_id for slot in job.target})
        report = played.report(job.measurements, job.spec, job.target[0].gpu_type, nodes, gpus, now)
        if report is None:
            return
        self._tell(job, Reported(report, job.measurements.with_report(report)))
        self._write_log(job, played, now)
        if played.fraction >= 0.4 and played.role.becomes == "fails":
            self._tell(job, JobFailed("RuntimeError: the loss is NaN", TRACEBACK, 1))
        elif played.fraction >= 0.25 and played.role.becomes == "paused":
            self._tell(job, Checkpointed(report.progress.steps, 1.2))
            self.cycle.orders.do(job.id, pause)
            played.role = replace(played.role, becomes="")
        elif played.fraction >= 1:
            self._tell(job, JobFinished(report.metrics, target_reached=True))

    def _write_log(self, job: JobRecord, played: Played, now: float) -> None:
        clock = time.strftime("%H:%M:%S", time.localtime(now))
        line = f"{clock} step {played.steps:>7,}  loss {job.metrics.get('loss', 2.5):.4f}\n"
        if job.id not in self._logs:
            self._logs[job.id] = JobLog(str(self.settings.log_dir(job.id)))
        self._logs[job.id].write("rank-0", line)


TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 88, in <module>
    loss.backward()
RuntimeError: the loss is NaN
"""


def play(world: PlayedWorld, until_s: float) -> None:
    """Play the story up to a moment."""
    begin_s = until_s - BEFORE_S
    world.clock.now_s = begin_s
    waiting = list(CAST)
    while world.clock.now_s < until_s:
        while waiting and waiting[0].comes_s <= world.clock.now_s - begin_s:
            world.comes(waiting.pop(0))
        world.act()
        world.clock.forward(STEP_S)


class Stage:
    """The served cluster, and what it is told to do."""

    def __init__(self, folder: Path, *, empty: bool, jobs: int, teams: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"policy": "coadapt", "round_interval_s": 60.0}
        if jobs:
            fill(Settings(state_dir=str(folder)), jobs, jobs)
        self.world = PlayedWorld(folder, MANY_NODES if jobs else NODES, many=bool(jobs), **settings)
        if jobs or empty:
            self.world.clock.now_s = time.time()
        if empty:
            self.world.nodes.snapshot = nodes_of(cluster("1x t4:1"), asleep={"t4-000": False})
            self.world.nodes.snapshot = replace(self.world.nodes.snapshot, asleep=())
        elif not jobs:
            play(self.world, time.time())
        self.world.act()
        self.world.profile_s = 1.0
        self.service = service_of(self.world)
        self.service.parts.policy.now = self.world.chosen.now
        if teams:
            self.service.apply_teams(TEAMS)
        if not jobs:
            self._foretell()
        kept(self.world.settings.package_dir)
        self.tokens = {}
        for user, role in USERS.items():
            self.service.put_user(user, role.value)
            self.tokens[user] = self.service.issue_token(user)["token"]
        self.app = make_app(DirectScheduler(self.service))
        self.server = Server(self.app, ApiSettings(), 0)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def _foretell(self) -> None:
        """Have starts and ends foretold from the round on that comes now."""
        forecaster = self.world.foretells.forecaster = self.service.parts.forecaster
        self.world.cycle.ask_round()
        self.world.clock.forward(1.0)
        self.world.act()
        forecaster.wait(FORETOLD_S)

    def _live(self) -> None:
        clock: ManualClock = self.world.clock
        while not self._ends.wait(1.0 if self.world.many else 0.5):
            clock.now_s = time.time()
            with self.world.cycle.lock:
                self.world.act()

    # --- what it is told -----------------------------------------------------------------------------------

    def event(self, number: str = "1") -> dict[str, float]:
        """Log so many events, some hundred a second."""
        jobs, store = list(self.world.store.unretired), self.world.store
        for first in range(0, int(number), 100):
            with self.world.cycle.lock:
                now = time.time()
                some = range(first, min(first + 100, int(number)))
                events = [Event(EventKind.METRICS, now, jobs[at % len(jobs)], {"text": "a metric"}) for at in some]
                store.log(*events)
            if int(number) > 100:
                time.sleep(0.05)  # so that a page sees them come
        return {"at_s": time.time()}

    def finish(self) -> dict[str, Any]:
        """End the oldest job that trains, and tell when."""
        with self.world.cycle.lock:
            job = next(one for one in self.world.store.unretired.values() if one.phase is Phase.RUNNING)
            at_s = time.time()
            self.world._tell(job, JobFinished({"loss": 0.1}))
        return {"job": job.id, "at_s": at_s}

    def trouble(self) -> dict[str, Any]:
        """Let everything go wrong that a page tells of."""
        world = self.world
        with world.cycle.lock:
            world.closing.drain(world.all.nodes[-1].id, 600.0, "ops")
            job = next(one for one in world.store.unretired.values() if one.phase is Phase.RUNNING)
            world.store.save(replace(job, quarantine="its measurements cannot be read: step_time_s: -1"))
            world.cycle._watch.degraded = None
        watch = self.service.parts.watch
        watch.wrote(StoreFailure("the store cannot be written: database or disk is full"), 0.1)
        self._ends.set()
        return {"job": job.id}

    def end(self) -> None:
        """Stop it."""
        self._ends.set()
        self._thread.join(10)
        self.server.stop()
        self.service.parts.forecaster.stop()
        self.service.parts.asker.stop()
        self.world.store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--teams", action="store_true")
    args = parser.parse_args()
    stage = Stage(args.folder, empty=args.empty, jobs=args.jobs, teams=args.teams)
    jobs = {played.role.name: job_id for job_id, played in stage.world.played.items()}
    told = {"url": f"http://127.0.0.1:{stage.server.port}", "tokens": stage.tokens, "jobs": jobs}
    print(json.dumps(told), flush=True)
    for line in sys.stdin:
        words = line.split()
        if not words or words[0] == "end":
            break
        does: Callable[..., Any] = getattr(stage, words[0])
        print(json.dumps(does(*words[1:])), flush=True)
    stage.end()


if __name__ == "__main__":
    main()
