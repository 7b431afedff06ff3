"""Programs as people bring them: by hand, and unchanged as jobs on a small emulated cluster.

    python -m benchmarks.doors [--only KIND,…]

Each program of `programs_of_doors/` runs by hand on this machine, as a process, by torchrun, or by two of them.
Then it runs as a job. As by hand means: the same exit, the same error, and the same last line or file of results.
Those with `sizes` are also stopped in the middle, go on at another size on another GPU type, and lose a process by
SIGKILL. One that a framework is missing for is told as not installed, and does not count as run.

* `ran`: programs that did as a job what they did by hand.
* `changed_lines_max`: lines that name Coadapt; of programs behind the first two doors, `unchanged_lines_max`.
* `steps_lost_max`: steps made again after a stop or a kill, beyond what the program's own checkpoints allow.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from coadapt.client.client import Client
from coadapt.core.job import JobSpec
from coadapt.core.schemas import JobDetails
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster

from .arguments import some_of
from .doors_by_hand import Outcome, by_hand, in_words
from .doors_programs import FOLDER, PROGRAMS, Program
from .harness import finish, table

CLUSTER = "2x t4:2, 1x a100:2"
ROUND_S = 5.0
LIMIT_S = 240.0  # of a job
STEPS_FIRST = 15  # that a restarting job makes before it is stopped, and again before it is killed


@dataclass(frozen=True)
class Trial:
    """What a program did as a job. `lost`: steps beyond its own checkpoints; None: it was not stopped."""

    outcome: Outcome
    restarts: int = 0
    again: int | None = None
    lost: int | None = None
    told: float = 0.0  # the fraction that was known at its end
    events: Sequence[str] = ()

    def problems(self, program: Program, hand: Outcome) -> list[str]:
        """Return what was not as by hand, a sentence each."""
        found = self.outcome.unlike(hand)
        if program.tells and self.told < 1.0:
            found.append(f"its progress was known up to {self.told:.0%}")
        if program.event and not any(program.event in text for text in self.events):
            found.append(f"no event tells that it {program.event}")
        if self.lost:
            found.append(f"{self.lost} steps were made again beyond its own checkpoints")
        if program.sizes and self.restarts < 2:
            found.append(f"it was started again {self.restarts} times instead of twice")
        return found


def spec_of(program: Program) -> JobSpec:
    return JobSpec.model_validate(
        {"name": program.name, "working_dir": str(FOLDER), "env": {"PYTHONUNBUFFERED": "1"}, **program.job}
    )


def until(holds: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{what}: not after {LIMIT_S:.0f} s")
        time.sleep(0.2)


def output(client: Client, job_id: str) -> str:
    return "".join(client.logs(job_id))


def ended(client: Client, program: Program, job_id: str, allowed: int | None = None) -> Trial:
    """Wait for the end of a job; return what it did. `allowed`: steps that it may make again."""
    client.wait([job_id], timeout_s=LIMIT_S)
    details, said = client.describe(job_id), output(client, job_id)
    with tempfile.TemporaryDirectory() as folder:
        client.fetch_outputs(job_id, folder)
        outcome = Outcome(details["phase"] == "succeeded", program.result(said, Path(folder)), details["reason"])
    trial = Trial(
        outcome, details["restarts"] + details["failures"], told=details["fraction"], events=texts(details)
    )
    if allowed is None:
        return trial
    again = len(program.step_numbers(said)) - program.steps
    return Trial(**{**vars(trial), "again": again, "lost": max(again - allowed, 0)})


def texts(details: JobDetails) -> list[str]:
    return [event["text"] for event in details["events"]]


def stopped_and_killed(client: Client, program: Program) -> Trial:
    """Stop a job in the middle, let it go on where its other size is, and kill one of its processes there."""
    job_id = client.submit(spec_of(program))
    until(lambda: len(program.step_numbers(output(client, job_id))) >= STEPS_FIRST, f"{job_id} makes steps")
    first = client.describe(job_id)
    client.pause(job_id)
    until(lambda: client.describe(job_id)["status"] == "paused", f"{job_id} has left its GPUs")
    other = client.submit(blocker(str(first["gpu_type"])))
    until(lambda: client.describe(other)["phase"] == "running", f"{other} runs")
    made = len(program.step_numbers(output(client, job_id)))
    client.resume(job_id)
    until(
        lambda: len(program.step_numbers(output(client, job_id))) >= made + STEPS_FIRST,
        f"{job_id} makes steps again",
    )
    second = client.describe(job_id)
    if (second["gpu_type"], second["gpus"]) == (first["gpu_type"], first["gpus"]):
        raise RuntimeError(f"{job_id} was to go on at another size, and did so on {second['gpus']} GPUs")
    psutil.Process(processes_of(job_id, program.file)[-1]).kill()
    trial = ended(client, program, job_id, program.lost_by_stop + program.lost_by_kill)
    client.cancel(other)
    return trial


def blocker(gpu_type: str) -> JobSpec:
    """Return a job that holds all GPUs of a type."""
    gpus = {"t4": 4, "a100": 2}[gpu_type]
    return JobSpec.model_validate(
        {
            "name": "blocker",
            "command": ["sleep", "600"],
            "working_dir": str(FOLDER),
            "resources": {"gpus": gpus, "gpu_types": [gpu_type]},
        }
    )


def processes_of(job_id: str, file: str) -> list[int]:
    """Return the processes of a job that run its program themselves, oldest first."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "create_time"]):
        words = process.info["cmdline"] or []
        runs = any(word.endswith(file) for word in words[1:3]) and not any(
            "torchrun" in word for word in words[:2]
        )
        try:
            if runs and process.environ().get("COADAPT_JOB_ID") == job_id:
                found.append((process.info["create_time"], process.info["pid"]))
        except psutil.Error:
            continue
    return [pid for _, pid in sorted(found)]


def as_jobs(programs: Sequence[Program], state: Path) -> dict[str, Trial | str]:
    """Run programs as jobs; return what each did, or why that is not known."""
    trials: dict[str, Trial | str] = {}
    settings = Settings(state_dir=str(state), round_interval_s=ROUND_S, restart_cost_s=5.0)
    with local_cluster.cluster(CLUSTER, settings=settings) as client:
        together = [program for program in programs if not program.sizes]
        ids = {program.name: client.submit(spec_of(program)) for program in together}
        for program in together:
            try:
                trials[program.name] = ended(client, program, ids[program.name])
            except TimeoutError as error:
                trials[program.name] = str(error)
                client.cancel(ids[program.name])
        for program in programs:
            if program.sizes:
                print(f"{program.name} …", file=sys.stderr, flush=True)
                try:
                    trials[program.name] = stopped_and_killed(client, program)
                except (TimeoutError, RuntimeError, IndexError) as error:
                    trials[program.name] = str(error)
                    for row in client.list():
                        if row["finished_s"] is None:
                            client.cancel(row["id"])
    return trials


def changed_lines(program: Program) -> int:
    """Return how many lines of a program are there for Coadapt."""
    return len(re.findall(r"^.*\bcoadapt\b.*$", (FOLDER / program.file).read_text(), re.MULTILINE))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [program.name for program in PROGRAMS]
    parser.add_argument("--only", type=some_of(names), help="kinds of programs, with commas between them")
    arguments = parser.parse_args()
    chosen = [program for program in PROGRAMS if program.name in (arguments.only or names)]
    here = [program for program in chosen if program.installed]
    started_s = time.perf_counter()
    scratch = Path(tempfile.mkdtemp(prefix="coadapt-doors-"))
    try:
        hands = {program.name: by_hand(program, scratch / program.name) for program in here}
        trials = as_jobs(here, scratch / "state")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    rows, told, ran, lost = [], [], 0, [0]
    for program in chosen:
        cells: list[object] = [program.name, program.door, changed_lines(program)]
        if not program.installed:
            rows.append([*cells, "-", "-", "-", f"{program.needs} is not installed"])
            continue
        hand, trial = hands[program.name], trials[program.name]
        problems = [trial] if isinstance(trial, str) else trial.problems(program, hand)
        ran += not problems
        told += [f"{program.name}: {problem}" for problem in problems]
        again = "-"
        if isinstance(trial, Trial) and trial.lost is not None:
            lost.append(trial.lost)
            again = f"{trial.again} of {program.lost_by_stop + program.lost_by_kill}"
        job = "-" if isinstance(trial, str) else in_words(trial.outcome)
        rows.append([*cells, in_words(hand), job, again, "as by hand" if not problems else "NO"])
    columns = ["program", "door", "lines", "by hand", "as a job", "steps again, of allowed", ""]
    table("Programs by hand and as jobs", columns, rows)
    print("\n".join(told))
    finish(
        "doors",
        {
            "programs": len(chosen),
            "ran": ran,
            "not_as_by_hand": len(here) - ran,
            "not_installed": len(chosen) - len(here),
            "changed_lines_max": max(map(changed_lines, chosen)),
            "unchanged_lines_max": max((changed_lines(p) for p in chosen if p.untouched), default=0),
            "steps_lost_max": max(lost),
            "wall_s": round(time.perf_counter() - started_s, 1),
        },
    )
    return int(ran < len(here))


if __name__ == "__main__":
    sys.exit(main())
