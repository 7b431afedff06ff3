"""What a hostile training script reaches under each isolation, and what fuzzed input does to the service.

A cluster is started with each isolation. A victim job with a secret in its environment runs there, and the attack
of `benchmarks/attack/attack.py` as a native script and as a command. Then damaged wire messages, job files, bodies
and packages are read, and the API is asked whatever its description allows. Where an isolation or a tool cannot be
had on this machine, its figure is null and the reason is printed.
* wrong_answers: of the table of routes, roles and owners. answers_5xx: of schemathesis. crashes: of damaged input.
* known_faults: of installed packages for which a release with the remedy exists, as pip-audit knows them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from coadapt.client import jobfile
from coadapt.client.client import Client
from coadapt.core.isolation import Isolation
from coadapt.core.reports import Progress, Report, StepRow
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.executor.protocol.messages import Crashed, Finished, Heartbeat, Profiled, Ready
from coadapt.executor.protocol.wire import EVENTS, MessageError, decoded, encoded
from coadapt.executor.sandbox.line import problem
from coadapt.executor.sandbox.ownership import closed_to

from .harness import PeakMemory, finish, table

ATTACK = Path(__file__).with_name("attack") / "attack.py"
CLUSTER = "1x t4:3"
WAIT_S = 600.0
STEPS = (
    *("inherits the token", "reads the token", "reads the store", "lists all jobs", "reads their environment"),
    *("may end the scheduler", "runs code in the scheduler", "cancels another's job"),
)
KINDS = {"native": "script: attack.py\nprofile: false\n", "command": "script: attack.py\nelastic: false\n"}
VICTIM = "name: victim\nscript: wait.py\nelastic: false\nenv: {WANDB_API_KEY: hunter2}\n"
PASSABLE = "COADAPT_BENCHMARK_PASSABLE"
ROW = StepRow(1, 2, 32, 0, 0.25, 0.01, 12)
MESSAGES = (
    Ready("print", 32, 10, None, "SGD", False, True, 2),
    Heartbeat(1, 2),
    Profiled(ROW, asked_samples=1e6),
    Finished(4, True, {"loss": 0.25}, "epoch 1 of 2"),
    Crashed("RuntimeError: my bug", "Traceback …", out_of_memory=True),
    Report(
        *(3, "a100", 1, 2, [ROW, ROW], None, 0.5, 64, 32, 0, 0.1, 1.5),
        Progress(0, None, 0.5, 12, 768, 900.0),
        {"loss": 0.25, "seen": 12},
    ),
)
JOB_FILE = b"""name: demo
script: train.py
args: [--lr, "0.1"]
env: {A: b}
resources: {min_gpus: 1, max_gpus: 4, gpu_types: [a100, t4]}
training: {initial_batch_size: 32, max_batch_size: 512, checkpoint: {url: /data/demo, keep: 2}}
"""


# --- the attack ---------------------------------------------------------------------------------------------


def attack(isolation: Isolation) -> dict[str, set[str]]:
    """Return the steps that succeed, by the kind of job that tries them."""
    outer = Path(tempfile.mkdtemp(prefix="coadapt-security-"))
    outer.chmod(0o711)
    settings = Settings(
        state_dir=str(outer / "state"), isolation=isolation, round_interval_s=1.0, restart_cost_s=1.0
    )
    try:
        with local_cluster.cluster(CLUSTER, settings=settings) as client:
            return attacked(client, outer, settings)
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def attack_apart(isolation: Isolation) -> dict[str, set[str]]:
    """Do the same in a process of its own: one process connects to one Ray cluster."""
    command = [sys.executable, "-m", "benchmarks.security", "--attack", isolation.value]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {kind: set(steps) for kind, steps in json.loads(told.splitlines()[-1]).items()}


def attacked(client: Client, outer: Path, settings: Settings) -> dict[str, set[str]]:
    address = json.loads((Path(settings.state_dir) / "cluster.json").read_text())["address"]
    found = {}
    for kind, text in KINDS.items():
        victim = submitted(client, outer, "victim", VICTIM, "import time\ntime.sleep(3600)\n")
        until(client, victim, ("running",))
        mark = Path(tempfile.gettempdir()) / f"coadapt-mark-{os.getpid()}-{kind}"
        words = json.dumps([settings.state_dir, address, victim, str(mark)])
        job = f"name: attack-{kind}\n{text}args: {words}\nmax_failures: 0\n"
        attacker = submitted(client, outer, f"attack-{kind}", job, ATTACK.read_text())
        until(client, attacker, ("succeeded", "failed"))
        output = "".join(client.logs(attacker))
        lines = [line for line in output.splitlines() if line.startswith("ATTACK ")]
        if not lines:
            raise SystemExit(f"the attack as a {kind} job did not end: {output[-500:]}")
        found[kind] = set(json.loads(lines[-1].removeprefix("ATTACK ")))
        mark.unlink(missing_ok=True)
        client.cancel(victim)
    return found


def submitted(client: Client, outer: Path, name: str, job: str, script: str) -> str:
    folder = outer / name
    folder.mkdir(exist_ok=True)
    (folder / "job.yaml").write_text(job)
    (folder / ("attack.py" if name.startswith("attack") else "wait.py")).write_text(script)
    return client.submit(folder / "job.yaml")


def until(client: Client, job_id: str, phases: tuple[str, ...]) -> None:
    deadline = time.monotonic() + WAIT_S
    while (row := client.describe(job_id))["phase"] not in phases:
        if time.monotonic() > deadline:
            raise SystemExit(f"{job_id} is {row['phase']} after {WAIT_S:g} s: {row['reason']}")
        time.sleep(0.5)  # between two questions to the service, up to a limit


def make_passable() -> None:
    """Begin again where other users reach Python, if only a folder around it keeps them from it.

    That is a mount namespace of this process alone; nothing of the machine changes.
    """
    closed = closed_to(Path(sys.base_prefix))
    if closed is None or os.geteuid() != 0 or PASSABLE in os.environ or shutil.which("unshare") is None:
        return
    python = Path(sys.base_prefix)
    kept = tempfile.mkdtemp(prefix="coadapt-python-")
    script = (
        f"mount --bind {python} {kept} && mount -t tmpfs -o mode=755 none {closed} && mkdir -p {python}"
        f' && mount --bind {kept} {python} && exec "$@"'
    )
    os.environ[PASSABLE] = "1"
    command = [sys.executable, "-m", "benchmarks.security", *sys.argv[1:]]
    os.execvp("unshare", ["unshare", "-m", "sh", "-c", script, "sh", *command])


# --- damaged input --------------------------------------------------------------------------------------------


def fuzzed(messages: int, job_files: int) -> tuple[int, float]:
    """Read damaged messages and job files; return how many were answered otherwise than by a sentence, and MiB."""
    draw, memory, crashes = random.Random(54), PeakMemory(), 0
    whole = [encoded(one, "j-1") for one in MESSAGES]
    for _ in range(messages):
        try:
            decoded(damaged(draw, draw.choice(whole)), EVENTS, "j-1")
        except MessageError:
            continue
        except Exception as error:
            crashes += 1
            print(f"wire: {type(error).__name__}: {error}")
    for _ in range(job_files):
        try:
            jobfile.parse(damaged(draw, JOB_FILE))
        except jobfile.JobFileError:
            continue
        except Exception as error:
            crashes += 1
            print(f"job file: {type(error).__name__}: {error}")
    return crashes, memory.gib() * 1024


def damaged(draw: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(draw.randint(1, 8)):
        at = draw.randrange(len(found))
        found[at : at + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
    return bytes(found)


def main() -> None:
    """Print what each isolation stops."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--job-files", type=int, default=20_000)
    parser.add_argument("--bodies", type=int, default=15_000)
    parser.add_argument("--packages", type=int, default=15_000)
    parser.add_argument("--examples", type=int, default=50, help="of schemathesis, for each route")
    parser.add_argument("--no-attack", action="store_true", help="leave out what needs a cluster")
    parser.add_argument("--attack", type=Isolation, help="only the attack under one isolation, as JSON")
    arguments = parser.parse_args()
    make_passable()
    if arguments.attack is not None:
        print(json.dumps({kind: sorted(steps) for kind, steps in attack(arguments.attack).items()}))
        return
    crashes, _ = fuzzed(arguments.messages, arguments.job_files)
    memory = PeakMemory()
    from .attack import api  # it loads Ray, which reads its token once

    crashes += api.broken_bodies(arguments.bodies, damaged) + api.broken_packages(arguments.packages, damaged)
    peak_mib = memory.gib() * 1024
    faults, told = api.known_faults()
    print(told)
    failed = api.answers_5xx(arguments.examples)
    if failed is None:
        print("schemathesis is not installed here, so that the API's description was not tried")
    reached: dict[Isolation, dict[str, set[str]]] = {}
    for isolation in () if arguments.no_attack else Isolation:
        if why := problem(isolation):
            print(f"{isolation}: not tried here: {why}")
        else:
            reached[isolation] = attack_apart(isolation)
    columns = [(isolation, kind) for isolation in reached for kind in KINDS]
    rows = [
        [step, *("yes" if step in reached[isolation][kind] else "-" for isolation, kind in columns)]
        for step in STEPS
    ]
    table("What a training script can do", ["step", *(f"{one}, {kind}" for one, kind in columns)], rows)
    steps = {one: len(set().union(*found.values())) for one, found in reached.items()}
    apart = [steps.get(one) for one in (Isolation.USER, Isolation.NAMESPACE)]
    figures = {
        "steps_succeeded": sum(one for one in apart if one is not None)
        if any(o is not None for o in apart)
        else None,
        **{f"steps_succeeded_{one}": steps.get(one) for one in Isolation},
        "token_inherited": sum(
            "inherits the token" in done for found in reached.values() for done in found.values()
        ),
        "wrong_answers": api.wrong_answers(),
        "answers_5xx": failed,
        "known_faults": faults,
        "crashes": crashes,
        "peak_mib": round(peak_mib, 1),
    }
    inputs = f"{arguments.messages} messages, {arguments.job_files} job files, {arguments.bodies} bodies"
    finish("security", figures, f"{inputs} and {arguments.packages} packages")


if __name__ == "__main__":
    main()
