"""Pairs of jobs on one emulated GPU, live: their speeds, what a killed partner costs, and memory that is short.

Two example jobs and a plain script run in pairs under the policy `lucid`. Each is measured alone first, on the
node that measures new jobs, and then beside the other one. Their speeds are compared with the speeds that the GPU
paces them by. Then the partner gets SIGKILL, and the survivor's steps are counted until one is as fast as alone.
At last a job comes whose memory the GPU has not left, though the policy was told that it has.

    python -m benchmarks.shared_gpu [--window-s 12]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from coadapt.client.client import Client
from coadapt.core.job import JobSpec
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.executor.emulated_pairs import pair_speed
from coadapt.scheduler.executors.emulated_use import emulated_use

from . import harness

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# Each step leaves a line with the time, and the first one the process.
STAMPS = """
import os as _os, time as _time
from torch.optim.optimizer import register_optimizer_step_post_hook as _hook
_stamps = open(_os.environ["STAMPS"], "a", buffering=1)
_stamps.write(f"process {_os.getpid()}\\n")
_hook(lambda *_: _stamps.write(f"{_time.monotonic()}\\n") and None)
"""
# A fixed amount of work for each line. Its core is seldom its own, and its work alone tells of that, too. So the
# part of the time is measured in which it is not stopped.
PLAIN = """
import os, time
stamps = open(os.environ["STAMPS"], "a", buffering=1)
stamps.write(f"process {os.getpid()}\\n")
while True:
    sum(range(60_000))
    stamps.write(f"{time.monotonic()}\\n")
"""
USES = {"classifier": 0.6, "char_transformer": 0.55, "plain": 0.45}
SCALES = {"classifier": 0.25, "char_transformer": 6.0}  # such that this machine is fast enough
PAIRS = (("classifier", "char_transformer"), ("classifier", "plain"), ("char_transformer", "plain"))
T_PROF_S = 15.0
OPTIONS = {
    "packing": "default",
    "least_left": 0.0,
    "gpu_memory_gib": {"t4": 100.0},  # what is not true, so that a job without room is put beside another
    "profiler": {"pool": "prof", "t_prof_s": T_PROF_S, "burst_s": T_PROF_S},
}


@dataclass
class Job:
    """One job, and the lines that its steps leave."""

    kind: str
    id: str
    file: Path

    def stamps(self, since_s: float = 0.0, until_s: float = float("inf")) -> list[float]:
        """Return the times of steps, in order."""
        lines = self.file.read_text().splitlines()[:-1] if self.file.exists() else []
        found = [float(line) for line in lines if line and line[0].isdigit()]
        return [at for at in found if since_s <= at < until_s]

    def speed(self, since_s: float, until_s: float) -> float:
        """Return steps a second. Where a job does something else between two steps, as it tests, is left out."""
        stamps = self.stamps(since_s, until_s)
        if len(stamps) < 3:
            return float("nan")
        times = [later - at for at, later in pairwise(stamps)]
        most_s = 4 * statistics.median(times) if self.kind != "plain" else float("inf")
        return 1 / statistics.mean(took_s for took_s in times if took_s <= most_s)

    @property
    def process(self) -> int:
        return int(re.findall(r"process (\d+)", self.file.read_text())[-1])


class Parts:
    """Looks in which part of the time a process is not stopped."""

    def __init__(self, pid: int) -> None:
        self._stat, self._looks, self._stopped = Path(f"/proc/{pid}/stat"), 0, 0

    def look(self) -> None:
        state = self._stat.read_text().rpartition(")")[2].split()[0]
        self._looks, self._stopped = self._looks + 1, self._stopped + (state == "T")

    @property
    def runs(self) -> float:
        return 1 - self._stopped / self._looks


class Stage:
    """A cluster with a node that measures and one that is shared, and its jobs."""

    def __init__(self, client: Client, folder: Path, window_s: float) -> None:
        self.client, self.folder, self.window_s, self.count = client, folder, window_s, 0

    def submit(self, kind: str, gib: float = 3.0) -> Job:
        self.count += 1
        name, home = f"{kind.replace('_', '-')}-{self.count}", self.folder / kind
        file = self.folder / f"{name}.stamps"
        home.mkdir(exist_ok=True)
        source = PLAIN if kind == "plain" else STAMPS + (EXAMPLES / kind / "train.py").read_text()
        (home / "train.py").write_text(source)
        given = FIXED if kind == "plain" else NATIVE | {"args": ARGS[kind]}
        profile = {"classifier": "cifar10", "char_transformer": "bert", "plain": "cifar10"}[kind]
        spec = JobSpec.model_validate(
            {
                "name": name,
                "script": "train.py",
                "working_dir": str(home),
                "env": {"STAMPS": str(file)},
                "resources": {"gpus": 1},
                "restart_policy": "never",
                "emulation": {
                    "profile": profile,
                    "time_scale": SCALES.get(kind, 1.0),
                    "gpu_util": USES[kind],
                    "memory_gib": gib,
                },
                **given,
            }
        )
        return Job(kind, self.client.submit(spec), file)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + 120
        while not holds():
            if time.monotonic() > deadline_s:
                rows = [(row["id"], row["status"], row["reason"]) for row in self.client.list()]
                raise SystemExit(f"{what}: it takes too long; {rows}")
            time.sleep(0.02)  # between two looks, up to a limit

    def steps(self, job: Job) -> None:
        """Wait for one more step than there were."""
        before = len(job.stamps())
        self.until(lambda: len(job.stamps()) > before + 1, f"{job.id} makes steps")

    def alone(self, job: Job) -> float:
        """Return the speed of a job that has just come, where it is measured."""
        self.until(lambda: len(job.stamps()) > 3, f"{job.id} begins")
        began_s = job.stamps()[2]
        self.until(lambda: time.monotonic() > began_s + self.window_s * 0.7, "it is measured")
        return job.speed(began_s, began_s + self.window_s * 0.7)

    def pair(self, kinds: Sequence[str]) -> dict[str, object]:
        """Return what became of two jobs: their speeds together over those alone, and those that were foretold."""
        first = self.submit(kinds[0])
        alone = [self.alone(first)]
        second = self.submit(kinds[1])
        alone.append(self.alone(second))
        jobs = [first, second]
        self.until(
            lambda: (
                self.client.describe(first.id).get("beside") == [second.id]
                and self.client.describe(second.id)["status"] == "running"
            ),
            f"{first.id} and {second.id} share a GPU",
        )
        for job in jobs:
            self.steps(job)
        began_s = time.monotonic()
        parts = {job.id: Parts(job.process) for job in jobs if job.kind == "plain"}
        while time.monotonic() < began_s + self.window_s:
            time.sleep(0.003)  # between two looks at whether a process is stopped
            for part in parts.values():
                part.look()
        together = [job.speed(began_s, began_s + self.window_s) for job in jobs]
        by_work = [both / one for both, one in zip(together, alone, strict=True)]
        measured = [parts[job.id].runs if job.id in parts else by for job, by in zip(jobs, by_work, strict=True)]
        restarts = self.client.describe(first.id)["restarts"]
        killed_s = time.monotonic()
        os.kill(second.process, signal.SIGKILL)
        self.until(lambda: self.client.describe(second.id)["finished_s"] is not None, f"{second.id} ends")
        for _ in range(3):
            self.steps(first)
        slow = slow_steps(first, killed_s, alone[0])
        after_s = time.monotonic()
        self.until(lambda: time.monotonic() > after_s + self.window_s / 2, "it runs on")
        after = first.speed(after_s, after_s + self.window_s / 2)
        more = self.client.describe(first.id)["restarts"] - restarts
        self.client.cancel(first.id)
        self.until(lambda: self.client.describe(first.id)["finished_s"] is not None, f"{first.id} ends")
        specs = [emulated_use(JobSpec.model_validate(self.client.describe(job.id)["spec"])) for job in jobs]
        foretold = [pair_speed(specs[0], specs[1])[0], pair_speed(specs[1], specs[0])[0]]
        return {
            "kinds": kinds,
            "measured": measured,
            "by_work": by_work,
            "foretold": foretold,
            "after": after / alone[0],
            "slow_steps": slow,
            "restarts": more,
        }

    def refused(self) -> tuple[int, str]:
        """Return whether a job is refused whose memory the GPU has not left, and in which words."""
        first = self.submit("classifier", gib=4.0)
        self.alone(first)
        large = self.submit("plain", gib=14.0)
        self.until(lambda: self.client.describe(large.id)["finished_s"] is not None, f"{large.id} ends")
        details = self.client.describe(large.id)
        self.steps(first)
        goes_on = self.client.describe(first.id)["status"] == "running"
        self.client.cancel(first.id)
        return int("CUDA out of memory" in details["reason"] and goes_on), details["reason"]


NATIVE = {"profile": False, "training": {"adaptivity": "rigid", "report_interval_s": 1.0}}
FIXED = {"elastic": False, "restartable": True}
ARGS = {"classifier": ["--epochs", "9000", "--patience", "9000"], "char_transformer": ["--epochs", "9000"]}


def slow_steps(job: Job, since_s: float, alone: float) -> int:
    """Return how many whole steps a job began after a moment before one was as fast as alone."""
    stamps = [at for at in job.stamps() if at >= since_s]
    times = [later - at for at, later in pairwise(stamps)]
    return next((i for i, took_s in enumerate(times) if took_s <= 1.1 / alone), len(times))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--window-s", type=float, default=12.0, help="of each measurement")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="coadapt-shared-"))
    try:
        settings = Settings(
            state_dir=str(folder / "state"),
            policy="lucid",
            policy_options=OPTIONS,
            round_interval_s=2.0,
            debounce_s=0.2,
        )
        with local_cluster.cluster("1x t4:1@prof, 1x t4:1", settings=settings) as client:
            stage = Stage(client, folder, arguments.window_s)
            pairs = [stage.pair(kinds) for kinds in PAIRS]
            memory_refused, words = stage.refused()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows, errors = [], []
    for pair in pairs:
        names = pair["kinds"], pair["kinds"][::-1]
        for kind, other, measured, by_work, foretold in zip(
            *names, pair["measured"], pair["by_work"], pair["foretold"], strict=True
        ):
            errors.append(abs(measured / foretold - 1))
            rows.append([kind, other, foretold, measured, by_work, errors[-1]])
    columns = ["job", "beside", "of the table", "measured", "by its work", "relative error"]
    harness.table("Speeds over those alone", columns, rows)
    harness.table(
        "After the partner was killed",
        ["survivor", "slow steps begun after it", "speed over that alone", "restarts"],
        [[pair["kinds"][0], pair["slow_steps"], pair["after"], pair["restarts"]] for pair in pairs],
    )
    print(f"memory that is not left: {words}")
    figures = {
        "pair_speed_rel_err": max(errors),
        "survivor_steps": max(pair["slow_steps"] for pair in pairs),
        "survivor_restarts": sum(pair["restarts"] for pair in pairs),
        "memory_refused": memory_refused,
        "pairs": len(pairs),
    }
    harness.finish("shared_gpu", figures)
    good = figures["pair_speed_rel_err"] <= 0.05 and figures["survivor_steps"] <= 1 and memory_refused == 1
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
