"""Power machines off and on under real jobs, and kill what does it: no job may be lost, and no state be wrong.

Machines are emulated, their raylets are real. Work comes in bursts, machines wake, jobs run; work ends, machines
sleep. All the while the service, machines that wake and commands of power are killed at random moments.

At first everything sleeps, and a job for a GPU type that is all asleep is submitted.

    python -m benchmarks.power_live [--kills 30] [--seed 0] [--waking energy]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from coadapt.client.client import Client, cluster_of
from coadapt.client.jobfile import misfits
from coadapt.core.job import JobSpec
from coadapt.core.power_settings import MACHINE, VERBS, PowerSettings
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster

from . import harness

PROGRAM = Path(__file__).parent / "scripts" / "power_machine.py"
NODES = "2x a100:1, 1x t4:1"
KINDS = ("service", "waking", "command")
STEPS, STEP_S = 30, 0.1
WORK = """
import os, sys, time
with open(os.path.join(os.environ["COADAPT_OUTPUT_DIR"], "steps"), "w") as file:
    for step in range(1, int(sys.argv[1]) + 1):
        time.sleep(float(sys.argv[2]))  # the job is its length
        print(step, file=file, flush=True)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--limit-s", type=float, default=900.0, help="no more kills after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--waking", choices=("just-enough", "energy"), default="energy", help="who wakes nodes")
    arguments = parser.parse_args()
    folder, began = Path(tempfile.mkdtemp(prefix="coadapt-power-")), time.monotonic()
    try:
        with _cluster(folder, arguments.waking) as client:
            story = Story(client, folder, random.Random(arguments.seed))
            woken = story.all_asleep_then_a_job()
            with Killer(story, arguments.kills, random.Random(arguments.seed + 1)) as killer:
                story.work_until(lambda: killer.done or time.monotonic() - began > arguments.limit_s)
            story.finish()
            return _show(story, killer.tally, woken, time.monotonic() - began)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _cluster(folder: Path, waking: str) -> Iterator[Client]:
    """Yield a cluster whose machines are powered by commands, as services advise. `waking`: who wakes nodes."""
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # before Ray is imported, which reads it once
    from tests.support.power_service import advised

    state_dir, work = folder / "state", folder / "work"
    work.mkdir(parents=True)
    (work / "work.py").write_text(WORK)
    words = {
        verb: [sys.executable, str(PROGRAM), verb, MACHINE, str(state_dir), str(folder / "power.log")]
        for verb in VERBS
    }
    power = PowerSettings(
        adapter="command",
        tries=6,
        sleep_limit_s=60,
        wake_limit_s=180,
        boot_s=300,
        rest_s=10,
        idle_watts=800,
        **words,
    )
    settings = Settings(state_dir=str(state_dir), round_interval_s=1.0, restart_cost_s=1.0, power=power)
    with advised(waking), local_cluster.cluster(NODES, settings=settings) as client:
        yield client


class Story:
    """Work that comes and goes, and what is told of it."""

    def __init__(self, client: Client, folder: Path, dice: random.Random) -> None:
        self.client, self.folder, self.dice = client, folder, dice
        self.jobs: list[str] = []
        self.wrong: list[str] = []
        self.looks = 0
        self.wakes_s: list[float] = []

    def all_asleep_then_a_job(self) -> bool:
        """Wait until all machines sleep, then run a job. Return whether it was accepted, told, and ran."""
        if not self._until(lambda: set(self.states().values()) == {"asleep"}, 180.0):
            return False
        spec, told, began = self._spec("t4"), set[str](), time.monotonic()
        accepted = not misfits(spec, cluster_of(self.client.cluster()))
        job = self.submit(spec)

        def ended() -> bool:
            row = self.client.describe(job)
            if row["wait_reason"] is not None:
                told.add(f"{row['wait_reason']}: {row['reason']}")
            return row["finished_s"] is not None

        self._until(ended, 180.0)
        self.wakes_s.append(time.monotonic() - began)
        print(
            f"a job for machines that all slept ran in {self.wakes_s[0]:.0f} s; it was told {sorted(told)}",
            flush=True,
        )
        said = "node_asleep: its node wakes, about 5 min" in told and not any(
            "no_gpu_type" in line for line in told
        )
        return accepted and said and self.client.describe(job)["phase"] == "succeeded"

    def work_until(self, over: Callable[[], bool]) -> None:
        """Submit bursts of jobs with pauses between them, in which machines fall asleep."""
        while not over():
            burst = [self._spec(self.dice.choice(["a100", "a100", "t4"])) for _ in range(self.dice.randint(1, 3))]
            mine = [self.submit(spec) for spec in burst]
            self._until(lambda mine=mine: over() or self._ended(mine), 240.0)
            pause_s = self.dice.uniform(0.0, 12.0)
            resumed = time.monotonic() + pause_s
            self._until(lambda at=resumed: over() or time.monotonic() > at, pause_s + 1.0)
            self.look()

    def finish(self) -> None:
        """Wait until all jobs have ended and all machines sleep; each that does not is a wrong state."""
        self._until(lambda: self._ended(self.jobs), 300.0)
        self._until(lambda: set(self.states().values()) == {"asleep"}, 240.0)
        self.look(last=True)

    def look(self, last: bool = False) -> None:
        """Compare what is told of machines with what they are, where nothing is about to change."""
        before, truth, after = self.states(), self._raylets(), self.states()
        self.looks += 1
        for machine, state in before.items():
            if after.get(machine) != state:
                continue
            if (state == "asleep" and truth[machine]) or (state == "on" and truth[machine] != 1):
                time.sleep(8.0)  # a raylet that was just killed is noticed after a moment
                now, there = self.states().get(machine, ""), self._raylets()[machine]
                if (now == "asleep" and there) or (now == "on" and there != 1):
                    self.wrong.append(f"{machine} is said to be {now}, and has {there} raylets")
            if last and state != "asleep":
                self.wrong.append(f"{machine} is {state} at last: {self._row(machine)['reason']}")

    def states(self) -> dict[str, str]:
        return {row["machine"]: row["state"] for row in self.client.machines()}

    def submit(self, spec: JobSpec) -> str:
        job = self.client.submit(spec)
        self.jobs.append(job)
        return job

    def lost(self) -> list[str]:
        """Return a line for each job that did not end well, or whose last run left out a step."""
        lines = []
        for job in self.jobs:
            found = self.client.describe(job)
            steps = Path(found["outputs"]) / "steps"
            made = steps.read_text().split() if steps.exists() else []
            if found["phase"] != "succeeded" or made != [str(step) for step in range(1, STEPS + 1)]:
                lines.append(f"{job}: {found['phase']}: {found['reason']}, {len(made)} steps")
        return lines

    def record(self) -> local_cluster.ClusterRecord:
        record = local_cluster.ClusterRecord.load(self.folder / "state")
        assert record is not None, "the cluster has no record"
        return record

    def _row(self, machine: str) -> Any:
        return next(row for row in self.client.machines() if row["machine"] == machine)

    def _raylets(self) -> dict[str, int]:
        record = self.record()
        return {
            local_cluster.machine_name(node.gpu_type, i): len(local_cluster.raylets(record, i))
            for i, node in enumerate(record.nodes)
        }

    def _ended(self, jobs: list[str]) -> bool:
        return all(row["finished_s"] is not None for row in self.client.list() if row["id"] in jobs)

    def _until(self, accept: Callable[[], bool], limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while not (accepted := accept()) and time.monotonic() < deadline:
            time.sleep(0.2)  # between two questions to the service
        return accepted

    def _spec(self, gpu_type: str) -> JobSpec:
        return JobSpec.model_validate(
            {
                "name": f"on-{gpu_type}",
                "command": ["python", "work.py", str(STEPS), str(STEP_S)],
                "working_dir": str(self.folder / "work"),
                "resources": {"gpu_types": [gpu_type], "gpus": 1},
                "restartable": True,
                "max_failures": 50,
            }
        )


class Killer:
    """Kills one thing after the other, each at a random moment, until enough has been killed."""

    def __init__(self, story: Story, kills: int, dice: random.Random) -> None:
        self._story, self._kills, self._dice = story, kills, dice
        self.tally: Counter[str] = Counter()
        self.done = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killer", daemon=True)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        ways = {"service": self._service, "waking": self._waking, "command": self._command}
        for kind in self._order():
            if self._stop.wait(self._dice.uniform(0.5, 12.0)):
                return
            wait_s, patience = self._dice.uniform(0.0, 1.5), time.monotonic() + 20.0
            while not self._stop.is_set() and time.monotonic() < patience:
                victims = [process for process in ways[kind]() if process.is_running()]
                if victims and not self._stop.wait(wait_s) and self._kill(self._dice.choice(victims)):
                    self.tally[kind] += 1
                    print(f"{self.tally.total():3d} killed {kind}", flush=True)
                    break
                self._stop.wait(0.02)
            if self.tally.total() >= self._kills:
                self.done = True
                return

    def _order(self) -> Iterator[str]:
        while True:
            yield from self._dice.sample(KINDS, len(KINDS))

    def _service(self) -> list[psutil.Process]:
        return [process for process in _ours(self._story) if _line(process).startswith("ray::AdvisedService")]

    def _waking(self) -> list[psutil.Process]:
        """Return what is there of nodes that wake."""
        with suppress(Exception):  # the service may be away
            record, states = self._story.record(), self._story.states()
            names = {local_cluster.machine_name(node.gpu_type, i): i for i, node in enumerate(record.nodes)}
            waking = [names[name] for name, state in states.items() if state == "waking"]
            return [raylet for i in waking for raylet in local_cluster.raylets(record, i)]
        return []

    def _command(self) -> list[psutil.Process]:
        return [
            p for p in psutil.process_iter() if str(PROGRAM) in _line(p) and str(self._story.folder) in _line(p)
        ]

    def _kill(self, process: psutil.Process) -> bool:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
            return True
        return False


def _ours(story: Story) -> list[psutil.Process]:
    """Return every process below the head of our own cluster, and of no other on this machine."""
    found: list[psutil.Process] = []
    for recorded in story.record().head:
        if (root := recorded.alive()) is not None:
            with suppress(psutil.Error):
                found += root.children(recursive=True)
    return found


def _advised_s(story: Story) -> list[float]:
    """Return how long each piece of advice took, over all lives of the service."""
    from tests.support.power_service import ADVISED

    return [float(line) for line in (story.folder / "state" / ADVISED).read_text().splitlines()]


def _line(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _show(story: Story, tally: Counter[str], woken: bool, seconds: float) -> int:
    noted = story.folder / "power.log"
    log = [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []
    verbs, lost = Counter(row["verb"] for row in log), story.lost()
    under = [f"{row['machine']} was powered off under {', '.join(row['under'])}" for row in log if row["under"]]
    kwh = story.client.cluster()["saved_kwh"]
    harness.table("Kills", ["what", "killed"], [[kind, tally[kind]] for kind in KINDS])
    harness.table("Commands", ["verb", "times"], [[verb, verbs[verb]] for verb in VERBS])
    print("\n".join([*lost, *under, *story.wrong]))
    if lost or under or story.wrong:
        print("\n".join(event["text"] for event in story.client.cluster()["events"]))
    figures: dict[str, float | int | str | None] = {
        "kills": tally.total(),
        "jobs": len(story.jobs),
        "jobs_lost": len(lost),
        "asleep_under_a_job": len(under),
        "wrong_states": len(story.wrong),
        "woken_from_all_asleep": int(woken),
        "advise_p99_ms": round(1e3 * float(np.quantile(_advised_s(story), 0.99)), 3),
        "looks": story.looks,
        "sleeps": verbs["sleep"],
        "wakes": verbs["wake"],
        "saved_kwh": kwh,
        "seconds": round(seconds, 1),
    }
    harness.finish("power_live", figures, "emulated nodes")
    return int(bool(lost or under or story.wrong) or not woken)


if __name__ == "__main__":
    sys.exit(main())
