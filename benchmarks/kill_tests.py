"""Kill everything that can be killed, again and again, under real jobs: nothing may be lost or counted twice.

All the while each training and measuring process is looked at: no GPU of a node may have two at any moment.

The training script counts, inside its model, how often each sample has been trained on. A parameter has one entry
per sample, and its gradient is the sample's own. So each entry must be exactly -E after E epochs. The count is
part of the state that is saved, restored, handed to newcomers and undone with a broken step. The final parameters
show a sample that was skipped, or repeated other than by replaying from a checkpoint.

Beside these jobs run commands that never call `prepare`, at two doors: one saves now and then and on SIGTERM, and
is started again at other sizes; one begins anew after a loss. Each holds a lock while it runs, which shows a copy
of it. No step may be left out.

With `--shared` the policy `lucid` puts pairs of these jobs on one GPU each. Then two processes may be on a GPU,
and the event log is read: parts that jobs hold of a GPU are never more than the whole.

    python -m benchmarks.kill_tests [--kills 40] [--jobs 2] [--shared]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from coadapt.client.client import Client
from coadapt.core.job import Emulation, JobSpec, ResourceRequest
from coadapt.core.settings import Settings
from coadapt.core.training_config import Adaptivity, CheckpointConfig, TrainingConfig
from coadapt.deploy import local_cluster
from coadapt.policies.contract.traits import TENANTS
from coadapt.scheduler.store.store import Store

from . import harness
from .months.victims import Victims, guards, lives, sigkill, trains
from .shares_held import Shares
from .shares_held import read as read_shares

EPOCHS = 60
SCRIPT = '''
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import coadapt

SAMPLES, BATCH = 512, 32
EPOCHS = int(sys.argv[1])


class Counting(nn.Module):
    """A small classifier, and a count of how often each sample was trained on."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
        self.seen = nn.Parameter(torch.zeros(SAMPLES))
        self.register_buffer("weight_of_checkpoint", torch.zeros(1_000_000))

    def forward(self, x, index):
        return self.net(x), self.seen[index]


torch.manual_seed(0)
x = torch.randn(SAMPLES, 8)
y = (x[:, 0] * x[:, 1] > 0).long()
model = Counting()
optimizer = torch.optim.SGD(
    # The gradient of the mean over a batch is 1 / BATCH per sample: each visit takes exactly 1 off.
    [{"params": model.net.parameters(), "lr": 0.1}, {"params": [model.seen], "lr": float(BATCH)}]
)
loader = DataLoader(TensorDataset(x, torch.arange(SAMPLES), y), batch_size=BATCH, shuffle=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(EPOCHS):
    for inputs, index, target in loader:
        output, counted = model(inputs, index)
        loss = nn.functional.cross_entropy(output, target) + counted.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = model.state_dict()
    with torch.no_grad():
        hidden = torch.tanh(x @ state["net.0.weight"].T + state["net.0.bias"])
        final = nn.functional.cross_entropy(hidden @ state["net.2.weight"].T + state["net.2.bias"], y)
    wrong = (state["seen"] + (epoch + 1)).abs().gt(0.01).sum()
    coadapt.report(loss=final.item(), wrong=float(wrong), epoch=float(epoch + 1))
'''

STEPS, STEP_S, EVERY = 300, 0.05, 20
COMMAND = """
import fcntl, json, os, signal, sys, time

steps, step_s, every = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
os.chdir(os.environ["COADAPT_OUTPUT_DIR"])
lock = open("lock", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open("twice", "a").write(f"{os.getpid()}\\n")
step = int(open("saved").read()) if every and os.path.exists("saved") else 0
stop = []
signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))


def save():
    with open("saved.new", "w") as file:
        file.write(str(step))
    os.replace("saved.new", "saved")


while step < steps and not (stop and every):
    time.sleep(step_s)
    step += 1
    open("steps", "a").write(f"{step}\\n")
    print(f"step {step} of {steps}", flush=True)
    if every and step % every == 0:
        save()
if every:
    save()
"""
MARK = "coadapt-kill-"
KINDS = ("training", "worker", "template", "executor", "scheduler", "raylet", "writing", "program", "guard")
# One round of kills; an executor, node or template costs its jobs a restart from the checkpoint.
ORDER = (
    *("training", "writing", "worker", "executor", "program", "training", "scheduler", "worker", "writing"),
    *("guard", "raylet", "template"),
)


# Jobs are measured for a few seconds in a pool of their own, and then put on GPUs two by two.
PACKED = {
    "packing": "default",
    "least_left": 0.0,
    "profiler": {"pool": "prof", "t_prof_s": 8.0, "burst_s": 8.0},
}


@dataclass
class Tally:
    kills: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(self.kills.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2, help="native ones running at a time")
    parser.add_argument("--limit-s", type=float, default=540.0, help="no more kills after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shared", action="store_true", help="two jobs on one GPU, by the policy lucid")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix=MARK))
    started = time.monotonic()
    try:
        shared = arguments.shared
        policy = {"policy": "lucid", "policy_options": PACKED} if shared else {}
        settings = Settings(state_dir=str(folder / "state"), round_interval_s=5.0, restart_cost_s=5.0, **policy)
        spec, commands = counting(folder / "job"), _commands(folder / "job")
        if shared:
            spec, commands = light(spec), [light(command) for command in commands if not command.sizes]
        watch = DeviceWatch(str(folder), TENANTS if shared else 1)
        nodes = "1x t4:2@prof, 2x t4:1" if shared else "1x a100:2, 2x t4:2"
        with local_cluster.cluster(nodes, settings=settings) as client, watch:
            (reference,) = _finish(client, [client.submit(spec)], 240.0)
            print(f"undisturbed: {json.dumps(reference)}", flush=True)
            killer = Killer(settings, random.Random(arguments.seed))
            limit_s = started + arguments.limit_s - time.monotonic()
            jobs, others = killer.run(client, spec, commands, arguments.kills, arguments.jobs, limit_s)
            results = _finish(client, jobs, 240.0)
            ran = [_of_command(client, row) for row in _finish(client, others, 240.0)]
            rows = {row["id"]: row for row in client.list()}
        held = _shares_held(settings)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - started
    return _show(reference, results, ran, killer.tally, watch, [rows[job] for job in jobs], seconds, held)


def _shares_held(settings: Settings) -> Shares:
    """Return what the event log tells of parts of GPUs, after the service has ended."""
    store = Store(settings.store)
    try:
        return read_shares(store.events(last=1_000_000))
    finally:
        store.close()


def light(spec: JobSpec) -> JobSpec:
    """Return a job of one GPU that uses so little of it that another one may be beside it."""
    emulation = spec.emulation.model_copy(update={"gpu_util": 0.2, "memory_gib": 3.0})
    resources = ResourceRequest(gpus=1)
    training = spec.training.model_copy(update={"adaptivity": Adaptivity.RIGID})
    native = {"training": training, "profile": False} if spec.elastic and not spec.command else {}
    return spec.model_copy(update={"emulation": emulation, "resources": resources, **native})


def counting(folder: Path) -> JobSpec:
    """Return a job that counts how often it trains on each sample, with its script in a new folder."""
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(SCRIPT)
    return JobSpec(
        name="count",
        script="train.py",
        args=[str(EPOCHS)],
        working_dir=str(folder),
        resources=ResourceRequest(max_gpus=2),
        training=TrainingConfig(
            adaptivity=Adaptivity.STRONG_SCALING,
            report_interval_s=1.0,
            hang_timeout_s=30.0,
            checkpoint=CheckpointConfig(every_minutes=0.05),
        ),
        emulation=Emulation(profile="cifar10", time_scale=1.0),
    )


def _commands(folder: Path) -> list[JobSpec]:
    """Return a command that restarts at other sizes, and one of a fixed size that begins anew."""
    (folder / "command.py").write_text(COMMAND)
    common = {
        "working_dir": str(folder),
        "processes": "node",
        "progress": {"pattern": r"step (?P<step>\d+) of (?P<of>\d+)"},
        "training": {"report_interval_s": 1.0},
        "max_failures": 50,
    }
    program = ["python", "command.py", str(STEPS), str(STEP_S)]
    return [
        JobSpec(name="restarting", command=[*program, str(EVERY)], sizes=[1, 2], **common),
        JobSpec(name="plain", command=[*program, "0"], restartable=True, **common),
    ]


def _of_command(client: Client, result: dict[str, object]) -> dict[str, object]:
    """Add to what became of a command: steps that it left out, those made again, and copies that ran beside it."""
    folder = Path(client.describe(str(result["id"]))["outputs"])
    made = Counter(map(int, (folder / "steps").read_text().split())) if (folder / "steps").exists() else Counter()
    twice = folder / "twice"
    return {
        **result,
        "left_out": sum(made[step] == 0 for step in range(1, STEPS + 1)),
        "again": sum(made.values()) - len(made),
        "copies": len(twice.read_text().split()) if twice.exists() else 0,
    }


def _finish(client: Client, jobs: list[str], timeout_s: float) -> list[dict[str, object]]:
    """Return each job's phase and last metrics, after all have ended or the time is up."""
    with suppress(TimeoutError):
        client.wait(jobs, timeout_s=timeout_s)
    details = [client.describe(job) for job in jobs]
    return [{"id": d["id"], "phase": d["phase"], "reason": d["reason"], **d["metrics"]} for d in details]


class DeviceWatch:
    """Looks all the time which processes are on which GPU of which node, as their environments say.

    `looks`: how often it did. `twice`: a line for each GPU that more than `most` processes were on at one moment.
    `used`: GPUs that some process was on.
    """

    EVERY_S, BEGINS_S = 0.05, 10.0

    def __init__(self, folder: str, most: int = 1) -> None:
        self._most = most
        self.looks, self.twice, self.used = 0, dict[tuple[str, int, int, int], str](), set[tuple[str, int]]()
        self._folder, self._ended = folder, threading.Event()
        self._known: dict[tuple[int, float], list[tuple[str, int]]] = {}
        self._thread = threading.Thread(target=self._run, name="device watch", daemon=True)

    def __enter__(self) -> DeviceWatch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self.EVERY_S):
            self.look()

    def look(self) -> None:
        """Look once. Processes count only if those before still live when the last one has been seen."""
        seen: dict[tuple[str, int], list[psutil.Process]] = {}
        for process in psutil.process_iter(["pid", "create_time"]):
            for gpu in self._gpus(process):
                self.used.add(gpu)
                here = seen.setdefault(gpu, [])
                here.append(process)
                if len(here) > self._most and all(map(lives, here)):
                    line = f"GPU {gpu[1]} of node {gpu[0][:8]}: processes {', '.join(str(p.pid) for p in here)}"
                    self.twice[*gpu, here[0].pid, process.pid] = line
        self.looks += 1

    def _gpus(self, process: psutil.Process) -> list[tuple[str, int]]:
        """Return node and position of each GPU of a training process; of others, and of one that begins, none."""
        key = (process.pid, process.info["create_time"])
        if key not in self._known:
            found: list[tuple[str, int]] = []
            with suppress(psutil.Error, ProcessLookupError):
                # What a training process starts has its environment, but no session of its own.
                leads = (trains(process) or _runs(process)) and os.getsid(process.pid) == process.pid
                environment = process.environ() if leads else {}
                where = environment.get("COADAPT_CHECKPOINT_URL") or environment.get("COADAPT_OUTPUT_DIR", "")
                if where.startswith(self._folder):
                    node, devices = environment.get("COADAPT_NODE_ID", ""), environment.get("COADAPT_DEVICES", "")
                    found = [(node, int(device)) for device in devices.split(",") if device]
            if not found and time.time() - key[1] < self.BEGINS_S:
                return []  # a forked process shows its own environment after a moment
            self._known[key] = found
        return self._known[key]


def _runs(process: psutil.Process) -> bool:
    """Return whether a process is a command of ours, and not its guard."""
    return "command.py" in process.cmdline() and not guards(process)


class Killer:
    """Sends SIGKILL to one process after the other, each time once training has gone on since the last."""

    def __init__(self, settings: Settings, dice: random.Random) -> None:
        self._there = Victims(settings.state_dir, MARK)
        self.dice = dice
        self.tally = Tally()

    def run(
        self,
        client: Client,
        spec: JobSpec,
        commands: Sequence[JobSpec],
        kills: int,
        at_a_time: int,
        limit_s: float,
    ) -> tuple[list[str], list[str]]:
        """Keep `at_a_time` native jobs and one of each command running until enough has been killed; return ids.

        Native jobs come first, then commands.
        """
        jobs: list[str] = []
        others: list[str] = []
        deadline = time.monotonic() + limit_s
        order = self._order()
        while self.tally.total < kills and time.monotonic() < deadline:
            going = [row for row in client.list() if row["finished_s"] is None]
            active = [row for row in going if row["id"] in jobs]
            jobs += [client.submit(spec) for _ in range(at_a_time - len(active))]
            names = {row["name"] for row in going if row["id"] in others}
            others += [client.submit(command) for command in commands if command.name not in names]
            if self._wait_for_progress(client, jobs, 30.0):
                self._kill(next(order), deadline)
        return jobs, others

    def _order(self) -> Iterator[str]:
        while True:
            yield from ORDER

    def _wait_for_progress(self, client: Client, jobs: list[str], timeout_s: float) -> bool:
        """Wait until some job has trained further than it had when this was asked."""
        before = {row["id"]: (row["steps"], row["phase"]) for row in client.list()}
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for row in client.list():
                steps, _ = before.get(row["id"], (0, ""))
                if row["id"] in jobs and row["phase"] == "running" and row["steps"] > steps:
                    return True
            time.sleep(0.1)
        return bool(self._there.training())

    def _kill(self, kind: str, deadline: float) -> None:
        there = self._there
        ways: dict[str, Callable[[], psutil.Process | None]] = {
            "training": lambda: self._any(there.training()),
            "worker": lambda: self._any(there.actors("ray::Worker", "ray::CommandWorker")),
            "template": lambda: self._any(there.templates()),
            "executor": lambda: self._any(there.actors("ray::AdaptiveExecutor", "ray::CommandExecutor")),
            "program": lambda: self._any(there.commands(_runs)),
            "guard": lambda: self._any(there.commands(guards)),
            "scheduler": lambda: self._any(there.actors("ray::SchedulerService")),
            "writing": lambda: there.writer(min(deadline, time.monotonic() + 10.0)),
        }
        if kind == "raylet":
            there.kill_node(self.dice.choice)
            killed = True
        else:
            victim = ways[kind]()
            killed = victim is not None and sigkill(victim)
        (self.tally.kills if killed else self.tally.missed)[kind] += 1
        print(f"{self.tally.total:3d} {'killed' if killed else 'missed'} {kind}", flush=True)

    def _any(self, processes: list[psutil.Process]) -> psutil.Process | None:
        return self.dice.choice(processes) if processes else None


def _show(
    reference: dict[str, object],
    results: list[dict[str, object]],
    commands: list[dict[str, object]],
    tally: Tally,
    watch: DeviceWatch,
    rows: list[dict[str, object]],
    seconds: float,
    held: Shares,
) -> int:
    lost = [result for result in [*results, *commands] if result["phase"] != "succeeded"]
    wrong = sum(float(str(result.get("wrong", "nan"))) for result in results if result["phase"] == "succeeded")
    expected = float(str(reference.get("loss", "nan")))
    apart = [abs(float(str(r.get("loss", "nan"))) - expected) for r in results if r["phase"] == "succeeded"]
    harness.table(
        "Kills",
        ["process", "killed", "not found in time"],
        [[kind, tally.kills[kind], tally.missed[kind]] for kind in KINDS],
    )
    harness.table(
        f"Jobs (undisturbed: loss {expected:.6f})",
        ["job", "phase", "recoveries", "restarts", "failures", "samples wrong", "final loss"],
        [
            [
                str(r["id"]),
                str(r["phase"]) + (f" ({r['reason']})" if r["phase"] != "succeeded" else ""),
                row["recoveries"],
                row["restarts"],
                row["failures"],
                r.get("wrong", "-"),
                f"{float(str(r.get('loss', 'nan'))):.6f}",
            ]
            for r, row in zip(results, rows, strict=True)
        ],
    )
    harness.table(
        "Commands",
        ["job", "phase", "steps left out", "steps made again", "copies beside it"],
        [
            [str(r["id"]), f"{r['phase']} ({r['reason']})", r["left_out"], r["again"], r["copies"]]
            for r in commands
        ],
    )
    left_out, copies = (sum(int(str(r[name])) for r in commands) for name in ("left_out", "copies"))
    print(f"{watch.looks} looks at {len(watch.used)} GPUs; used twice: {len(watch.twice)}")
    print("\n".join([*watch.twice.values(), *held.exceeded]))
    print(f"{len(held.shared)} GPUs were shared")
    figures = {
        "kills": tally.total,
        "gpus_used_twice": len(watch.twice),
        "jobs_lost": len(lost),
        "samples_wrong": int(wrong) if wrong == wrong else -1,
        "max_loss_diff": max(apart, default=float("nan")),
        "jobs": len(results),
        "commands": len(commands),
        "steps_left_out": left_out,
        "run_twice": copies,
        "shares_exceeded": len(held.exceeded),
        "gpus_shared": len(held.shared),
        "seconds": round(seconds, 1),
    }
    harness.finish("kill_tests", figures)
    used_twice = bool(watch.twice) or not watch.used or bool(held.exceeded)
    return int(
        bool(lost) or used_twice or bool(left_out or copies) or wrong != 0 or max(apart, default=1.0) > 1e-4
    )


if __name__ == "__main__":
    sys.exit(main())
