"""What it costs a program to run as a plain job, against the same program by hand.

    python -m benchmarks.plain_overhead [--pairs 7] [--seconds 15]

A program computes for some seconds, writes lines, and says how far it is in a file. It runs by hand, and behind a
worker's guard with its output, its status file and its pattern read as in a job. Ray and the scheduler are left
out: they are not in its way while it runs.

* `plain_overhead`: median over pairs of wall time behind the guard over that by hand, less one, starts included.
* `worker_cpu`: CPU of the worker and the guard per second that the program runs, in cores.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from coadapt.core.doors import Processes
from coadapt.executor.programs.command_processes import CommandLaunch, CommandProcesses
from coadapt.executor.protocol.command_events import Begin, Ended

from .arguments import at_least
from .harness import finish, table

# A fixed amount of work, so that the wall time says what was in its way.
PROGRAM = """
import json, sys, time
rounds = int(sys.argv[1])
for n in range(rounds):
    total = 0
    for i in range(700_000):
        total += i * i
    print(f"step {n + 1} of {rounds}, {total}", flush=True)
    with open("status.jsonl", "a") as file:
        file.write(json.dumps({"step": n + 1, "steps": rounds}) + chr(10))
"""
ROUND_S = 0.05  # about how long one round of the program takes


def by_hand(command: list[str], folder: Path) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def as_a_job(command: list[str], folder: Path) -> tuple[float, float]:
    """Return the wall time behind a guard, and the CPU that its worker spent meanwhile."""
    launch = CommandLaunch(
        "bench-1",
        tuple(command),
        Processes.GPU,
        1,
        1,
        cwd=str(folder),
        status_file="status.jsonl",
        pattern=r"step (?P<step>\d+) of (?P<of>\d+)",
    )
    codes: list[int] = []
    processes = CommandProcesses(
        launch, lambda event: codes.append(event.code) if isinstance(event, Ended) else None
    )
    thread = threading.Thread(target=processes.run, args=("127.0.0.1",))
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    thread.start()
    processes.send(Begin(1, 0, 1, 0, 1, "127.0.0.1", 1))
    thread.join()
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    if codes != [0]:
        raise SystemExit(f"the program ended with status {codes}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=at_least(1), default=7)
    parser.add_argument("--seconds", type=at_least(1), default=15)
    arguments = parser.parse_args()
    command = [sys.executable, "-u", "-c", PROGRAM, str(round(arguments.seconds / ROUND_S))]
    rows, cpu = [], []
    with tempfile.TemporaryDirectory() as made:
        for _ in range(arguments.pairs):
            hand_s = by_hand(command, Path(made))
            os.unlink(Path(made) / "status.jsonl")
            job_s, worker_s = as_a_job(command, Path(made))
            os.unlink(Path(made) / "status.jsonl")
            rows.append([hand_s, job_s, job_s / hand_s - 1])
            cpu.append(worker_s / job_s)
    table("Wall time of one program, s", ["by hand", "as a job", "more"], rows)
    overhead = statistics.median(row[2] for row in rows)
    finish(
        "plain_overhead", {"plain_overhead": round(overhead, 4), "worker_cpu": round(statistics.median(cpu), 4)}
    )


if __name__ == "__main__":
    main()
