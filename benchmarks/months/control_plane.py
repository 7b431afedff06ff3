"""Ray's control plane is stopped for a while under jobs that train."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from coadapt.client.client import Client
from coadapt.client.cluster_record import ClusterRecord
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster

from .counted_jobs import PATIENCE_S, lost_steps, steps_in, submit, until

JOBS = 2
STEPS = 50  # of each job, before the fault and after
POLL_S = 0.1


@dataclass(frozen=True)
class Outcome:
    """What became of it. `healed_s`: from the end of the fault until a job that was submitted then trained."""

    rounds_meanwhile: int
    answers_meanwhile: bool
    healed_s: float
    steps_lost: int
    processes_restarted: int
    jobs_lost: int


def stopped(seconds: float) -> Outcome:
    """Stop it for some seconds, let it go on, and submit one more job."""
    with tempfile.TemporaryDirectory(prefix="coadapt-control-") as folder:
        home = Path(folder) / "home"
        settings = Settings(state_dir=str(home), policy="fifo", round_interval_s=5.0)
        before = os.environ.get("COADAPT_HOME")
        os.environ["COADAPT_HOME"] = str(home)
        try:
            return _tried(Path(folder), settings, seconds)
        finally:
            local_cluster.down(home)
            if before is None:
                del os.environ["COADAPT_HOME"]
            else:
                os.environ["COADAPT_HOME"] = before


def _tried(folder: Path, settings: Settings, seconds: float) -> Outcome:
    client = local_cluster.up(f"1x t4:{JOBS + 1}", settings=settings)
    try:
        files = [submit(client, folder, number) for number in range(JOBS)]
        until(lambda: sum(row["phase"] == "running" for row in client.list()) == JOBS)
        marks = [len(steps_in(file)) for file in files]  # measuring has steps, too, in processes of its own
        until(lambda: all(len(steps_in(file)) > mark + STEPS for file, mark in zip(files, marks, strict=True)))
        rounds = client.cluster()["rounds"]
        control = _control_plane(settings)
        control.send_signal(signal.SIGSTOP)
        try:
            answers = _answers_for(client, seconds)
            meanwhile = client.cluster()["rounds"] - rounds
        finally:
            control.send_signal(signal.SIGCONT)
        healed_s = _heals(client, submit(client, folder, JOBS))
        ends = [len(steps_in(file)) for file in files]
        until(lambda: all(len(steps_in(file)) > mark + STEPS for file, mark in zip(files, ends, strict=True)))
        made = [steps_in(file)[mark:] for file, mark in zip(files, marks, strict=True)]
        return Outcome(
            meanwhile,
            answers,
            healed_s,
            sum(lost_steps(steps) for steps in made),
            sum(len({step.pid for step in steps}) - 1 for steps in made),
            sum(row["phase"] != "running" for row in client.list()),
        )
    finally:
        client.close()


def _control_plane(settings: Settings) -> psutil.Process:
    record = ClusterRecord.load(settings.state_dir)
    assert record is not None, "the cluster has no record"
    return next(p for one in record.head if (p := one.alive()) is not None and p.name() == "gcs_server")


def _answers_for(client: Client, seconds: float) -> bool:
    """Return whether the scheduler answered all the time, for some seconds."""
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        client.list()
        time.sleep(min(1.0, left_s))  # the fault lasts so long
    return True


def _heals(client: Client, file: Path) -> float:
    """Return how long it takes until the last job trains."""
    began_s = time.monotonic()
    while not any(row["name"] == file.name.replace("steps", "steps-") and row["steps"] for row in client.list()):
        if time.monotonic() > began_s + PATIENCE_S:
            return float("inf")
        time.sleep(POLL_S)  # between two looks, up to a limit
    return time.monotonic() - began_s
